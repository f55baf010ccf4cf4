// MiniLM against Hugging Face's BertModel (fixtures/make_minilm.py), its regions against one
// another, and its configuration's errors.
#include "workloads/minilm/model.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/report.h"
#include "workloads/minilm/tokenizer.h"

namespace graft::workloads::minilm {
namespace {

namespace fs = std::filesystem;

// Routines sum in different orders: one of eager's attentions gives Hugging Face's bits, the other
// is 1.2e-7 away.
constexpr double kTolerance = 1e-5;

class MiniLMModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(default_folder() / "model.safetensors")) {
      GTEST_SKIP() << "no model in " << default_folder()
                   << "; tools/setup.sh fetches it, GRAFT_MINILM_DIR names another";
    }
    std::ifstream in(fs::path(GRAFT_SOURCE_DIR) /
                     "tests/workloads/fixtures/minilm_embeddings.json");
    expected_ = nlohmann::json::parse(in);
    for (const auto& row : expected_)
      sentences_.push_back(row["sentence"].get_ref<const std::string&>());
  }

  static const MiniLM& model() {
    static const MiniLM loaded(default_folder());
    return loaded;
  }
  Tokenizer::Batch batch() const {
    return Tokenizer(default_folder() / "vocab.txt").batch(sentences_);
  }
  void expect_embeddings(const at::Tensor& embeddings) const {
    ASSERT_EQ(embeddings.sizes(), (at::IntArrayRef{3, 384}));
    for (int i = 0; i < 3; ++i) {
      const float* row = embeddings.data_ptr<float>() + i * 384;
      for (int j = 0; j < 8; ++j)
        EXPECT_NEAR(row[j], expected_[i]["embedding"][j].get<double>(), kTolerance)
            << i << ' ' << j;
    }
    EXPECT_TRUE(at::allclose(at::linalg_vector_norm(embeddings, 2, 1), at::ones({3})));
  }

  nlohmann::json expected_;
  std::vector<std::string_view> sentences_;
};

TEST_F(MiniLMModelTest, GivesTheEmbeddingsOfHuggingFace) {
  const auto [ids, mask] = batch();
  for (size_t i = 0; i < sentences_.size(); ++i) {
    const auto row = expected_[i]["ids"].get<std::vector<int64_t>>();
    EXPECT_TRUE(std::equal(row.begin(), row.end(), ids.data_ptr<int64_t>() + i * ids.size(1)));
  }
  expect_embeddings(model().encode(ids, mask, Regions::eager(Attention::Sdpa)));
  expect_embeddings(model().encode(ids, mask, Regions::eager(Attention::Explicit)));
}

TEST_F(MiniLMModelTest, CompiledRegionsGiveEagersEmbeddings) {
  const auto [ids, mask] = batch();
  graft::Options sync;
  sync.async = false;
  for (Attention attention : {Attention::Sdpa, Attention::Explicit}) {
    const at::Tensor eager = model().encode(ids, mask, Regions::eager(attention));
    for (Cut cut : {Cut::Elementwise, Cut::Blocks}) {
      const Regions regions = Regions::compiled(sync, cut, attention);
      for (int call = 0; call < 12; ++call) {
        const at::Tensor embeddings = model().encode(ids, mask, regions);
        expect_embeddings(embeddings);
        EXPECT_TRUE(at::allclose(embeddings, eager, /*rtol=*/0, /*atol=*/2e-6)) << "call " << call;
      }
      for (const auto& function : regions.compiled_functions) {
        EXPECT_GT(function.report().calls, 0) << function.name;
        // Matmuls alone are ATen's.
        if (function.name == "linear_qkv")
          EXPECT_EQ(function.report().verdict, Verdict::Break);
        else
          EXPECT_TRUE(test::was_compiled(function.report())) << function.name;
      }
    }
  }
}

TEST_F(MiniLMModelTest, PaddingChangesNothing) {
  const Tokenizer tokenizer(default_folder() / "vocab.txt");
  const Regions regions = Regions::eager();
  const std::string_view one[] = {sentences_[0]};
  const auto tight = tokenizer.batch(one), padded = tokenizer.batch(one, 64);
  EXPECT_TRUE(at::allclose(model().encode(tight.ids, tight.mask, regions),
                           model().encode(padded.ids, padded.mask, regions), /*rtol=*/0,
                           kTolerance));
}

TEST_F(MiniLMModelTest, RefusesOtherInputs) {
  const Regions regions = Regions::eager();
  const at::Tensor ids = at::zeros({1, 4}, at::kLong);
  EXPECT_THROW(model().encode(ids, at::ones({1, 5}, at::kLong), regions), std::invalid_argument);
  EXPECT_THROW(model().encode(ids, at::ones({1, 4}), regions), std::invalid_argument);
  EXPECT_THROW(
      model().encode(at::zeros({1, 513}, at::kLong), at::ones({1, 513}, at::kLong), regions),
      std::invalid_argument);
}

TEST(MiniLMConfigTest, NamesWhatIsWrong) {
  const fs::path file =
      fs::temp_directory_path() / ("graft_config_" + std::to_string(::getpid()) + ".json");
  const nlohmann::json good = {
      {"hidden_size", 8},       {"num_attention_heads", 2}, {"num_hidden_layers", 1},
      {"intermediate_size", 9}, {"vocab_size", 10},         {"max_position_embeddings", 11},
      {"type_vocab_size", 2},   {"layer_norm_eps", 1e-12},  {"hidden_act", "gelu"}};
  const auto error_of = [&](const std::string& text) -> std::string {
    std::ofstream(file) << text;
    try {
      Config::read(file);
      return "accepted";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  };
  const auto with = [&](const char* key, nlohmann::json value) {
    nlohmann::json changed = good;
    changed[key] = std::move(value);
    return error_of(changed.dump());
  };
  EXPECT_EQ(error_of(good.dump()), "accepted");
  EXPECT_EQ(Config::read(file).intermediate, 9);
  const std::pair<std::string, const char*> rows[] = {
      {error_of("{"), "is not valid JSON: it ends too early"},
      {error_of("[]"), "not a JSON object"},
      {error_of(std::string(1'000'000, '[')), "is not valid JSON"},
      {with("hidden_size", 0), "hidden_size is 0; expected an integer of 1"},
      {with("hidden_size", -8), "hidden_size is -8"},
      {with("hidden_size", 8.5), "hidden_size is 8.5"},
      {with("vocab_size", 9223372036854775807), "expected an integer of 1 to 10000000"},
      {with("vocab_size", nullptr), "vocab_size is null"},
      {with("num_attention_heads", 3), "not a multiple"},
      {with("layer_norm_eps", "x"), "layer_norm_eps"},
      {with("hidden_act", "relu"), "this model has only \"gelu\""},
      {with("position_embedding_type", "relative_key"), "only \"absolute\""},
  };
  for (const auto& [error, part] : rows) EXPECT_NE(error.find(part), std::string::npos) << error;
  fs::remove(file);
  EXPECT_THROW(Config::read(file), std::runtime_error);
}

}  // namespace
}  // namespace graft::workloads::minilm
