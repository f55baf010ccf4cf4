// The regions' inputs: names, shapes and distributions are those of tools/peers/inductor.py.

#include <ATen/ATen.h>

#include <cmath>

#include "workloads/draw.h"
#include "workloads/fused_adamw.h"
#include "workloads/hand/hand.h"
#include "workloads/region_cases.h"
#include "workloads/regions.h"

namespace graft::workloads {
namespace {

Instance rope_case(const Options& options, at::ScalarType dtype, int64_t batch, int64_t heads,
                   int64_t sequence, int64_t head_size) {
  Draw draw(options);
  const at::Tensor q = draw.normal({batch, heads, sequence, head_size}, dtype);
  const at::Tensor k = draw.normal({batch, heads, sequence, head_size}, dtype);
  const auto [cos, sin] = rope_tables(sequence, head_size, dtype);
  Instance out = instance_of(rope, q, k, cos, sin);
  out.hand = hand::rope(q, k, cos, sin);
  return out;
}

Instance rope_of(const Options& o, at::ScalarType dtype) {
  return rope_case(o, dtype, o.integer("batch"), o.integer("heads"), o.integer("sequence"),
                   o.integer("head_size"));
}
Instance rope_f32(const Options& o) {
  return rope_of(o, at::kFloat);
}
Instance rope_bf16(const Options& o) {
  return rope_of(o, at::kBFloat16);
}

Instance tiny_rope_f32(const Options& o) {
  Instance out = rope_of(o, at::kFloat);
  out.hand = {};  // its eager time is call overhead, of which a prebuilt kernel call has none
  return out;
}

Instance qkv_rope_bf16(const Options& o) {
  const int64_t heads = o.integer("heads"), head_size = o.integer("head_size"),
                sequence = o.integer("sequence");
  const auto [cos, sin] = rope_tables(sequence, head_size, at::kBFloat16);
  const at::Tensor qkv =
      Draw(o).normal({o.integer("batch"), sequence, 3 * heads * head_size}, at::kBFloat16);
  return instance_of(qkv_rope, qkv, cos, sin, heads);
}

Instance rmsnorm_bf16(const Options& o) {
  const int64_t rows = o.integer("rows"), columns = o.integer("columns");
  Draw draw(o);
  const at::Tensor x = draw.normal({rows, columns}, at::kBFloat16),
                   r = draw.normal({rows, columns}, at::kBFloat16);
  const at::Tensor w = at::ones({columns}, at::kBFloat16);
  Instance out = instance_of(rmsnorm_residual, x, r, w);
  out.hand = hand::rmsnorm_residual(x, r, w);
  return out;
}

Instance swiglu_case(const Options& o, at::ScalarType dtype) {
  const int64_t rows = o.integer("rows"), columns = o.integer("columns");
  Draw draw(o);
  const at::Tensor gate = draw.normal({rows, columns}, dtype),
                   up = draw.normal({rows, columns}, dtype);
  Instance out = instance_of(swiglu, gate, up);
  out.hand = hand::swiglu(gate, up);
  return out;
}

Instance swiglu_bf16(const Options& o) {
  return swiglu_case(o, at::kBFloat16);
}
Instance swiglu_f32(const Options& o) {
  return swiglu_case(o, at::kFloat);
}

Instance softmax_f32(const Options& o) {
  const int64_t heads = o.integer("heads"), sequence = o.integer("sequence");
  Draw draw(o);
  const at::Tensor scores = draw.normal({heads, sequence, sequence}),
                   mask = draw.normal({sequence, sequence});
  Instance out = instance_of(softmax_mask, scores, mask);
  out.hand = hand::softmax_mask(scores, mask);
  return out;
}

Instance component_f32(const Options& o) {
  const int64_t batch = o.integer("batch"), sequence = o.integer("sequence"),
                width = o.integer("width"), parts = o.integer("parts");
  Draw draw(o);
  const at::Tensor x = draw.normal({batch, sequence, width}), V = draw.normal({width, parts});
  const at::Tensor mask = draw.uniform({batch, sequence, parts}), U = draw.normal({parts, width});
  Instance out = instance_of(component, x, V, mask, U);
  out.tokens = static_cast<double>(batch * sequence);
  out.flops = 4.0 * out.tokens * static_cast<double>(width * parts);
  return out;
}

/// A layer whose weights are the function's own, as a model's are.
Instance linear_gelu(const Options& o, at::ScalarType dtype) {
  const int64_t rows = o.integer("rows"), from = o.integer("in_features"),
                to = o.integer("out_features");
  Draw draw(o);
  const at::Tensor x = draw.normal({rows, from}, dtype), bias = draw.normal({to}, dtype),
                   weight =
                       (draw.normal({to, from}) / std::sqrt(static_cast<double>(from))).to(dtype);
  const auto layer = [weight, bias](const at::Tensor& in) {
    return at::gelu(at::linear(in, weight, bias));
  };
  Instance out = instance_of(layer, x);
  out.fp64 = [x, weight, bias] {
    return Tensors{
        at::gelu(at::linear(x.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble)))};
  };
  out.others.emplace_back("onednn", call_of(onednn_linear_gelu, x, weight, bias));
  out.tokens = static_cast<double>(rows);
  out.flops = 2.0 * out.tokens * static_cast<double>(from * to);
  return out;
}
Instance linear_gelu_f32(const Options& o) {
  return linear_gelu(o, at::kFloat);
}
Instance linear_gelu_bf16(const Options& o) {
  return linear_gelu(o, at::kBFloat16);
}

Instance gptq_block_case(const Options& o) {
  const int64_t rows = o.integer("rows"), columns = o.integer("columns");
  Draw draw(o);
  const at::Tensor inputs = draw.normal({2 * columns, columns});
  const at::Tensor hessian =
      at::matmul(inputs.t(), inputs) / (2 * columns) + 0.01 * at::eye(columns);
  const at::Tensor Hinv =
      at::linalg_cholesky(at::cholesky_inverse(at::linalg_cholesky(hessian)), /*upper=*/true)
          .contiguous();
  const at::Tensor W = draw.normal({rows, columns});
  const at::Tensor scale = W.abs().amax(1) / 8, zero = at::full({rows}, 8.0);
  Instance out = instance_of(gptq_block, W, Hinv, scale, zero);
  out.hand = hand::gptq_block(W, Hinv, scale, zero);
  return out;
}

Instance adamw_f32(const Options& o) {
  const int64_t side = o.integer("side");
  Draw draw(o);
  const auto list = [&] {
    Tensors tensors;
    for (int i = 0; i < 8; ++i) tensors.push_back(draw.uniform({side, side}));
    return tensors;
  };
  const Tensors p = list(), g = list(), m = list(), v = list();
  Instance out = instance_of(adamw, p, g, m, v);
  const auto outputs = [](const Tensors& param, const Tensors& first, const Tensors& second) {
    Tensors all;
    for (size_t i = 0; i < param.size(); ++i)
      all.insert(all.end(), {param[i], first[i], second[i]});
    return all;
  };
  out.others.emplace_back("aten_fused", fused_adamw(p, g, m, v, /*beta2=*/0.95, outputs));
  return out;
}

Instance attention_f32(const Options& o) {
  const int64_t batch = o.integer("batch"), heads = o.integer("heads"),
                sequence = o.integer("sequence"), head_size = o.integer("head_size");
  Draw draw(o);
  const auto part = [&] { return draw.normal({batch, heads, sequence, head_size}); };
  const at::Tensor q = part(), k = part(), v = part();
  Instance out = instance_of(attention, q, k, v);
  const auto sdpa = [](const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
    return at::scaled_dot_product_attention(a, b, c);
  };
  out.others.emplace_back("aten_sdpa", call_of(sdpa, q, k, v));
  out.tokens = static_cast<double>(batch * sequence);
  out.flops = 4.0 * out.tokens * static_cast<double>(sequence * heads * head_size);
  return out;
}

Instance block_f32(const Options& o) {
  const int64_t batch = o.integer("batch"), sequence = o.integer("sequence"),
                heads = o.integer("heads"), width = o.integer("width");
  // As ATen's own refusals, a row of the table that failed: only an axis's form is a usage error.
  TORCH_CHECK_VALUE(width % heads == 0, "block_f32: width ", width, " is no multiple of heads ",
                    heads);
  Draw draw(o);
  Tensors weights;
  const auto norm = [&] {
    weights.push_back(at::ones({width}));
    weights.push_back(at::zeros({width}));
  };
  const auto linear = [&](int64_t to, int64_t from) {
    weights.push_back(draw.normal({to, from}) / std::sqrt(static_cast<double>(from)));
    weights.push_back(draw.normal({to}) * 0.02);
  };
  norm(), linear(3 * width, width), linear(width, width);
  norm(), linear(4 * width, width), linear(width, 4 * width);
  const at::Tensor x = draw.normal({batch, sequence, width});
  Instance out = instance_of(block, x, weights, heads);
  out.others.emplace_back("aten_sdpa", call_of(block_sdpa, x, weights, heads));
  out.samples = static_cast<double>(batch);
  out.tokens = static_cast<double>(batch * sequence);
  out.flops = out.tokens * static_cast<double>(24 * width * width + 4 * sequence * width);
  return out;
}

std::vector<Axis> rope_axes(int64_t batch, int64_t heads, int64_t sequence, int64_t head_size) {
  return {{"batch", std::to_string(batch), "2", "batch of q and k"},
          {"heads", std::to_string(heads), "3", "heads"},
          {"sequence", std::to_string(sequence), "37", "tokens of a sequence"},
          {"head_size", std::to_string(head_size), "44", "of a head; even"}};
}

std::vector<Axis> linear_axes() {
  return {{"rows", "1024", "33", "tokens"},
          {"in_features", "1024", "40", "of a token"},
          {"out_features", "1024", "51", "of its result"}};
}

std::vector<Axis> matrix_axes(int64_t rows, int64_t columns) {
  return {{"rows", std::to_string(rows), "67", "tokens"},
          {"columns", std::to_string(columns), "203", "features of a token"}};
}

}  // namespace

std::vector<Workload> region_cases() {
  return {
      {"rope_f32", "RoPE of q and k", rope_axes(2, 16, 2048, 128), rope_f32},
      {"rope_bf16", "RoPE of q and k", rope_axes(2, 16, 2048, 128), rope_bf16},
      {"qkv_rope_bf16", "QKV split into heads, then RoPE", rope_axes(2, 16, 2048, 128),
       qkv_rope_bf16},
      {"rmsnorm_bf16", "residual and RMSNorm", matrix_axes(4096, 2048), rmsnorm_bf16, 1.0 / 128},
      {"swiglu_bf16", "silu(gate) * up", matrix_axes(4096, 5632), swiglu_bf16},
      {"swiglu_f32", "silu(gate) * up", matrix_axes(4096, 5632), swiglu_f32},
      {"softmax_f32",
       "scaled masked softmax",
       {{"heads", "16", "3", "heads"}, {"sequence", "1024", "123", "tokens"}},
       softmax_f32,
       1e-5},
      {"component_f32",
       "masked component layer ((x V) mask) U",
       {{"batch", "2", "2", "sequences"},
        {"sequence", "512", "33", "tokens of a sequence"},
        {"width", "768", "40", "features of a token"},
        {"parts", "1200", "51", "components"}},
       component_f32},
      {"linear_gelu_f32", "gelu(x W^T + b), weights held", linear_axes(), linear_gelu_f32, 1e-5},
      {"linear_gelu_bf16", "gelu(x W^T + b), weights held", linear_axes(), linear_gelu_bf16,
       1.0 / 64},
      {"gptq_block",
       "GPTQ's loop over a block of columns, fp32",
       {{"rows", "2048", "69", "rows of the weight"}, {"columns", "128", "37", "of the block"}},
       gptq_block_case},
      {"adamw_f32",
       "AdamW over 8 square parameters",
       {{"side", "1024", "33", "rows and columns of a parameter"}},
       adamw_f32},
      {"attention_f32", "softmax(q k^T / sqrt(D)) v, written out", rope_axes(2, 8, 512, 64),
       attention_f32, 1e-5},
      {"block_f32",
       "pre-norm transformer block, forward",
       {{"batch", "2", "2", "sequences"},
        {"sequence", "128", "19", "tokens of a sequence"},
        {"width", "256", "24", "features of a token"},
        {"heads", "8", "3", "heads"}},
       block_f32,
       1e-5},
      {"tiny_rope_f32", "RoPE of small q and k: the overhead of a call", rope_axes(1, 4, 16, 64),
       tiny_rope_f32},
  };
}

}  // namespace graft::workloads
