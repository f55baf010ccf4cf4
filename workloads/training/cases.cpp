// The set `training`: regions, forward and backward. Whole steps are in step_cases.cpp.
#include <ATen/ATen.h>

#include <cmath>

#include "workloads/draw.h"
#include "workloads/region_cases.h"
#include "workloads/regions.h"
#include "workloads/training/region.h"

namespace graft::workloads {
namespace {

using at::Tensor;

Instance rope_training(const Options& o) {
  Draw draw(o);
  const int64_t s = o.integer("sequence"), d = o.integer("width");
  const Tensor q = draw.normal({o.integer("batch"), o.integer("heads"), s, d});
  return region_of(
      [](const Tensors& t) {
        const auto halves = t[0].chunk(2, -1);
        return t[0] * t[1] + at::cat({-halves[1], halves[0]}, -1) * t[2];
      },
      {q, draw.normal({s, d}), draw.normal({s, d})}, 1, draw.normal(q.sizes()), 6);
}

Instance rmsnorm_training(const Options& o) {
  Draw draw(o);
  const int64_t rows = o.integer("rows"), width = o.integer("width");
  return region_of([](const Tensors& t) { return std::get<1>(rmsnorm_residual(t[0], t[1], t[2])); },
                   {draw.normal({rows, width}), draw.normal({rows, width}), draw.normal({width})},
                   3, draw.normal({rows, width}), 13);
}

Instance swiglu_training(const Options& o) {
  Draw draw(o);
  const int64_t rows = o.integer("rows"), width = o.integer("width");
  return region_of([](const Tensors& t) { return swiglu(t[0], t[1]); },
                   {draw.normal({rows, width}), draw.normal({rows, width})}, 2,
                   draw.normal({rows, width}), kFunction + 9);
}

Instance softmax_training(const Options& o) {
  Draw draw(o);
  const int64_t heads = o.integer("heads"), s = o.integer("sequence");
  return region_of([](const Tensors& t) { return softmax_mask(t[0], t[1]); },
                   {draw.normal({heads, s, s}), draw.normal({s, s})}, 1, draw.normal({heads, s, s}),
                   kFunction + 8);
}

Instance layernorm_gelu_training(const Options& o) {
  Draw draw(o);
  const int64_t rows = o.integer("rows"), width = o.integer("width");
  return region_of(
      [](const Tensors& t) {
        return at::gelu(at::layer_norm(t[0], {t[0].size(1)}, t[1], t[2]), "tanh");
      },
      {draw.normal({rows, width}), draw.normal({width}), draw.normal({width})}, 3,
      draw.normal({rows, width}), 2 * kFunction + 25);
}

Instance cross_entropy_training(const Options& o) {
  Draw draw(o);
  const int64_t rows = o.integer("rows"), classes = o.integer("classes");
  return region_of([](const Tensors& t) { return at::cross_entropy_loss(t[0], t[1]); },
                   {draw.normal({rows, classes}), draw.integers({rows}, classes)}, 1, at::ones({}),
                   2 * kFunction + 4);
}

}  // namespace

std::vector<Workload> training_cases() {
  const auto matrix = [](const char* rows, const char* width) -> std::vector<Axis> {
    return {{"rows", rows, "37", "rows"}, {"width", width, "101", "columns"}};
  };
  return {
      {"rope_train_f32",
       "rotary embedding, forward and backward",
       {{"batch", "4", "2", "samples"},
        {"heads", "16", "3", "heads"},
        {"sequence", "1024", "37", "positions"},
        {"width", "64", "22", "columns of a head"}},
       rope_training,
       kSums,
       "training"},
      {"rmsnorm_train_f32", "residual and RMSNorm, forward and backward", matrix("4096", "2048"),
       rmsnorm_training, kSums, "training"},
      {"swiglu_train_f32", "silu(gate) * up, forward and backward", matrix("4096", "2816"),
       swiglu_training, kSums, "training"},
      {"softmax_train_f32",
       "attention's softmax with a mask, forward and backward",
       {{"heads", "16", "3", "heads"}, {"sequence", "1024", "37", "positions"}},
       softmax_training,
       kSums,
       "training"},
      {"layernorm_gelu_train_f32", "layer norm and GELU, forward and backward",
       matrix("4096", "3072"), layernorm_gelu_training, kSums, "training"},
      {"cross_entropy_f32",
       "cross-entropy over a large vocabulary, forward and backward",
       {{"rows", "4096", "37", "tokens"}, {"classes", "32000", "101", "the vocabulary"}},
       cross_entropy_training,
       kSums,
       "training"},
  };
}

}  // namespace graft::workloads
