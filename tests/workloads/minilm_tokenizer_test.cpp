// The tokenizer against Hugging Face's (fixtures/make_minilm.py), and against vocabularies that are
// not one.
#include "workloads/minilm/tokenizer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "workloads/minilm/model.h"

namespace graft::workloads::minilm {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int64_t>;

class MiniLMTokenizerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    file_ = fs::temp_directory_path() / ("graft_vocab_" + std::to_string(::getpid()) + ".txt");
  }
  void TearDown() override { fs::remove(file_); }
  Tokenizer make(const std::string& lines) const {
    std::ofstream(file_) << lines;
    return Tokenizer(file_);
  }
  void expect_refused(const std::string& lines, const std::string& part) const {
    try {
      make(lines);
      ADD_FAILURE() << "accepted; expected an error with: " << part;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  fs::path file_;
};

TEST_F(MiniLMTokenizerTest, GivesTheIdsOfHuggingFace) {
  const fs::path vocabulary = default_folder() / "vocab.txt";
  if (!fs::exists(vocabulary))
    GTEST_SKIP() << vocabulary << " is not there; tools/setup.sh fetches it";
  const Tokenizer tokenizer(vocabulary);
  std::ifstream in(fs::path(GRAFT_SOURCE_DIR) / "tests/workloads/fixtures/minilm_tokens.json");
  for (const auto& row : nlohmann::json::parse(in)) {
    const std::string text = row["text"];
    EXPECT_EQ(tokenizer.encode(text, 10'000), row["ids"].get<Ids>()) << text;
  }
}

TEST_F(MiniLMTokenizerTest, TakesTheLongestPieces) {
  const Tokenizer tokenizer =
      make("[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##aff\n##able\n##a\nunaff\n,\n");
  EXPECT_EQ(tokenizer.encode("Unaffable, UNA"), (Ids{2, 8, 6, 9, 4, 7, 3}));
  EXPECT_EQ(tokenizer.encode("unx"), (Ids{2, 1, 3}));  // a gap makes the whole word unknown
  // A special token that this vocabulary lacks.
  EXPECT_EQ(tokenizer.encode("[MASK]"), (Ids{2, 1, 3}));
  EXPECT_EQ(tokenizer.encode("un\xff\xc0\xaf\xed\xa0\x80"
                             "aff"),
            (Ids{2, 8, 3}));  // what is not UTF-8 is dropped
}

TEST_F(MiniLMTokenizerTest, CutsAndPads) {
  const Tokenizer tokenizer = make("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n");
  EXPECT_EQ(tokenizer.encode("a a a a", 4), (Ids{2, 4, 4, 3}));
  EXPECT_EQ(tokenizer.encode("a a", 0), (Ids{2, 3}));
  EXPECT_EQ(tokenizer.encode(""), (Ids{2, 3}));
  const std::string_view texts[] = {"a", "a a a"};
  const auto batch = tokenizer.batch(texts);
  EXPECT_EQ(batch.ids.sizes(), (at::IntArrayRef{2, 5}));
  EXPECT_EQ(Ids(batch.ids.data_ptr<int64_t>(), batch.ids.data_ptr<int64_t>() + 10),
            (Ids{2, 4, 3, 0, 0, 2, 4, 4, 4, 3}));
  EXPECT_EQ(Ids(batch.mask.data_ptr<int64_t>(), batch.mask.data_ptr<int64_t>() + 10),
            (Ids{1, 1, 1, 0, 0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(tokenizer.batch(texts, 8).ids.size(1), 8);
  EXPECT_EQ(tokenizer.batch(texts, 4).ids.size(1), 4);
}

TEST_F(MiniLMTokenizerTest, SplitsWords) {
  using Words = std::vector<std::u32string>;
  EXPECT_EQ(split_words("Ångström’s café!"), (Words{U"angstrom", U"’", U"s", U"cafe", U"!"}));
  EXPECT_EQ(split_words("値段は100円"), (Words{U"値", U"段", U"は100", U"円"}));
  EXPECT_EQ(split_words("각"), (Words{U"\u1100\u1161\u11A8"}));
  EXPECT_EQ(split_words(" \t\n\u00a0"), Words{});
}

TEST_F(MiniLMTokenizerTest, RefusesWhatIsNoVocabulary) {
  EXPECT_THROW(Tokenizer("/nonexistent/vocab.txt"), std::runtime_error);
  expect_refused("", "has no [UNK]");
  expect_refused("[UNK]\n[CLS]\n[SEP]\n", "has no [PAD]");
  expect_refused("[UNK]\n[CLS]\n[CLS]\n", "line 3 is a token seen before");
}

}  // namespace
}  // namespace graft::workloads::minilm
