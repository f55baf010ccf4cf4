// Programs of visitors: rows are filtered by medians, images compared and warped, logits capped,
// few of many features kept, weights rounded by chance.

#include <ATen/ATen.h>

#include <limits>
#include <tuple>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

/// Hampel's filter of series (channels, time): what lies more than three deviations from the median
/// of its window becomes that; and the sums of what is left.
std::tuple<at::Tensor, at::Tensor> hampel(const at::Tensor& series, int64_t half) {
  const at::Tensor windows = at::reflection_pad1d(series, {half, half}).unfold(1, 2 * half + 1, 1);
  const at::Tensor middle = std::get<0>(windows.median(-1)),
                   spread = std::get<0>((windows - middle.unsqueeze(-1)).abs().median(-1)),
                   outlying = (series - middle).abs() > 3 * 1.4826 * spread;
  const at::Tensor filtered = at::where(outlying, middle, series);
  return {filtered, filtered.sum(1)};
}

/// How much two images tell about one another: their mutual information, that as a part of their
/// entropies, and the joint histogram of `bins` x `bins`.
std::tuple<at::Tensor, at::Tensor, at::Tensor> mutual_information(const at::Tensor& first,
                                                                  const at::Tensor& second,
                                                                  int64_t bins) {
  auto bin = [&](const at::Tensor& x) {
    const at::Tensor low = x.min(), high = x.max();
    const at::Tensor place = (x - low) / (high - low) * (static_cast<double>(bins) - 0.001);
    return place.floor().to(at::kLong).clamp(0, bins - 1);
  };
  const at::Tensor counts =
      at::zeros({bins * bins}, first.options())
          .scatter_add_(0, bin(first) * bins + bin(second), at::ones_like(first));
  const at::Tensor joint = (counts / counts.sum()).view({bins, bins}), rows = joint.sum(1, true),
                   columns = joint.sum(0, true);
  const at::Tensor parts =
      at::where(joint > 0, joint * (at::log(joint + 1e-12) - at::log(rows * columns + 1e-12)), 0);
  const at::Tensor both = parts.sum(), of_rows = -(rows * at::log(rows + 1e-12)).sum(),
                   of_columns = -(columns * at::log(columns + 1e-12)).sum();
  return {both, 2 * both / (of_rows + of_columns), joint};
}

/// Attention in a window, its scores capped by tanh, with a learned sink beside each head's keys;
/// keys and values (batch, groups, positions, width) serve several heads.
at::Tensor sink_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const at::Tensor& sinks, int64_t window) {
  const int64_t heads = q.size(1), positions = q.size(2), shared = heads / k.size(1);
  const at::Tensor at = at::arange(positions, q.options().dtype(at::kLong));
  const at::Tensor distance = at.unsqueeze(1) - at;
  const at::Tensor keys = k.repeat_interleave(shared, 1), values = v.repeat_interleave(shared, 1);
  at::Tensor scores = at::matmul(q, keys.transpose(-1, -2)) * 0.125;
  scores = 30 * at::tanh(scores / 30);
  scores = scores.masked_fill((distance < 0) | (distance >= window),
                              -std::numeric_limits<double>::infinity());
  scores =
      at::cat({scores, sinks.view({1, heads, 1, 1}).expand({q.size(0), heads, positions, 1})}, -1);
  const at::Tensor weights = at::softmax(scores, -1).slice(-1, 0, positions);
  return at::matmul(weights, values).transpose(1, 2).flatten(2);
}

/// A sparse autoencoder's codes: the `kept` largest of many features, most of which are zero.
std::tuple<at::Tensor, at::Tensor, at::Tensor> sparse_codes(const at::Tensor& features,
                                                            const at::Tensor& threshold,
                                                            int64_t kept) {
  const at::Tensor active = at::relu(features - threshold);
  const auto [most, places] = active.topk(kept, -1);
  const at::Tensor codes = at::zeros_like(active).scatter_(1, places, most);
  return {codes, (codes > 0).sum(1), most.sum(1)};
}

/// A step of weights that are kept in bfloat16, rounded up or down by chance: `noise` is of 16 bits
/// and moves each number's bits before they are cut off. The weights, and what each row lost.
std::tuple<at::Tensor, at::Tensor> stochastic_rounding(const at::Tensor& weights,
                                                       const at::Tensor& gradient,
                                                       const at::Tensor& noise) {
  const at::Tensor exact = weights - 0.1 * gradient;
  const at::Tensor bits = exact.to(at::kFloat).view(at::kInt);
  const at::Tensor moved = ((bits + noise) & -65536).view(at::kFloat);
  const at::Tensor kept = at::where(at::isfinite(exact), moved, exact).to(at::kBFloat16);
  return {kept, (exact - kept).mean(1)};
}

/// An image, turned and shifted, with its channels normalised; and how far each channel moved.
std::tuple<at::Tensor, at::Tensor> affine_warp(const at::Tensor& image, const at::Tensor& motion,
                                               const at::Tensor& mean, const at::Tensor& spread) {
  const at::Tensor grid = at::affine_grid_generator(motion, image.sizes(), false);
  const at::Tensor warped = at::grid_sampler(image, grid, 0, 0, false);
  return {(warped - mean.view({1, -1, 1, 1})) / spread.view({1, -1, 1, 1}),
          (warped - image).abs().mean({2, 3})};
}

Instance hampel_case(const Options& o) {
  const int64_t channels = o.integer("channels"), samples = o.integer("samples"),
                half = o.integer("half"), length = 2 * half + 1;
  return bounded(instance_of(hampel, Draw(o).normal({channels, samples}), half),
                 4 * 2 * channels * samples, 2 * length * length * channels * samples);
}

Instance mutual_information_case(const Options& o) {
  const int64_t pixels = o.integer("pixels"), bins = o.integer("bins");
  Draw draw(o);
  const at::Tensor first = draw.normal({pixels}), second = first + draw.normal({pixels}) * 0.5;
  return bounded(instance_of(mutual_information, first, second, bins), 4 * 2 * pixels, 12 * pixels);
}

Instance sink_attention_case(const Options& o) {
  const int64_t heads = o.integer("heads"), positions = o.integer("positions"), width = 64,
                window = o.integer("window");
  Draw draw(o);
  const at::Tensor q = draw.normal({1, heads, positions, width}),
                   k = draw.normal({1, heads / 2, positions, width}),
                   v = draw.normal({1, heads / 2, positions, width}), sinks = draw.normal({heads});
  return bounded(instance_of(sink_attention, q, k, v, sinks, window),
                 4 * 3 * heads * positions * width, 4 * heads * positions * window * width);
}

Instance sparse_codes_case(const Options& o) {
  const int64_t rows = o.integer("rows"), features = o.integer("features");
  Draw draw(o);
  return bounded(instance_of(sparse_codes, draw.normal({rows, features}),
                             draw.uniform({features}, 1.2, 2), o.integer("kept")),
                 4 * 2 * rows * features, 4 * rows * features);
}

Instance stochastic_rounding_case(const Options& o) {
  const int64_t rows = o.integer("rows"), columns = o.integer("columns");
  Draw draw(o);
  const at::Tensor weights = draw.normal({rows, columns}),
                   gradient = draw.normal({rows, columns}) * 0.01;
  return bounded(instance_of(stochastic_rounding, weights, gradient,
                             draw.integers({rows, columns}, 1 << 16, at::kInt)),
                 14 * rows * columns, 8 * rows * columns);
}

Instance affine_warp_case(const Options& o) {
  const int64_t side = o.integer("side"), pixels = side * side;
  Draw draw(o);
  const at::Tensor motion =
      at::tensor({0.94f, 0.12f, 0.05f, -0.12f, 0.94f, -0.03f}).view({1, 2, 3});
  return bounded(instance_of(affine_warp, draw.uniform({1, 3, side, side}), motion,
                             draw.uniform({3}), draw.uniform({3}, 0.5, 1.5)),
                 4 * 2 * 3 * pixels, 3 * 20 * pixels);
}

}  // namespace

std::vector<Workload> visitor_cases() {
  return {
      {"hampel_f32",
       "outliers of series, replaced by their window's median",
       {{"channels", "8", "3", "series"},
        {"samples", "8192", "211", "of a series"},
        {"half", "4", "2", "of a window, on each side"}},
       hampel_case,
       kSums},
      {"mutual_information_f32",
       "the mutual information of two images",
       {{"pixels", "200000", "1009", "of an image"}, {"bins", "64", "7", "of a histogram"}},
       mutual_information_case,
       kSums},
      {"sink_attention_f32",
       "attention in a window with capped scores and a sink",
       {{"heads", "8", "4", "of queries"},
        {"positions", "512", "37", "of a sequence"},
        {"window", "128", "9", "positions that one sees"}},
       sink_attention_case,
       kSums},
      {"sparse_codes_f32",
       "the few largest features of a sparse autoencoder",
       {{"rows", "256", "5", "of activations"},
        {"features", "1024", "131", "of a row"},
        {"kept", "32", "7", "of them"}},
       sparse_codes_case,
       kSums},
      {"stochastic_rounding_f32",
       "weights in bfloat16, rounded by chance after a step",
       {{"rows", "700", "5", "of the weights"}, {"columns", "1000", "131", "of a row"}},
       stochastic_rounding_case,
       kSums},
      {"affine_warp_f32",
       "an image, turned, shifted and normalised",
       {{"side", "512", "37", "of the image"}},
       affine_warp_case,
       kSums},
  };
}

}  // namespace graft::workloads::wild
