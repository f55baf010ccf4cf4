// The decoder against Hugging Face's LlamaForCausalLM and Qwen2ForCausalLM
// (fixtures/make_decoder.py), layer by layer against whole, its names, and the errors of its
// configuration and weights.
#include "workloads/decoder/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "formats/safetensors_writer.h"
#include "workloads/decoder/names.h"

namespace graft::workloads::decoder {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path fixture(const std::string& name) {
  return fs::path(GRAFT_SOURCE_DIR) / "tests/workloads/fixtures" / name;
}

json read_json(const fs::path& file) {
  std::ifstream in(file);
  return json::parse(in);
}

at::Tensor ids_of(const json& rows) {
  at::Tensor out = at::zeros(
      {static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows.front().size())}, at::kLong);
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t j = 0; j < rows[i].size(); ++j) {
      out[static_cast<int64_t>(i)][static_cast<int64_t>(j)] = rows[i][j].get<int64_t>();
    }
  }
  return out;
}

void expect_rows(const at::Tensor& actual, const json& expected, double tolerance) {
  ASSERT_EQ(actual.size(0), static_cast<int64_t>(expected.size()));
  for (int64_t i = 0; i < actual.size(0); ++i) {
    const auto row = expected[static_cast<size_t>(i)].get<std::vector<double>>();
    ASSERT_EQ(actual.size(1), static_cast<int64_t>(row.size()));
    for (int64_t j = 0; j < actual.size(1); ++j) {
      EXPECT_NEAR(actual[i][j].item<double>(), row[static_cast<size_t>(j)], tolerance)
          << i << ' ' << j;
    }
  }
}

template <typename Function>
std::string error_of(Function&& function) {
  try {
    function();
    return "accepted";
  } catch (const std::exception& error) {
    return error.what();
  }
}

class DecoderTest : public ::testing::TestWithParam<const char*> {
 protected:
  fs::path folder() const { return fixture(GetParam()); }
  json expected() const { return read_json(folder() / "expected.json"); }
};

TEST_P(DecoderTest, GivesTheLogitsOfHuggingFace) {
  const json want = expected();
  const Decoder decoder = Decoder::read(folder());
  const at::Tensor got = decoder.forward(ids_of(want["ids"]));
  ASSERT_EQ(got.sizes(), (at::IntArrayRef{2, 11, 32}));
  EXPECT_EQ(got.scalar_type(), at::kFloat);
  // The file has six decimals; logits reach 6.
  expect_rows(got[0], want["first_row"], 1e-5);
  expect_rows(got.select(1, -1), want["last_position"], 1e-5);
}

TEST_P(DecoderTest, ContinuesAsHuggingFaceDoes) {
  const json want = expected();
  const at::Tensor prompt = ids_of(want["ids"])[0];
  const at::Tensor follow = greedy(Decoder::read(folder()), prompt, 12);
  EXPECT_TRUE(at::equal(follow, ids_of(json::array({want["follow"]}))[0])) << follow;
  EXPECT_EQ(greedy(Decoder::read(folder()), prompt, 0).numel(), 0);
}

TEST_P(DecoderTest, ComputesInBfloat16WhenAsked) {
  const at::Tensor ids = ids_of(expected()["ids"]);
  const at::Tensor wide = Decoder::read(folder()).forward(ids);
  const at::Tensor narrow = Decoder::read(folder(), at::kBFloat16).forward(ids);
  EXPECT_EQ(narrow.scalar_type(), at::kBFloat16);
  // Eight bits of mantissa, through two layers.
  EXPECT_TRUE(at::allclose(narrow.to(at::kFloat), wide, /*rtol=*/0.05, /*atol=*/0.1));
}

TEST_P(DecoderTest, LayersShowWhatTheirLinearLayersRead) {
  const Decoder decoder = Decoder::read(folder());
  const Config& c = decoder.config;
  at::Tensor hidden = embed(c, decoder.outer, ids_of(expected()["ids"]));
  for (int64_t i = 0; i < c.layers; ++i) {
    const LayerWeights& w = decoder.layers[static_cast<size_t>(i)];
    std::vector<std::pair<std::string, at::Tensor>> seen;
    const at::Tensor out =
        layer_forward(c, w, hidden, [&](std::string_view linear, const at::Tensor& inputs) {
          seen.emplace_back(linear, inputs);
        });
    EXPECT_TRUE(at::equal(out, layer_forward(c, w, hidden)));
    const auto names = layer_linears(c, i);
    ASSERT_EQ(seen.size(), names.size());
    for (size_t n = 0; n < names.size(); ++n) {
      EXPECT_EQ(seen[n].first, names[n].linear);
      EXPECT_EQ(seen[n].second.sizes(), (at::IntArrayRef{22, names[n].columns}));
      for (size_t other = 0; other < names.size(); ++other) {
        EXPECT_EQ(names[n].inputs == names[other].inputs,
                  at::equal(seen[n].second, seen[other].second));
      }
    }
    // The residuals leave nothing else between what o_proj and down_proj read and what comes out.
    const at::Tensor added = at::linear(seen[3].second, w.o) + at::linear(seen[6].second, w.down);
    EXPECT_TRUE(at::allclose(hidden + added.view_as(hidden), out, 0, 1e-5));
    const at::Tensor gated = at::linear(seen[4].second, w.gate);
    EXPECT_TRUE(at::allclose(gated * gated.sigmoid() * at::linear(seen[5].second, w.up),
                             seen[6].second, 0, 1e-5));
    hidden = out;
  }
  EXPECT_TRUE(
      at::equal(logits(c, decoder.outer, hidden), decoder.forward(ids_of(expected()["ids"]))));
}

TEST_P(DecoderTest, LaterTokensChangeNothingBefore) {
  const Decoder decoder = Decoder::read(folder());
  const at::Tensor ids = ids_of(expected()["ids"]);
  at::Tensor changed = ids.clone();
  changed.slice(1, 6).fill_(3);
  const at::Tensor a = decoder.forward(ids), b = decoder.forward(changed);
  EXPECT_TRUE(at::allclose(a.slice(1, 0, 6), b.slice(1, 0, 6), 0, 1e-6));
  EXPECT_FALSE(at::allclose(a.slice(1, 6), b.slice(1, 6), 0, 1e-2));
}

INSTANTIATE_TEST_SUITE_P(Fixtures, DecoderTest,
                         ::testing::Values("decoder_llama", "decoder_qwen2"));

TEST(DecoderNamesTest, AreThoseOfTheFileInForwardOrder) {
  const Config c = Config::read(fixture("decoder_llama") / "config.json");
  const formats::Safetensors file = formats::read_checkpoint(fixture("decoder_llama"));
  const auto names = linears(c);
  ASSERT_EQ(names.size(), 14);
  EXPECT_EQ(names[0].tensor, "model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(names[7].layer, 1);
  EXPECT_EQ(names[13].tensor, "model.layers.1.mlp.down_proj.weight");
  EXPECT_EQ(names[13].module(), "model.layers.1.mlp.down_proj");
  LayerWeights weights = read_layer(c, file, 1);
  for (size_t i = 7; i < 14; ++i) {
    const at::Tensor& stored =
        file.get(names[i].tensor, at::kFloat, {names[i].rows, names[i].columns});
    EXPECT_TRUE(at::equal(weight_of(weights, names[i].linear), stored)) << names[i].tensor;
  }
  EXPECT_NE(error_of([&] { weight_of(weights, "lm_head"); }).find("no linear layer \"lm_head\""),
            std::string::npos);
}

TEST(DecoderPerplexityTest, IsTheVocabularyOfAModelThatKnowsNothing) {
  Decoder decoder = Decoder::read(fixture("decoder_llama"));
  const at::Tensor ids = (at::arange(50, at::kLong) * 7).remainder(32);
  const double informed = perplexity(decoder, ids, 20);
  decoder.outer.head = at::zeros_like(decoder.outer.head);
  EXPECT_NEAR(perplexity(decoder, ids, 20), 32, 1e-4);
  EXPECT_GT(std::abs(informed - 32), 1);
}

TEST(DecoderPerplexityTest, ScoresEveryTokenButAWindowsFirst) {
  const Decoder decoder = Decoder::read(fixture("decoder_qwen2"));
  const at::Tensor ids = (at::arange(21, at::kLong) * 5 + 1).remainder(32);
  double sum = 0;
  int count = 0;
  for (const auto& [begin, end] : {std::pair{0, 10}, {10, 20}}) {  // the 21st stands alone
    const at::Tensor scores = at::log_softmax(
        decoder.forward(ids.slice(0, begin, end).unsqueeze(0))[0].to(at::kDouble), -1);
    for (int i = begin + 1; i < end; ++i, ++count) {
      sum -= scores[i - 1 - begin][ids[i].item<int64_t>()].item<double>();
    }
  }
  EXPECT_NEAR(perplexity(decoder, ids, 10), std::exp(sum / count), 1e-3);
}

TEST(DecoderErrorsTest, RefusesOtherIds) {
  const Decoder decoder = Decoder::read(fixture("decoder_llama"));
  const auto forward = [&](const at::Tensor& ids) {
    return error_of([&] { decoder.forward(ids); });
  };
  const at::Tensor good = at::zeros({1, 128}, at::kLong);
  EXPECT_EQ(forward(good), "accepted");
  EXPECT_NE(forward(at::zeros({1, 129}, at::kLong)).find("length of 1 to 128"), std::string::npos);
  EXPECT_NE(forward(at::zeros({4}, at::kLong)).find("expected int64 [batch, length]"),
            std::string::npos);
  EXPECT_NE(forward(at::zeros({1, 4})).find("CPUFloatType [1, 4]"), std::string::npos);
  EXPECT_NE(forward(good + 32).find("of 32 to 32; the vocabulary has 32"), std::string::npos);
  EXPECT_NE(forward(good - 1).find("of -1 to -1"), std::string::npos);
  EXPECT_NE(error_of([&] { greedy(decoder, good[0], 1); }).find("at most 128 tokens"),
            std::string::npos);
  EXPECT_NE(error_of([&] { greedy(decoder, good[0].slice(0, 0, 0), 1); }).find("at least one"),
            std::string::npos);
  EXPECT_NE(error_of([&] { perplexity(decoder, good[0].slice(0, 0, 1)); }).find("at least two"),
            std::string::npos);
  EXPECT_NE(error_of([&] { perplexity(decoder, good[0], 129); }).find("windows of 2 to 128"),
            std::string::npos);
}

// A folder that is gone with the test.
class TemporaryFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("graft_decoder_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

using DecoderConfigTest = TemporaryFolder;

TEST_F(DecoderConfigTest, ReadsBothStylesAndDefaults) {
  const Config llama = Config::read(fixture("decoder_llama") / "config.json");
  EXPECT_EQ(llama.head_dim, 8);
  EXPECT_EQ(llama.rope_scaling.kind, RopeScaling::Kind::Llama3);
  EXPECT_EQ(llama.rope_scaling.positions, 64);
  EXPECT_FALSE(llama.qkv_bias);
  const Config qwen2 = Config::read(fixture("decoder_qwen2") / "config.json");
  EXPECT_EQ(qwen2.head_dim, 4);
  EXPECT_EQ(qwen2.rope_theta, 1e6);
  EXPECT_EQ(qwen2.rope_scaling.kind, RopeScaling::Kind::Linear);
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_TRUE(qwen2.tie_embeddings);

  json config = read_json(fixture("decoder_llama") / "config.json");
  for (const char* key : {"rope_parameters", "num_key_value_heads", "head_dim"}) config.erase(key);
  std::ofstream(folder_ / "config.json") << config;
  const Config old = Config::read(folder_ / "config.json");
  EXPECT_EQ(old.kv_heads, 4);
  EXPECT_EQ(old.head_dim, 4);
  EXPECT_EQ(old.rope_theta, 10000);
  EXPECT_EQ(old.rope_scaling.kind, RopeScaling::Kind::None);
}

TEST_F(DecoderConfigTest, NamesWhatIsWrong) {
  const fs::path file = folder_ / "config.json";
  const json llama = read_json(fixture("decoder_llama") / "config.json");
  const json qwen2 = read_json(fixture("decoder_qwen2") / "config.json");
  const auto read = [&](const std::string& text) {
    std::ofstream(file) << text;
    return error_of([&] { Config::read(file); });
  };
  const auto with = [&](json config, const char* pointer, json value) {
    config[json::json_pointer(pointer)] = std::move(value);
    return read(config.dump());
  };
  EXPECT_EQ(read(llama.dump()), "accepted");
  EXPECT_EQ(read(qwen2.dump()), "accepted");
  const json layer_types = {"full_attention", "sliding_attention"};
  const std::pair<std::string, const char*> rows[] = {
      {read("{"), "is not valid JSON: it ends too early"},
      {read(std::string(1'000'000, '[')), "is not valid JSON"},
      {read("{}"), "model_type is missing; expected \"llama\" or \"qwen2\""},
      {with(llama, "/model_type", "mistral"), "model_type is \"mistral\"; expected \"llama\""},
      {with(llama, "/hidden_size", nullptr), "hidden_size is null; expected an integer of 1"},
      {with(llama, "/hidden_size", 16.5), "hidden_size is 16.5"},
      {with(llama, "/vocab_size", 0), "vocab_size is 0; expected an integer of 1 to 100000000"},
      {with(llama, "/vocab_size", 18446744073709551615u), "vocab_size is 18446744073709551615"},
      {with(llama, "/num_key_value_heads", 3), "a divisor of num_attention_heads, 4"},
      {with(qwen2, "/hidden_size", 18), "hidden_size is 18; expected a multiple of num_attention"},
      {with(llama, "/head_dim", 7), "head_dim is 7; expected an even number"},
      {with(llama, "/rms_norm_eps", "x"), "rms_norm_eps is \"x\"; expected a number of 0 to 1"},
      {with(llama, "/hidden_act", "gelu"), "hidden_act is \"gelu\"; expected \"silu\""},
      {with(llama, "/tie_word_embeddings", 1), "tie_word_embeddings is 1; expected true or false"},
      {with(llama, "/attention_bias", true), "attention_bias is true; expected false"},
      {with(llama, "/mlp_bias", true), "mlp_bias is true"},
      {with(llama, "/rope_parameters/rope_type", "yarn"),
       "rope_parameters.rope_type is \"yarn\"; expected \"default\", \"linear\" or \"llama3\""},
      {with(llama, "/rope_parameters/rope_theta", 0), "rope_parameters.rope_theta is 0"},
      {with(llama, "/rope_parameters/factor", nullptr), "rope_parameters.factor is null"},
      {with(llama, "/rope_parameters/high_freq_factor", 1), "expected more than low_freq_factor"},
      {with(llama, "/partial_rotary_factor", 0.5), "partial_rotary_factor is 0.5; expected 1"},
      {with(qwen2, "/rope_scaling/type", "dynamic"), "rope_scaling.type is \"dynamic\""},
      {with(qwen2, "/rope_scaling", 4), "rope_scaling is 4; expected an object"},
      {with(qwen2, "/layer_types", layer_types), "expected 2 times \"full_attention\""},
  };
  for (const auto& [error, part] : rows) EXPECT_NE(error.find(part), std::string::npos) << error;
  for (const auto& [error, part] : rows) EXPECT_EQ(error.find(file.string()), 0) << error;
  json sliding = qwen2;
  sliding["use_sliding_window"] = true;
  EXPECT_EQ(read(sliding.dump()), "accepted");  // from layer 28 on, and there are two
  for (const int full : {0, 1}) {
    sliding["max_window_layers"] = full;
    EXPECT_NE(read(sliding.dump()).find("use_sliding_window is true"), std::string::npos);
  }
  fs::remove(file);
  EXPECT_NE(error_of([&] { Config::read(file); }).find("cannot be opened"), std::string::npos);
  EXPECT_NE(error_of([&] { Config::read(folder_); }).find("is a folder"), std::string::npos);
}

using DecoderWeightsTest = TemporaryFolder;

TEST_F(DecoderWeightsTest, NamesTheTensorThatDoesNotFit) {
  json config = read_json(fixture("decoder_llama") / "config.json");
  const formats::Safetensors good = formats::read_checkpoint(fixture("decoder_llama"));
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  const auto read_with = [&](const at::Tensor& up) {
    std::ofstream(folder_ / "config.json") << config;
    std::vector<std::pair<std::string, at::Tensor>> tensors;
    for (const auto& [key, tensor] : good.tensors) {
      if (key != name) tensors.emplace_back(key, tensor);
    }
    if (up.defined()) tensors.emplace_back(name, up);
    formats::write_safetensors(folder_ / "model.safetensors", tensors);
    return error_of([&] { Decoder::read(folder_); });
  };
  const at::Tensor up = good.get(name);
  EXPECT_EQ(read_with(up), "accepted");
  EXPECT_EQ(read_with(up.to(at::kHalf)), "accepted");
  EXPECT_EQ(read_with(up.to(at::kDouble)), "accepted");
  EXPECT_NE(read_with({}).find("has no tensor \"" + name), std::string::npos);
  EXPECT_NE(read_with(up.t()).find(name + "\" is Float [16, 24]; expected Float [24, 16]"),
            std::string::npos);
  EXPECT_NE(read_with(up.to(at::kInt)).find(name + " is Int; expected F64, F32, F16 or BF16"),
            std::string::npos);
  config["quantization_config"] = json::object();
  EXPECT_NE(read_with(up).find("quantization_config; expected a model of plain weights"),
            std::string::npos);
}

}  // namespace
}  // namespace graft::workloads::decoder
