// Norms of feature maps and of tokens, forward and backward.

#include <ATen/ATen.h>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

/// The end of a ResNet block at inference: batch norm of (B, C, H, W), the shortcut, ReLU.
at::Tensor batch_norm_relu(const at::Tensor& x, const at::Tensor& shortcut, const at::Tensor& mean,
                           const at::Tensor& variance, const at::Tensor& weight,
                           const at::Tensor& bias) {
  const at::Tensor normal = at::batch_norm(x, weight, bias, mean, variance, /*training=*/false,
                                           /*momentum=*/0.1, /*eps=*/1e-5, /*cudnn_enabled=*/false);
  return at::relu(normal + shortcut);
}

/// Batch norm in training, written out; moves the running statistics (C) in place.
at::Tensor batch_norm_train(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& running_mean, const at::Tensor& running_variance) {
  const auto [variance, mean] = at::var_mean(x, {0, 2, 3}, /*unbiased=*/false);
  const double count = static_cast<double>(x.numel()) / static_cast<double>(x.size(1));
  running_mean.mul_(0.9).add_(mean, 0.1);
  running_variance.mul_(0.9).add_(variance, 0.1 * count / (count - 1));
  const at::Tensor scale = weight * at::rsqrt(variance + 1e-5), shift = bias - mean * scale;
  return x * scale.view({1, -1, 1, 1}) + shift.view({1, -1, 1, 1});
}

/// The beginning of a diffusion model's residual block: group norm of (B, C, H, W), SiLU.
at::Tensor group_norm_silu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           int64_t groups) {
  const at::Tensor parts = x.view({x.size(0), groups, -1});
  const at::Tensor centred = parts - parts.mean(-1, /*keepdim=*/true);
  const at::Tensor variance = centred.square().mean(-1, /*keepdim=*/true);
  const at::Tensor normal = (centred * at::rsqrt(variance + 1e-5)).view(x.sizes());
  return at::silu(normal * weight.view({1, -1, 1, 1}) + bias.view({1, -1, 1, 1}));
}

/// ConvNeXt's layer norm over the channels of (B, C, H, W).
at::Tensor channel_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor centred = x - x.mean(1, /*keepdim=*/true);
  const at::Tensor variance = centred.square().mean(1, /*keepdim=*/true);
  return centred / (variance + 1e-6).sqrt() * weight.view({-1, 1, 1}) + bias.view({-1, 1, 1});
}

/// Layer norm's gradients by x (R, C), weight and bias, from that of its result.
std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_backward(const at::Tensor& gradient,
                                                                   const at::Tensor& x,
                                                                   const at::Tensor& weight) {
  const auto [variance, mean] = at::var_mean(x, {-1}, /*unbiased=*/false, /*keepdim=*/true);
  const at::Tensor scale = at::rsqrt(variance + 1e-5), normal = (x - mean) * scale;
  const at::Tensor inner = gradient * weight;
  const at::Tensor along = (inner * normal).mean(-1, /*keepdim=*/true);
  const at::Tensor by_x = scale * (inner - inner.mean(-1, /*keepdim=*/true) - normal * along);
  return {by_x, (gradient * normal).sum(0), gradient.sum(0)};
}

at::Tensor feature_map(Draw& draw, const Options& o, int64_t channels) {
  return draw.normal({o.integer("batch"), channels, o.integer("side"), o.integer("side")});
}

Instance batch_norm_relu_case(const Options& o) {
  const int64_t channels = o.integer("channels");
  Draw draw(o);
  const at::Tensor x = feature_map(draw, o, channels), shortcut = feature_map(draw, o, channels);
  const at::Tensor mean = draw.normal({channels}), variance = draw.uniform({channels}, 0.5, 2),
                   weight = draw.normal({channels}), bias = draw.normal({channels});
  return bounded(instance_of(batch_norm_relu, x, shortcut, mean, variance, weight, bias),
                 4 * (3 * x.numel() + 4 * channels), 4 * x.numel());
}

Instance batch_norm_train_case(const Options& o) {
  const int64_t channels = o.integer("channels");
  Draw draw(o);
  const at::Tensor x = feature_map(draw, o, channels);
  return bounded(
      updating_instance_of(batch_norm_train, x, draw.normal({channels}), draw.normal({channels}),
                           at::zeros({channels}), at::ones({channels})),
      4 * (2 * x.numel() + 6 * channels), 5 * x.numel());
}

Instance group_norm_silu_case(const Options& o) {
  const int64_t groups = o.integer("groups"), channels = groups * o.integer("per_group");
  Draw draw(o);
  const at::Tensor x = feature_map(draw, o, channels);
  return bounded(
      instance_of(group_norm_silu, x, draw.normal({channels}), draw.normal({channels}), groups),
      4 * (2 * x.numel() + 2 * channels), (8 + kFunction) * x.numel());
}

Instance channel_norm_case(const Options& o) {
  const int64_t channels = o.integer("channels");
  Draw draw(o);
  const at::Tensor x = feature_map(draw, o, channels);
  return bounded(instance_of(channel_norm, x, draw.normal({channels}), draw.normal({channels})),
                 4 * (2 * x.numel() + 2 * channels), 7 * x.numel());
}

Instance layer_norm_backward_case(const Options& o) {
  const int64_t rows = o.integer("rows"), columns = o.integer("columns");
  Draw draw(o);
  const at::Tensor gradient = draw.normal({rows, columns}), x = draw.normal({rows, columns});
  return bounded(instance_of(layer_norm_backward, gradient, x, draw.normal({columns})),
                 4 * (3 * rows * columns + 3 * columns), 15 * rows * columns);
}

std::vector<Axis> map_axes(const char* batch, const char* channels, const char* side) {
  return {{"batch", batch, "3", "images"},
          {"channels", channels, "5", "features"},
          {"side", side, "7", "rows and columns"}};
}

}  // namespace

std::vector<Workload> norm_cases() {
  return {
      {"batch_norm_relu_f32", "batch norm at inference, shortcut, ReLU", map_axes("16", "64", "56"),
       batch_norm_relu_case},
      {"batch_norm_train_f32", "batch norm in training, with running statistics",
       map_axes("16", "64", "56"), batch_norm_train_case, kSums},
      {"group_norm_silu_f32",
       "group norm, SiLU",
       {{"batch", "8", "2", "images"},
        {"groups", "32", "3", "groups of features"},
        {"per_group", "4", "2", "features of a group"},
        {"side", "64", "7", "rows and columns"}},
       group_norm_silu_case,
       kSums},
      {"channel_norm_f32", "layer norm over the channels of images", map_axes("16", "96", "56"),
       channel_norm_case, kSums},
      {"layer_norm_backward_f32",
       "layer norm's gradients by input, weight and bias",
       {{"rows", "4096", "67", "tokens"}, {"columns", "1024", "203", "features of a token"}},
       layer_norm_backward_case,
       kSums},
  };
}

}  // namespace graft::workloads::wild
