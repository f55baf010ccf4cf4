// The reader of tokenizer.json against Hugging Face's `tokenizers` (fixtures/make_tokenizers.py).
#include "workloads/decoder/bpe.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/files.h"
#include "support/command.h"

namespace graft::workloads::decoder {
namespace {

using nlohmann::json;

std::filesystem::path bpe_fixture(const std::string& name) {
  return std::filesystem::path(GRAFT_SOURCE_DIR) / "tests/workloads/fixtures" / name;
}

class Bpe : public testing::TestWithParam<const char*> {};

TEST_P(Bpe, GivesTheIdsAndTextsOfTokenizers) {
  const BpeTokenizer tokenizer(bpe_fixture(std::string(GetParam()) + "_tokenizer.json"));
  const json cases = formats::read_json(bpe_fixture(std::string(GetParam()) + "_ids.json"));
  ASSERT_GE(cases.size(), 10u);
  for (const json& c : cases) {
    const auto text = c.at("text").get<std::string>();
    const auto ids = c.at("ids").get<std::vector<int64_t>>();
    EXPECT_EQ(tokenizer.encode(text), ids) << text;
    EXPECT_EQ(tokenizer.decode(ids), c.at("decoded").get<std::string>()) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Bpe, testing::Values("qwen", "gpt2", "llama"),
                         [](const auto& info) { return std::string(info.param); });

std::string refusal(const json& tokenizer, const std::string& text = "") {
  const test::Folder folder;
  const std::string file = folder.file("tokenizer.json");
  std::ofstream(file) << tokenizer.dump();
  try {
    (void)BpeTokenizer(file).encode(text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(BpeErrors, NameWhatIsNotKnown) {
  const json good = formats::read_json(bpe_fixture("qwen_tokenizer.json"));
  EXPECT_EQ(refusal(good, "fine"), "");
  const auto with = [&](const char* key, const json& value) {
    json changed = good;
    changed[key] = value;
    return changed;
  };
  const std::pair<json, const char*> wrong[] = {
      {with("pre_tokenizer", {{"type", "UnicodeScripts"}}), "UnicodeScripts"},
      {with("normalizer", {{"type", "Lowercase"}}), "Lowercase"},
      {with("decoder", {{"type", "CTC"}}), "CTC"},
      {with("post_processor", {{"type", "RobertaProcessing"}}), "RobertaProcessing"},
      {with("model", {{"type", "Unigram"}}), "Unigram"},
      {with("model", {{"type", "BPE"}}), "vocab"},
      {with("model", {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", {"a b"}}}), "'b'"},
      {with("model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 0}}}, {"merges", json::array()}}),
       "the id 0"},
      {json::array(), "no model"},
  };
  for (const auto& [tokenizer, says] : wrong)
    EXPECT_NE(refusal(tokenizer).find(says), std::string::npos) << refusal(tokenizer);
  const json few{{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", json::array()}}}};
  EXPECT_EQ(refusal(few, "aaa"), "");
  EXPECT_NE(refusal(few, "ab").find("no token for 'b'"), std::string::npos);
  EXPECT_NE(refusal(few, "a\xff").find("byte 1"), std::string::npos);
}

TEST(BpeErrors, AnIdThatThereIsNot) {
  const BpeTokenizer tokenizer(bpe_fixture("gpt2_tokenizer.json"));
  EXPECT_EQ(tokenizer.vocabulary(), 300);
  EXPECT_THROW(tokenizer.decode(std::vector<int64_t>{300}), std::runtime_error);
}

}  // namespace
}  // namespace graft::workloads::decoder
