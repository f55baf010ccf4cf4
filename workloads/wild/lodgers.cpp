// Lodgers: what a reader of 149 programs found slow, one program of each kind.

#include <ATen/ATen.h>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

/// A hidden Markov model's forward algorithm: the logarithm of the probability of each of B
/// sequences, by what each state (of S) makes of each step (T, B, S) and the transitions (S, S).
at::Tensor hidden_states(const at::Tensor& likelihoods, const at::Tensor& transitions) {
  at::Tensor state = likelihoods[0] / likelihoods.size(2),
             total = at::zeros_like(state.select(1, 0));
  for (int64_t step = 1; step < likelihoods.size(0); ++step) {
    state = at::mm(state, transitions) * likelihoods[step];
    const at::Tensor scale = state.sum(1, /*keepdim=*/true);
    state = state / scale;
    total = total + scale.squeeze(1).log();
  }
  return total;
}

/// The convolution module of a Conformer on (B, L, 2 C): a gate, then each channel along the
/// sequence by itself.
at::Tensor conformer_module(const at::Tensor& x, const at::Tensor& taps, const at::Tensor& bias) {
  const at::Tensor gated = at::glu(x, -1).transpose(1, 2);
  return at::silu(at::conv1d(gated, taps, bias, 1, taps.size(2) / 2, 1, taps.size(0)))
      .transpose(1, 2);
}

/// Mamba's short convolution of (B, L, C), each step by the few before it.
at::Tensor short_convolution(const at::Tensor& x, const at::Tensor& taps, const at::Tensor& bias) {
  const at::Tensor made =
      at::conv1d(x.transpose(1, 2), taps, bias, 1, taps.size(2) - 1, 1, taps.size(0));
  return at::silu(made.slice(2, 0, x.size(1)));
}

/// Each pixel of images (B, H, W) the median of its neighbourhood of 5 x 5.
at::Tensor median_filter(const at::Tensor& image) {
  const at::Tensor near = at::reflection_pad2d(image, {2, 2, 2, 2}).unfold(1, 5, 1).unfold(2, 5, 1);
  return std::get<0>(near.flatten(3).median(-1));
}

/// Rows (N, D) less their medians, over their median deviations, cut off at 5.
at::Tensor robust_rows(const at::Tensor& x) {
  const at::Tensor from = x - std::get<0>(x.median(1, /*keepdim=*/true)),
                   spread = std::get<0>(from.abs().median(1, /*keepdim=*/true));
  return (from / (1.4826 * spread + 1e-6)).clamp(-5, 5);
}

/// Features (N, C) of a volume (1, C, D, H, W) at points (N, 3), and their sizes.
std::tuple<at::Tensor, at::Tensor> voxel_features(const at::Tensor& volume,
                                                  const at::Tensor& points,
                                                  const at::Tensor& rotation) {
  const at::Tensor places = at::mm(points, rotation).view({1, 1, 1, -1, 3});
  const at::Tensor features =
      at::grid_sampler_3d(volume, places, /*bilinear*/ 0, /*border*/ 1, /*align_corners=*/true)
          .view({volume.size(1), -1})
          .t();
  return {at::relu(features), features.norm(2, 1)};
}

/// An Elman network's last state: steps (T, B, I), weights (S, I) and (S, S).
at::Tensor elman_cell(const at::Tensor& steps, const at::Tensor& in, const at::Tensor& over,
                      const at::Tensor& bias) {
  at::Tensor state = at::zeros({steps.size(1), in.size(0)}, steps.options());
  for (int64_t step = 0; step < steps.size(0); ++step)
    state = at::tanh(at::linear(steps[step], in, bias) + at::linear(state, over));
  return state;
}

Instance hidden_states_case(const Options& o) {
  const int64_t steps = o.integer("steps"), batch = o.integer("batch"),
                states = o.integer("states");
  Draw draw(o);
  const at::Tensor likelihoods = draw.uniform({steps, batch, states}, 0.1, 1),
                   transitions = draw.normal({states, states}).softmax(1);
  return bounded(instance_of(hidden_states, likelihoods, transitions),
                 4 * (likelihoods.numel() + batch), steps * batch * states * (2 * states + 4));
}

Instance conformer_module_case(const Options& o) {
  const int64_t batch = o.integer("batch"), length = o.integer("length"),
                channels = o.integer("channels"), taps = o.integer("taps");
  Draw draw(o);
  const at::Tensor x = draw.normal({batch, length, 2 * channels}),
                   weights = 0.2 * draw.normal({channels, 1, taps});
  return bounded(instance_of(conformer_module, x, weights, draw.normal({channels})),
                 4 * 3 * batch * length * channels, batch * length * channels * (2 * taps + 40));
}

Instance short_convolution_case(const Options& o) {
  const int64_t batch = o.integer("batch"), length = o.integer("length"),
                channels = o.integer("channels");
  Draw draw(o);
  const at::Tensor x = draw.normal({batch, length, channels}),
                   weights = draw.normal({channels, 1, 4});
  return bounded(instance_of(short_convolution, x, weights, draw.normal({channels})),
                 4 * 2 * batch * length * channels, batch * length * channels * 30);
}

Instance median_filter_case(const Options& o) {
  const int64_t height = o.integer("height"), width = o.integer("width");
  Draw draw(o);
  return bounded(instance_of(median_filter, draw.normal({1, height, width})), 8 * height * width,
                 height * width * 200);
}

Instance robust_rows_case(const Options& o) {
  const int64_t rows = o.integer("rows"), width = o.integer("width");
  Draw draw(o);
  return bounded(instance_of(robust_rows, draw.normal({rows, width})), 8 * rows * width,
                 rows * width * 10);
}

Instance voxel_features_case(const Options& o) {
  const int64_t points = o.integer("points"), side = o.integer("side"),
                channels = o.integer("channels");
  Draw draw(o);
  const at::Tensor volume = draw.normal({1, channels, side, side, side}),
                   places = draw.uniform({points, 3}, -1, 1), rotation = draw.normal({3, 3});
  return bounded(instance_of(voxel_features, volume, places, rotation),
                 4 * (volume.numel() + points * (4 + channels)), points * channels * 20);
}

Instance elman_cell_case(const Options& o) {
  const int64_t steps = o.integer("steps"), batch = o.integer("batch"),
                inputs = o.integer("inputs"), states = o.integer("states");
  Draw draw(o);
  const at::Tensor x = draw.normal({steps, batch, inputs}), in = draw.normal({states, inputs}),
                   over = 0.2 * draw.normal({states, states});
  return bounded(instance_of(elman_cell, x, in, over, draw.normal({states})),
                 4 * (x.numel() + in.numel() + over.numel() + batch * states),
                 steps * batch * states * (2 * (states + inputs) + 30));
}

}  // namespace

std::vector<Workload> lodger_cases() {
  return {
      {"hidden_states_f32",
       "the forward algorithm of a hidden Markov model",
       {{"steps", "50", "5", "of a sequence"},
        {"batch", "64", "9", "sequences"},
        {"states", "12", "5", "states"}},
       hidden_states_case,
       kSums},
      {"conformer_module_f32",
       "a Conformer's gated convolution along the sequence",
       {{"batch", "4", "2", "sequences"},
        {"length", "200", "37", "steps"},
        {"channels", "144", "19", "channels"},
        {"taps", "31", "5", "of the convolution"}},
       conformer_module_case,
       kSums},
      {"short_convolution_f32",
       "Mamba's convolution of each step and the three before it",
       {{"batch", "2", "2", "sequences"},
        {"length", "256", "37", "steps"},
        {"channels", "512", "19", "channels"}},
       short_convolution_case,
       kSums},
      {"median_filter_f32",
       "the median of each pixel's neighbourhood",
       {{"height", "240", "19", "rows"}, {"width", "320", "37", "columns"}},
       median_filter_case},
      {"robust_rows_f32",
       "rows less their medians, over their median deviations",
       {{"rows", "1024", "7", "rows"}, {"width", "1000", "67", "of a row"}},
       robust_rows_case},
      {"voxel_features_f32",
       "features of a volume at turned points",
       {{"points", "16384", "203", "points"},
        {"side", "48", "7", "of the volume"},
        {"channels", "8", "3", "channels"}},
       voxel_features_case,
       kSums},
      {"elman_cell_f32",
       "a small recurrent network, step by step",
       {{"steps", "20", "4", "steps"},
        {"batch", "8", "3", "sequences"},
        {"inputs", "16", "5", "numbers of a step"},
        {"states", "32", "7", "numbers of a state"}},
       elman_cell_case,
       kSums},
  };
}

}  // namespace graft::workloads::wild
