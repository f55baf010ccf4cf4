#include "quantizer/experiment/scenario.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "workloads/decoder/tiny.h"
#include "workloads/minilm/model.h"
#include "workloads/minilm/sentences.h"
#include "workloads/minilm/tokenizer.h"

namespace graft::cli {
namespace {

using at::Tensor;
using quantizer::Settings;
namespace minilm = workloads::minilm;

/// What a seeded group is made of.
struct Shape {
  std::string name, kind;
  int64_t rows = 0;
};
struct GroupShape {
  int64_t columns = 0;
  std::vector<Shape> linears;
};

/// Weights N(0, 0.02); inputs normal, with channels of sizes that differ as a model's do.
GptqGroup seeded_group(const GroupShape& shape, int64_t tokens, uint64_t seed) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  GptqGroup out;
  const Tensor channel = at::randn({shape.columns}, generator, at::kFloat).mul_(0.5).exp_();
  out.inputs = at::randn({tokens, shape.columns}, generator, at::kFloat).mul_(channel);
  for (const Shape& linear : shape.linears) {
    const Tensor weight = at::randn({linear.rows, shape.columns}, generator, at::kFloat);
    out.linears.push_back({linear.name, linear.kind, weight.mul(0.02)});
  }
  return out;
}

void set_groups(std::vector<GroupShape> groups, int64_t tokens, uint64_t seed, GptqScenario& out) {
  for (const GroupShape& group : groups)
    for (const Shape& linear : group.linears) {
      ++out.linears;
      out.work += work_of(linear.rows, group.columns);
    }
  out.run = [groups = std::move(groups), tokens, seed](const QuantiseGroup& quantise) {
    for (size_t i = 0; i < groups.size(); ++i)
      quantise(seeded_group(groups[i], tokens, seed * 1'000'003 + i));
  };
}

GptqScenario qwen_scenario(const GptqChoice& choice) {
  const int64_t shrink = choice.small ? 32 : 1;
  const int64_t hidden = 2048 / shrink, kv = 256 / shrink;
  const int64_t ffn = choice.small ? 96 : 11008;  // 11008 / 32 is no multiple of a group
  const int64_t layers = choice.layers, tokens = choice.tokens;
  std::vector<GroupShape> groups;
  for (int64_t i = 0; i < layers; ++i) {
    const std::string at = "model.layers." + std::to_string(i) + '.';
    groups.push_back({hidden,
                      {{at + "self_attn.q_proj", "q/o", hidden},
                       {at + "self_attn.k_proj", "k/v", kv},
                       {at + "self_attn.v_proj", "k/v", kv}}});
    groups.push_back({hidden, {{at + "self_attn.o_proj", "q/o", hidden}}});
    groups.push_back(
        {hidden, {{at + "mlp.gate_proj", "gate/up", ffn}, {at + "mlp.up_proj", "gate/up", ffn}}});
    groups.push_back({ffn, {{at + "mlp.down_proj", "down", hidden}}});
  }
  GptqScenario out;
  out.layers = layers;
  out.about = std::to_string(layers) + (layers == 1 ? " layer" : " layers") +
              " of Qwen2.5-3B's shapes" + (choice.small ? ", made small" : "") +
              ", seeded weights, " + std::to_string(tokens) + " seeded calibration tokens";
  if (choice.small) out.settings.group = 32, out.settings.block = 16;
  set_groups(std::move(groups), tokens, choice.seed, out);
  return out;
}

GptqScenario block_scenario(const GptqChoice& choice, int64_t block) {
  const int64_t size = choice.small ? 2 * block : 2048;
  const int64_t layers = choice.layers, tokens = choice.tokens;
  std::vector<GroupShape> groups;
  for (int64_t i = 0; i < layers; ++i)
    groups.push_back({size, {{"layer " + std::to_string(i), "square", choice.small ? 16 : size}}});
  GptqScenario out;
  out.layers = layers;
  out.about = "a seeded linear layer of " + std::to_string(size) + " inputs in blocks of " +
              std::to_string(block) + " columns, " + std::to_string(tokens) +
              " seeded calibration tokens";
  out.settings.block = block;
  if (choice.small) out.settings.group = 32;
  set_groups(std::move(groups), tokens, choice.seed, out);
  return out;
}

/// Rows of real text without padding: each starts at another sentence and goes on until it is full.
minilm::Tokenizer::Batch text_rows(const minilm::Tokenizer& tokenizer, int64_t rows,
                                   int64_t length) {
  std::vector<std::string> texts;
  for (int64_t row = 0; row < rows; ++row) {
    std::string text;
    for (size_t i = row; text.size() < static_cast<size_t>(8 * length); ++i)
      text += std::string(minilm::kSentences[i % std::size(minilm::kSentences)]) + ' ';
    texts.push_back(std::move(text));
  }
  return tokenizer.batch(std::vector<std::string_view>(texts.begin(), texts.end()), length);
}

/// The inputs of each linear layer of the encoder on real text, layer by layer: of query, key and
/// value; of the attention's output; of up; of down.
std::vector<Tensor> encoder_inputs(const minilm::MiniLM& model,
                                   const minilm::Tokenizer::Batch& text) {
  std::vector<Tensor> out;
  const auto keep = [&](const Tensor& x) { out.push_back(x.reshape({-1, x.size(-1)}).clone()); };
  minilm::Regions regions = minilm::Regions::eager();
  const minilm::Regions eager = regions;
  regions.linear_qkv = [&](const Tensor& x, auto&&... rest) {
    return keep(x), eager.linear_qkv(x, rest...);
  };
  regions.linear_residual_norm = [&](const Tensor& x, auto&&... rest) {
    return keep(x), eager.linear_residual_norm(x, rest...);
  };
  regions.linear_gelu = [&](const Tensor& x, auto&&... rest) {
    return keep(x), eager.linear_gelu(x, rest...);
  };
  model.encode(text.ids, text.mask, regions);
  return out;
}

GptqScenario minilm_scenario(const GptqChoice& choice) {
  const std::filesystem::path& folder = choice.model;
  constexpr int64_t kLength = 128;
  const int64_t rows = std::max<int64_t>(1, choice.tokens / kLength);
  const auto model = std::make_shared<minilm::MiniLM>(folder);
  const auto inputs = std::make_shared<std::vector<Tensor>>(
      encoder_inputs(*model, text_rows(minilm::Tokenizer(folder / "vocab.txt"), rows, kLength)));
  const int64_t layers = choice.layers;
  const auto group = [model, inputs](int64_t i) {
    const minilm::Layer& layer = model->layer(i / 4);
    const std::string at = "encoder.layer." + std::to_string(i / 4) + '.';
    GptqGroup out{inputs->at(i), {}};
    const auto add = [&](const char* name, const char* kind, const minilm::Linear& linear) {
      out.linears.push_back({at + name, kind, linear.weight});
    };
    if (i % 4 == 0) {
      add("attention.self.query", "q/k/v/o", layer.query);
      add("attention.self.key", "q/k/v/o", layer.key);
      add("attention.self.value", "q/k/v/o", layer.value);
    }
    if (i % 4 == 1) add("attention.output.dense", "q/k/v/o", layer.output);
    if (i % 4 == 2) add("intermediate.dense", "up", layer.up);
    if (i % 4 == 3) add("output.dense", "down", layer.down);
    return out;
  };
  GptqScenario out;
  out.layers = layers;
  out.about = std::to_string(layers) + " of " + std::to_string(model->config().layers) +
              " layers of all-MiniLM-L6-v2, pretrained weights, " + std::to_string(rows * kLength) +
              " calibration tokens of real text";
  for (int64_t i = 0; i < 4 * layers; ++i)
    for (const GptqLinear& linear : group(i).linears) {
      ++out.linears;
      out.work += work_of(linear.weight.size(0), linear.weight.size(1));
    }
  out.run = [group, layers](const QuantiseGroup& quantise) {
    for (int64_t i = 0; i < 4 * layers; ++i) quantise(group(i));
  };
  return out;
}

constexpr std::string_view kBlockPrefix = "blocksize-";

/// Sets the folder, and the layers where none are asked for.
void resolve_minilm(GptqChoice& choice) {
  if (choice.model.empty()) choice.model = minilm::default_folder();
  const std::filesystem::path config = choice.model / "config.json";
  if (!std::filesystem::exists(config))
    throw std::runtime_error(
        "no MiniLM model in " + choice.model.string() +
        "; tools/setup.sh fetches it, --model or GRAFT_MINILM_DIR names another folder");
  const int64_t all = minilm::Config::read(config).layers;
  if (choice.layers > all)
    throw std::runtime_error("--layers came as " + std::to_string(choice.layers) +
                             "; the model in " + choice.model.string() + " has " +
                             std::to_string(all));
  if (choice.layers == 0) choice.layers = choice.small ? 1 : all;
}

}  // namespace

nlohmann::json to_json(const GptqChoice& choice) {
  return {{"scenario", choice.scenario}, {"layers", choice.layers},
          {"tokens", choice.tokens},     {"seed", choice.seed},
          {"small", choice.small},       {"model", choice.model.string()}};
}

GptqChoice gptq_choice_from(const nlohmann::json& json) {
  return {json.at("scenario"), json.at("layers"), json.at("tokens"),
          json.at("seed"),     json.at("small"),  json.at("model").get<std::string>()};
}

const std::vector<std::string>& gptq_scenarios() {
  static const std::vector<std::string> names{"minilm",       "qwen3b-layers", "tiny-decoder",
                                              "blocksize-32", "blocksize-64",  "blocksize-128",
                                              "blocksize-256"};
  return names;
}

double work_of(int64_t rows, int64_t columns) {
  const auto r = static_cast<double>(rows), c = static_cast<double>(columns);
  return r * c * (c + 3000) + 1.5 * c * c * c;  // updates and elementwise steps; the factor
}

GptqChoice resolved(GptqChoice choice) {
  const bool minilm = choice.scenario == "minilm", decoder = choice.scenario == "tiny-decoder";
  const bool small = choice.small;
  if (minilm) resolve_minilm(choice);
  if (choice.layers == 0)
    choice.layers = decoder && !small ? workloads::decoder::TinySettings().layers : 1;
  if (choice.tokens == 0) {
    choice.tokens = minilm    ? (small ? 128 : 4096)
                    : decoder ? (small ? 128 : 8192)
                              : (small ? 64 : 512);
  }
  return choice;
}

GptqScenario make_gptq_scenario(const GptqChoice& choice) {
  GptqScenario out =
      choice.scenario == "minilm"          ? minilm_scenario(choice)
      : choice.scenario == "qwen3b-layers" ? qwen_scenario(choice)
      : choice.scenario == "tiny-decoder"
          ? decoder_scenario(choice)
          : block_scenario(choice, std::stoll(choice.scenario.substr(kBlockPrefix.size())));
  out.name = choice.scenario;
  return out;
}

}  // namespace graft::cli
