// Backward passes written by hand for autograd functions of whole blocks.

#include <ATen/ATen.h>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

/// The gradients of group norm and SiLU over (B, C, H, W), the norm computed anew: by x, weight and
/// bias.
std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm_silu_backward(const at::Tensor& gradient,
                                                                        const at::Tensor& x,
                                                                        const at::Tensor& weight,
                                                                        const at::Tensor& bias,
                                                                        int64_t groups) {
  const int64_t batch = x.size(0), channels = x.size(1);
  const at::Tensor parts = x.view({batch, groups, -1});
  const auto [variance, mean] = at::var_mean(parts, {-1}, /*unbiased=*/false, /*keepdim=*/true);
  const at::Tensor scale = at::rsqrt(variance + 1e-5), normal = (parts - mean) * scale;
  const at::Tensor rows = normal.view({batch, channels, -1}), w = weight.view({1, -1, 1});
  const at::Tensor z = rows * w + bias.view({1, -1, 1}), gate = at::sigmoid(z);
  const at::Tensor by_z = gradient.view({batch, channels, -1}) * gate * (1 + z * (1 - gate));
  const at::Tensor by_weight = (by_z * rows).sum(at::IntArrayRef{0, 2}),
                   by_bias = by_z.sum(at::IntArrayRef{0, 2});
  const at::Tensor inner = (by_z * w).view({batch, groups, -1});
  const at::Tensor along = (inner * normal).mean(-1, /*keepdim=*/true);
  const at::Tensor by_x = scale * (inner - inner.mean(-1, /*keepdim=*/true) - normal * along);
  return {by_x.view(x.sizes()), by_weight, by_bias};
}

/// The gradients through rotary embeddings and RMS norms of queries (B, S, H, D) and keys, whose
/// heads are fewer: by both, and by the norms' weights (D) in fp32. Cosines and sines (S, 1, D).
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> rotary_norm_backward(
    const at::Tensor& by_query, const at::Tensor& by_key, const at::Tensor& query,
    const at::Tensor& key, const at::Tensor& query_weight, const at::Tensor& key_weight,
    const at::Tensor& cosine, const at::Tensor& sine) {
  const auto back = [&](const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weight) {
    const at::Tensor g = wide(gradient), f = wide(x);
    const auto halves = (g * sine).chunk(2, -1);
    const at::Tensor turned = g * cosine + at::cat({halves[1], -halves[0]}, -1);
    const at::Tensor scale = at::rsqrt(f.square().mean(-1, /*keepdim=*/true) + 1e-6);
    const at::Tensor normal = f * scale, inner = turned * weight;
    const at::Tensor by_x = scale * (inner - normal * (inner * normal).mean(-1, /*keepdim=*/true));
    return std::make_tuple(by_x.to(x.scalar_type()),
                           (turned * normal).sum(at::IntArrayRef{0, 1, 2}));
  };
  return std::tuple_cat(back(by_query, query, query_weight), back(by_key, key, key_weight));
}

/// The gradients of SiLU after a causal depthwise convolution of x (B, C, L) with taps (C, K), tap
/// by tap: by x, taps and bias.
std::tuple<at::Tensor, at::Tensor, at::Tensor> depthwise_backward(const at::Tensor& gradient,
                                                                  const at::Tensor& x,
                                                                  const at::Tensor& convolved,
                                                                  const at::Tensor& weight) {
  const int64_t length = x.size(2), taps = weight.size(1);
  const at::Tensor gate = at::sigmoid(convolved);
  const at::Tensor inner = gradient * (gate * (1 + convolved * (1 - gate)));
  const at::Tensor by_x = at::zeros_like(x), by_weight = at::empty_like(weight);
  for (int64_t i = 0; i < taps; ++i) {
    const int64_t shift = taps - 1 - i;
    const at::Tensor later = inner.slice(2, shift), earlier = x.slice(2, 0, length - shift);
    by_x.slice(2, 0, length - shift).add_(later * weight.select(1, i).unsqueeze(1));
    by_weight.select(1, i).copy_((later * earlier).sum(at::IntArrayRef{0, 2}));
  }
  return {by_x, by_weight, inner.sum(at::IntArrayRef{0, 2})};
}

/// The gradient by a residual branch (B, N, D) through its scale (D) and a mask of the samples that
/// were kept (B); adds those of the scale and of the branch's last bias (D) to what is there.
at::Tensor layer_scale_backward(const at::Tensor& gradient, const at::Tensor& branch,
                                const at::Tensor& scale, const at::Tensor& kept,
                                const at::Tensor& scale_gradient, const at::Tensor& bias_gradient) {
  const at::Tensor dropped = gradient * (kept / 0.9).view({-1, 1, 1});
  const at::Tensor by_branch = dropped * scale;
  scale_gradient.add_((dropped * branch).sum(at::IntArrayRef{0, 1}));
  bias_gradient.add_(by_branch.sum(at::IntArrayRef{0, 1}));
  return by_branch;
}

Instance group_norm_silu_backward_case(const Options& o) {
  const int64_t batch = o.integer("batch"), groups = o.integer("groups"),
                channels = groups * o.integer("per_group"), side = o.integer("side");
  Draw draw(o);
  const at::Tensor gradient = draw.normal({batch, channels, side, side}),
                   x = draw.normal({batch, channels, side, side});
  const at::Tensor weight = 1 + 0.1 * draw.normal({channels}), bias = draw.normal({channels});
  return bounded(instance_of(group_norm_silu_backward, gradient, x, weight, bias, groups),
                 4 * (3 * x.numel() + 4 * channels), (kFunction + 24) * x.numel());
}

Instance rotary_norm_backward_case(const Options& o) {
  const int64_t batch = o.integer("batch"), tokens = o.integer("tokens"),
                heads = o.integer("heads"), key_heads = o.integer("key_heads"),
                half = o.integer("width") / 2, width = 2 * half,
                count = batch * tokens * (heads + key_heads) * width;
  Draw draw(o);
  const auto made = [&](int64_t of) {
    return draw.normal({batch, tokens, of, width}, at::kBFloat16);
  };
  const at::Tensor turns =
      at::arange(tokens, at::kFloat).unsqueeze(1) *
      at::pow(10000.0, -at::arange(half, at::kFloat) / static_cast<double>(half));
  const at::Tensor angle = at::cat({turns, turns}, -1).unsqueeze(1);
  const at::Tensor query_weight = 1 + 0.1 * draw.normal({width}),
                   key_weight = 1 + 0.1 * draw.normal({width});
  const at::Tensor by_query = made(heads), by_key = made(key_heads), query = made(heads),
                   key = made(key_heads);
  return bounded(instance_of(rotary_norm_backward, by_query, by_key, query, key, query_weight,
                             key_weight, angle.cos(), angle.sin()),
                 2 * 3 * count + 4 * (4 + 2 * tokens) * width, 15 * count);
}

Instance depthwise_backward_case(const Options& o) {
  const int64_t batch = o.integer("batch"), channels = o.integer("channels"),
                length = o.integer("length"), taps = o.integer("taps"),
                count = batch * channels * length;
  Draw draw(o);
  const auto normal = [&] { return draw.normal({batch, channels, length}); };
  const at::Tensor gradient = normal(), x = normal(), convolved = normal();
  return bounded(
      instance_of(depthwise_backward, gradient, x, convolved, draw.normal({channels, taps})),
      4 * (4 * count + (2 * taps + 1) * channels), (kFunction + 6 + 4 * taps) * count);
}

Instance layer_scale_backward_case(const Options& o) {
  const int64_t batch = o.integer("batch"), tokens = o.integer("tokens"),
                width = o.integer("width"), count = batch * tokens * width;
  Draw draw(o);
  const at::Tensor gradient = draw.normal({batch, tokens, width}),
                   branch = draw.normal({batch, tokens, width});
  const at::Tensor scale = draw.uniform({width}),
                   kept = (draw.uniform({batch}) < 0.9).to(at::kFloat);
  return bounded(updating_instance_of(layer_scale_backward, gradient, branch, scale, kept,
                                      at::zeros({width}), at::zeros({width})),
                 4 * (3 * count + 5 * width + batch), 5 * count);
}

}  // namespace

std::vector<Workload> backward_cases() {
  return {
      {"group_norm_silu_backward_f32",
       "the gradients of group norm and SiLU",
       {{"batch", "4", "3", "images"},
        {"groups", "32", "3", "groups of features"},
        {"per_group", "4", "2", "features of a group"},
        {"side", "48", "7", "rows and columns"}},
       group_norm_silu_backward_case,
       kSums},
      {"rotary_norm_backward_bf16",
       "the gradients through rotary embeddings and norms of queries and keys",
       {{"batch", "1", "3", "sequences"},
        {"tokens", "512", "37", "of a sequence"},
        {"heads", "16", "3", "heads of queries"},
        {"key_heads", "4", "2", "heads of keys"},
        {"width", "128", "18", "features of a head, even"}},
       rotary_norm_backward_case,
       kRounded},
      {"depthwise_backward_f32",
       "the gradients of a causal depthwise convolution, tap by tap",
       {{"batch", "2", "3", "sequences"},
        {"channels", "512", "13", "features"},
        {"length", "1024", "19", "of a sequence"},
        {"taps", "4", "3", "taps of a feature"}},
       depthwise_backward_case,
       kSums},
      {"layer_scale_backward_f32",
       "the gradients of a residual branch's scale, added up in place",
       {{"batch", "8", "3", "images"},
        {"tokens", "49", "37", "of an image"},
        {"width", "384", "18", "features"}},
       layer_scale_backward_case,
       kSums},
  };
}

}  // namespace graft::workloads::wild
