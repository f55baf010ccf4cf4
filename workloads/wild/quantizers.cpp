// Quantisers and what reads their codes.

#include <ATen/ATen.h>

#include <cmath>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

constexpr int64_t kBlock = 64;  ///< weights that share a scale

/// Activations (R, C) to bytes with a scale for each row, by the row's largest.
std::tuple<at::Tensor, at::Tensor> int8_rows(const at::Tensor& x) {
  const at::Tensor f = wide(x);
  const at::Tensor scale = f.abs().amax(-1, /*keepdim=*/true).clamp_min(1e-5) / 127;
  return {(f / scale).round().clamp(-128, 127).to(at::kChar), scale};
}

/// QLoRA's NF4: blocks of weights over their largest, as the nearest of 16 levels (`borders`: the
/// 15 middles), two codes to a byte.
std::tuple<at::Tensor, at::Tensor> nf4_quantise(const at::Tensor& weights,
                                                const at::Tensor& borders) {
  const at::Tensor blocks = weights.view({-1, kBlock});
  const at::Tensor largest = blocks.abs().amax(1, /*keepdim=*/true);
  const at::Tensor codes = at::bucketize(blocks / largest, borders).to(at::kByte).view({-1, 2});
  const at::Tensor high = at::bitwise_left_shift(codes.select(1, 0), 4);
  return {at::bitwise_or(high, codes.select(1, 1)), largest};
}

/// The way back: two codes of a byte to levels (16), times their block's largest.
at::Tensor nf4_dequantise(const at::Tensor& packed, const at::Tensor& levels,
                          const at::Tensor& largest) {
  const at::Tensor codes =
      at::stack({at::bitwise_right_shift(packed, 4), at::bitwise_and(packed, 15)}, -1);
  const at::Tensor values = levels.index_select(0, codes.view(-1).to(at::kInt));
  return (values.view({-1, kBlock}) * largest).to(largest.scalar_type()).view(-1);
}

/// GPTQ's layout: eight weights of 4 bits in each int32 (R / 8, C), with scales and zeros for
/// groups of rows (G, C), to (R, C).
at::Tensor int4_unpack(const at::Tensor& packed, const at::Tensor& scales,
                       const at::Tensor& zeros) {
  const int64_t groups = scales.size(0), columns = packed.size(1);
  const at::Tensor shifts = at::arange(0, 32, 4, at::kInt).view({1, 8, 1});
  const at::Tensor codes =
      at::bitwise_and(at::bitwise_right_shift(packed.unsqueeze(1), shifts), 15);
  const at::Tensor grouped = codes.view({groups, -1, columns}).to(scales.scalar_type());
  return ((grouped - zeros.unsqueeze(1)) * scales.unsqueeze(1)).view({-1, columns});
}

/// BitNet b1.58: weights (R, C) over their mean magnitude, rounded to -1, 0 or 1; four codes to a
/// byte, and the scale.
std::tuple<at::Tensor, at::Tensor> ternary_pack(const at::Tensor& weights) {
  const at::Tensor scale = weights.abs().mean().clamp_min(1e-5);
  const at::Tensor codes = ((weights / scale).round().clamp(-1, 1) + 1).to(at::kByte);
  const auto part = codes.view({weights.size(0), -1, 4}).unbind(-1);
  at::Tensor packed = part[0];
  for (int64_t i = 1; i < 4; ++i)
    packed = at::bitwise_or(packed, at::bitwise_left_shift(part[static_cast<size_t>(i)], 2 * i));
  return {packed, scale};
}

/// Learned step size quantisation to 4 bits, forward and backward: the quantised x, the gradient by
/// x and that by the step (0-dim).
std::tuple<at::Tensor, at::Tensor, at::Tensor> learned_step(const at::Tensor& x,
                                                            const at::Tensor& gradient,
                                                            const at::Tensor& step) {
  const at::Tensor v = x / step, clamped = v.clamp(-8, 7), rounded = clamped.round();
  const at::Tensor inside = (v >= -8).logical_and(v <= 7);
  const at::Tensor by_step = at::where(inside, rounded - v, clamped);
  const double scale = 1 / std::sqrt(7.0 * static_cast<double>(x.numel()));
  return {rounded * step, at::where(inside, gradient, 0), (gradient * by_step).sum() * scale};
}

at::Tensor nf4_levels() {
  return at::tensor({-1.0f, -0.6961928f, -0.52507305f, -0.3949175f, -0.28444138f, -0.18477343f,
                     -0.09105004f, 0.0f, 0.0795803f, 0.1609302f, 0.2461123f, 0.33791524f,
                     0.44070983f, 0.5626170f, 0.72295684f, 1.0f});
}

Instance int8_rows_case(const Options& o) {
  const int64_t rows = o.integer("rows"), columns = o.integer("columns");
  return bounded(instance_of(int8_rows, Draw(o).normal({rows, columns}, at::kBFloat16)),
                 3 * rows * columns + 4 * rows, 5 * rows * columns);
}

Instance nf4_quantise_case(const Options& o) {
  const int64_t count = kBlock * o.integer("blocks");
  const at::Tensor levels = nf4_levels();
  const at::Tensor borders = (levels.slice(0, 1) + levels.slice(0, 0, -1)) / 2;
  return bounded(instance_of(nf4_quantise, Draw(o).normal({count}), borders),
                 4 * count + 4 * 15 + count / 2 + 4 * count / kBlock, 7 * count);
}

Instance nf4_dequantise_case(const Options& o) {
  const int64_t blocks = o.integer("blocks"), count = kBlock * blocks;
  Draw draw(o);
  const at::Tensor packed = draw.integers({count / 2}, 256, at::kByte);
  const at::Tensor largest = draw.uniform({blocks, 1}, 0.01, 0.1).to(at::kBFloat16);
  return bounded(instance_of(nf4_dequantise, packed, nf4_levels(), largest),
                 count / 2 + 4 * 16 + 2 * blocks + 2 * count, count);
}

Instance int4_unpack_case(const Options& o) {
  const int64_t groups = o.integer("groups"), columns = o.integer("columns"),
                packed_rows = groups * kBlock / 8, rows = groups * kBlock;
  Draw draw(o);
  const at::Tensor packed =
      draw.integers({packed_rows, columns}, int64_t{1} << 31, at::kLong).to(at::kInt);
  const at::Tensor scales = draw.uniform({groups, columns}, 0.01, 0.1).to(at::kBFloat16);
  const at::Tensor zeros = draw.integers({groups, columns}, 16).to(at::kBFloat16);
  return bounded(instance_of(int4_unpack, packed, scales, zeros),
                 4 * packed_rows * columns + 2 * 2 * groups * columns + 2 * rows * columns,
                 2 * rows * columns);
}

Instance ternary_pack_case(const Options& o) {
  const int64_t rows = o.integer("rows"), columns = 4 * o.integer("columns");
  return bounded(instance_of(ternary_pack, Draw(o).normal({rows, columns}) * 0.02),
                 4 * rows * columns + rows * columns / 4 + 4, 7 * rows * columns);
}

Instance learned_step_case(const Options& o) {
  const int64_t rows = o.integer("rows"), columns = o.integer("columns");
  Draw draw(o);
  const at::Tensor x = draw.normal({rows, columns}), gradient = draw.normal({rows, columns});
  return bounded(instance_of(learned_step, x, gradient, at::full({}, 0.2, at::kFloat)),
                 4 * (4 * rows * columns + 2), 12 * rows * columns);
}

std::vector<Axis> weight_axes(const char* rows, const char* columns, const char* what) {
  return {{"rows", rows, "37", "rows"}, {"columns", columns, "51", what}};
}

}  // namespace

std::vector<Workload> quantizer_cases() {
  return {
      {"int8_rows_bf16", "activations to bytes, a scale for each row",
       weight_axes("2048", "4096", "features"), int8_rows_case},
      {"nf4_quantise_f32",
       "weights to NF4 codes, two to a byte",
       {{"blocks", "65536", "37", "blocks of 64"}},
       nf4_quantise_case},
      {"nf4_dequantise_bf16",
       "NF4 codes to weights",
       {{"blocks", "131072", "37", "blocks of 64"}},
       nf4_dequantise_case},
      {"int4_unpack_bf16",
       "GPTQ's packed weights of 4 bits to weights",
       {{"groups", "64", "3", "groups of 64 rows"}, {"columns", "2048", "37", "columns"}},
       int4_unpack_case},
      {"ternary_pack_f32", "BitNet's ternary weights, four to a byte",
       weight_axes("2048", "512", "quarters of the columns"), ternary_pack_case, kSums},
      {"learned_step_f32", "quantisation with a learned step, forward and backward",
       weight_axes("2048", "2048", "columns"), learned_step_case, kSums},
  };
}

}  // namespace graft::workloads::wild
