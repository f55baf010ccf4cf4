// Whole models quantised: what is written and how it reads back.
#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "quantizer/quantize_fixture.h"
#include "workloads/decoder/model.h"
#include "workloads/decoder/names.h"

namespace graft::quantizer {
namespace {

namespace fs = std::filesystem;
using at::Tensor;
using test::TinyCheckpoint;

TEST_F(QuantizeModelTest, EverySettingReadsBack) {
  const TinyCheckpoint bert = TinyCheckpoint::bert(), qwen2 = TinyCheckpoint::qwen2();
  int number = 0;
  for (const TinyCheckpoint* tiny : {&bert, &qwen2}) {
    fs::remove_all(model());
    tiny->write(model(), /*shards=*/tiny == &bert ? 1 : 3);
    for (const int bits : {3, 4, 8}) {
      for (const bool symmetric : {true, false}) {
        for (const bool act_order : {false, true}) {
          if (act_order && bits == 3) continue;
          QuantizeOptions o = options("out" + std::to_string(number++));
          o.settings.bits = bits;
          o.settings.symmetric = symmetric;
          o.settings.act_order = act_order;
          o.settings.group = bits == 8 ? -1 : 16;
          const QuantizeReport report = quantize_model(o);
          EXPECT_EQ(report.layers.size(), 3u);
          expect_whole(report, *tiny, o.out, bits);
          EXPECT_GT(report.similarity.mean, bits == 8 ? 0.99 : bits == 4 ? 0.85 : 0.6) << bits;
          EXPECT_LT(report.bytes, report.source_bytes);
        }
      }
    }
  }
}

TEST_F(QuantizeModelTest, WritesWhatReadersLookFor) {
  TinyCheckpoint::qwen2().write(model());
  QuantizeOptions o = options();
  o.targets = "mlp|o_proj";
  o.settings.symmetric = false;
  quantize_model(o);
  const auto config = nlohmann::json::parse(content(out() / "config.json"));
  EXPECT_EQ(config["hidden_size"], 32);  // the source's keys are kept
  const auto& quantization = config["quantization_config"];
  EXPECT_EQ(quantization["quant_method"], "compressed-tensors");
  EXPECT_EQ(quantization["format"], "pack-quantized");
  const auto& weights = quantization["config_groups"]["group_0"]["weights"];
  EXPECT_EQ(weights["num_bits"], 4);
  EXPECT_EQ(weights["symmetric"], false);
  EXPECT_EQ(weights["strategy"], "group");
  EXPECT_EQ(weights["group_size"], 16);
  const auto ignore = quantization["ignore"].get<std::vector<std::string>>();
  EXPECT_EQ(ignore.size(), 1u + 3 * 3);  // the head, and q, k and v of each layer
  EXPECT_EQ(ignore.front(), "lm_head");
  EXPECT_EQ(ignore[1], "model.layers.0.self_attn.q_proj");
  EXPECT_TRUE(fs::exists(out() / "tokenizer_config.json"));
  const auto index = nlohmann::json::parse(content(out() / "model.safetensors.index.json"));
  EXPECT_EQ(index["weight_map"]["model.layers.1.mlp.up_proj.weight_packed"],
            "model-00002-of-00004.safetensors");
  EXPECT_EQ(index["weight_map"]["lm_head.weight"], "model-00004-of-00004.safetensors");
}

TEST_F(QuantizeModelTest, WarnsOfTooFewTokens) {
  TinyCheckpoint::bert().write(model());
  QuantizeOptions o = options();
  std::vector<std::string> warnings;
  o.warning = [&](const std::string& text) { warnings.push_back(text); };
  o.calibration.samples = 2;
  quantize_model(o);
  ASSERT_EQ(warnings.size(), 2u);  // the other: built-in sentences
  EXPECT_NE(warnings[1].find("48 tokens, fewer than the 64 columns"), std::string::npos)
      << warnings[1];
}

TEST_F(QuantizeModelTest, CompiledAndEagerWriteTheSameBytes) {
  TinyCheckpoint::bert().write(model());
  const QuantizeReport eager = quantize_model(options("eager"));
  EXPECT_FALSE(eager.compiled.has_value());
  QuantizeOptions o = options("compiled");
  o.compiled = true;
  const QuantizeReport compiled = quantize_model(o);
  ASSERT_TRUE(compiled.compiled.has_value());
  EXPECT_GT(compiled.compiled->calls, 0);
  // Of the newest of several layouts, which may have had too few calls to be proven.
  EXPECT_GT(compiled.compiled->kernels, 0) << *compiled.compiled;
  EXPECT_EQ(compiled.compiled->breaks, 0) << *compiled.compiled;
  EXPECT_EQ(contents(out("eager")), contents(out("compiled")));
}

// The similarity and the weights are those of the models as their own code runs them.
TEST_F(QuantizeModelTest, TheQuantisedDecoderRunsAsTheReportSays) {
  TinyCheckpoint::qwen2().write(model());
  QuantizeOptions o = options();
  o.settings.bits = 8;
  const QuantizeReport report = quantize_model(o);
  const workloads::decoder::Decoder before = workloads::decoder::Decoder::read(model());
  workloads::decoder::Decoder after = before;
  const formats::Safetensors file = formats::read_checkpoint(out());
  for (const workloads::decoder::LinearName& name : workloads::decoder::linears(before.config)) {
    workloads::decoder::weight_of(after.layers[static_cast<size_t>(name.layer)], name.linear) =
        unpacked_weight(file, name.module(), 8);
  }
  const Tensor ids = at::arange(24).unsqueeze(0);
  const Tensor cosine = at::cosine_similarity(before.forward(ids), after.forward(ids), -1);
  EXPECT_GT(cosine.min().item<double>(), 0.999);
  EXPECT_GT(report.similarity.least, 0.99);
  EXPECT_LT(report.similarity.least, 1);
}

TEST_F(QuantizeModelTest, ASingularHessianIsDampenedAndDeadInputsAreCounted) {
  TinyCheckpoint tiny = TinyCheckpoint::bert();
  // Two inputs of layer 0's attention are always 0.
  tiny.tensors["embeddings.LayerNorm.weight"].slice(0, 0, 2).zero_();
  tiny.tensors["embeddings.LayerNorm.bias"].slice(0, 0, 2).zero_();
  tiny.write(model());
  QuantizeOptions o = options();
  o.settings.dampening = 0;
  o.calibration.samples = 1;  // far fewer tokens than columns
  const QuantizeReport report = quantize_model(o);
  const LinearReport& query = report.layers[0].linears[0];
  EXPECT_EQ(query.dead_columns, 2);
  EXPECT_GT(query.dampening, 0);
  const Tensor weight = unpacked_weight(formats::read_checkpoint(out()), query.module, 4);
  EXPECT_EQ(weight.slice(1, 0, 2).abs().max().item<float>(), 0);
}

}  // namespace
}  // namespace graft::quantizer
