// The set `decode`: one token of a Llama behind a cache, with weights of several kinds. Its time is
// that of reading the weights.
#include <ATen/ATen.h>
#include <graft/graft.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "workloads/decoder/parts.h"
#include "workloads/decoder/session.h"
#include "workloads/draw.h"
#include "workloads/region_cases.h"

namespace graft::workloads {
namespace {

using at::Tensor;
using decoder::Generator;
using decoder::Layer;
using decoder::Weight;

struct Decoding {
  const char* name;
  const char* what;
  at::ScalarType type = at::kFloat;  ///< of activations, and of weights that are no codes
  int bits = 0;                      ///< of codes; 0: none
};
constexpr Decoding kDecodings[] = {
    {"decode_f32", "in fp32", at::kFloat, 0},
    {"decode_bf16", "in bf16", at::kBFloat16, 0},
    {"decode_int8", "with weights of 8 bits", at::kFloat, 8},
    {"decode_int4", "with weights of 4 bits", at::kFloat, 4},
};

decoder::Config config_of(const Options& o) {
  decoder::Config c;
  c.model_type = "llama";
  c.hidden = o.integer("hidden");
  c.layers = o.integer("layers");
  c.heads = c.kv_heads = o.integer("heads");
  if (c.hidden % (2 * c.heads) != 0)
    throw Error("axis hidden: came " + std::to_string(c.hidden) +
                ", expected a multiple of twice the " + std::to_string(c.heads) + " heads");
  c.head_dim = c.hidden / c.heads;
  c.intermediate = o.integer("intermediate");
  c.vocabulary = o.integer("vocabulary");
  c.positions = o.integer("context");
  c.eps = 1e-5;
  return c;
}

Generator generator_of(const Decoding& kind, const Options& o, Draw& draw) {
  Generator model;
  const decoder::Config& c = model.config = config_of(o);
  const int64_t group = o.integer("group");
  if (kind.bits != 0 && (c.hidden % group != 0 || c.intermediate % group != 0))
    throw Error("axis group: came " + std::to_string(group) + ", expected a divisor of hidden, " +
                std::to_string(c.hidden) + ", and intermediate, " + std::to_string(c.intermediate));
  const auto weight = [&](int64_t rows, int64_t columns) {
    Tensor values = draw.normal({rows, columns}).div_(std::sqrt(static_cast<double>(columns)));
    if (kind.bits != 0) return decoder::nearest_codes(values, kind.bits, group);
    return decoder::dense_weight(values.to(kind.type));
  };
  const auto norm = [&] { return draw.uniform({c.hidden}, 0.5, 1.5).to(kind.type); };
  model.embedding = draw.normal({c.vocabulary, c.hidden}, kind.type);
  model.norm = norm();
  model.head = weight(c.vocabulary, c.hidden);
  for (int64_t k = 0; k < c.layers; ++k)
    model.layers.push_back({weight(c.hidden, c.hidden), weight(c.hidden, c.hidden),
                            weight(c.hidden, c.hidden), weight(c.hidden, c.hidden),
                            weight(c.intermediate, c.hidden), weight(c.intermediate, c.hidden),
                            weight(c.hidden, c.intermediate), norm(), norm()});
  return model;
}

Instance build_decoding(const Decoding& kind, const Options& o) {
  Draw draw(o);
  const Generator model = generator_of(kind, o, draw);
  const decoder::Config& c = model.config;
  const int64_t keys = c.layers * c.kv_heads * c.positions * c.head_dim;
  const Tensor hidden = draw.normal({1, c.hidden}, kind.type);
  const Tensor position = at::full({1}, c.positions - 1, at::kLong);
  const auto cache = [&] {
    return draw.normal({c.layers, c.kv_heads, c.positions, c.head_dim}, kind.type);
  };
  const auto [cos, sin] = decoder::rotations(c, c.positions, kind.type);
  Tensors weights{model.norm, model.head.values};
  if (kind.bits != 0) weights.push_back(model.head.scale);
  for (const Layer& layer : model.layers) {
    const Tensors all = layer.tensors();
    weights.insert(weights.end(), all.begin(), all.end());
  }
  // The token's own keys and values are the same in every call.
  const auto token = [c, forms = model.layers, coded = kind.bits != 0](
                         const Tensor& hidden, const Tensor& position, const Tensor& cos,
                         const Tensor& sin, const Tensor& keys, const Tensor& values,
                         const Tensors& weights) {
    Tensor x = hidden;
    size_t next = coded ? 3 : 2;
    for (size_t k = 0; k < forms.size(); ++k) {
      const size_t count = forms[k].tensors().size();
      const auto first = weights.begin() + static_cast<std::ptrdiff_t>(next);
      const Layer layer = forms[k].with(Tensors(first, first + static_cast<std::ptrdiff_t>(count)));
      next += count;
      const auto at = static_cast<int64_t>(k);
      x = decoder::layer_step(c, layer, x, position, cos, sin, keys.select(0, at),
                              values.select(0, at));
    }
    Weight head = decoder::dense_weight(weights[1]);
    if (coded) head.scale = weights[2];
    return decoder::linear(decoder::rms_norm(x, weights[0], c.eps), head);
  };
  Instance out = instance_of(token, hidden, position, cos, sin, cache(), cache(), weights);
  out.tokens = 1;
  out.bytes = static_cast<double>(model.bytes_per_token()) +
              2 * static_cast<double>(keys) * static_cast<double>(c10::elementSize(kind.type));
  out.flops =
      2 * (static_cast<double>(c.layers) * (4 * static_cast<double>(c.hidden * c.hidden) +
                                            3 * static_cast<double>(c.hidden * c.intermediate)) +
           static_cast<double>(c.hidden * c.vocabulary) + 2 * static_cast<double>(keys));
  return out;
}

}  // namespace

std::vector<Workload> decode_cases() {
  const std::vector<Axis> axes{{"layers", "4", "2", "layers"},
                               {"hidden", "2048", "48", "width"},
                               {"heads", "16", "2", "heads"},
                               {"intermediate", "4096", "80", "width of the feed-forward layers"},
                               {"vocabulary", "32000", "77", "tokens of the vocabulary"},
                               {"context", "512", "37", "positions of the cache"},
                               {"group", "128", "16", "columns that share a scale"}};
  std::vector<Workload> all;
  for (const Decoding& kind : kDecodings)
    all.push_back({kind.name, std::string("one token of a Llama, ") + kind.what, axes,
                   [kind](const Options& o) { return build_decoding(kind, o); },
                   kind.type == at::kFloat ? kSums : 2e-2, "decode"});
  return all;
}

}  // namespace graft::workloads
