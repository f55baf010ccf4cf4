// Mixtures: programs of many fields, from stereo cameras to forecasts, one of each.

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// RAFT's upsampling: a flow (B, 2, H, W) at eight times its size, each pixel a mixture of 3 x 3
/// coarse ones by a mask (B, 9 * 64, H, W).
at::Tensor convex_upsample(const at::Tensor& flow, const at::Tensor& mask) {
  const int64_t b = flow.size(0), h = flow.size(2), w = flow.size(3);
  const at::Tensor weights = mask.view({b, 1, 9, 8, 8, h, w}).softmax(2);
  const at::Tensor near = at::im2col(8 * flow, {3, 3}, {1, 1}, {1, 1}, {1, 1});
  const at::Tensor mixed = (weights * near.view({b, 2, 9, 1, 1, h, w})).sum(2);
  return mixed.permute({0, 1, 4, 2, 5, 3}).reshape({b, 2, 8 * h, 8 * w});
}

/// Levenshtein's distances of pairs of words (B, L) of given lengths (B), row by row.
at::Tensor edit_distance(const at::Tensor& one, const at::Tensor& other,
                         const at::Tensor& one_lengths, const at::Tensor& other_lengths) {
  const int64_t batch = one.size(0), length = one.size(1);
  const at::Tensor places = at::arange(length + 1, one.options());
  at::Tensor row = places.expand({batch, length + 1});
  for (int64_t i = 0; i < length; ++i) {
    const at::Tensor differs = (other != one.select(1, i).unsqueeze(1)).to(at::kInt);
    const at::Tensor changed = at::minimum(row.slice(1, 0, length) + differs, row.slice(1, 1) + 1);
    const at::Tensor first = at::full({batch, 1}, i + 1, one.options());
    const at::Tensor best = at::cat({first, changed}, 1) - places;
    const at::Tensor next = std::get<0>(best.cummin(1)) + places;
    row = at::where((one_lengths > i).unsqueeze(1), next, row);
  }
  return row.gather(1, other_lengths.unsqueeze(1)).squeeze(1);
}

/// The power from angles (A) at a line of microphones by their snapshots' real and imaginary parts
/// (F, M, T): by delays alone, and by Capon's weights. Places of microphones (M), frequencies (F).
std::tuple<at::Tensor, at::Tensor> beamformer(const at::Tensor& real, const at::Tensor& imaginary,
                                              const at::Tensor& places,
                                              const at::Tensor& frequencies,
                                              const at::Tensor& angles) {
  const int64_t microphones = real.size(1), snapshots = real.size(2);
  const at::Tensor x = at::complex(real, imaginary);
  const at::Tensor covariance = at::matmul(x, x.mH()) / snapshots;
  const at::Tensor loaded = covariance + 0.1 * at::eye(microphones, real.options());
  const at::Tensor delays = angles.sin().unsqueeze(1) * places / 343;
  const at::Tensor phases = 2 * std::numbers::pi * frequencies.view({-1, 1, 1}) * delays;
  const at::Tensor steering = at::polar(at::ones_like(phases), phases);
  const auto along = [&](const at::Tensor& matrix) {
    return at::real(at::einsum("fam,fmn,fan->fa", {steering.conj(), matrix, steering}));
  };
  return {along(covariance) / (microphones * microphones),
          along(at::linalg_inv(loaded)).reciprocal()};
}

/// Bits of a pixel's 5 x 5 neighbours: whether they are darker.
at::Tensor census(const at::Tensor& image) {
  const int64_t height = image.size(0), width = image.size(1);
  const at::Tensor padded = at::constant_pad_nd(image, {2, 2, 2, 2}, 0);
  at::Tensor code = at::zeros({height, width}, at::kInt);
  for (int64_t dy = 0; dy < 5; ++dy) {
    for (int64_t dx = 0; dx < 5; ++dx) {
      if (dy == 2 && dx == 2) continue;
      const at::Tensor other = padded.slice(0, dy, dy + height).slice(1, dx, dx + width);
      code = code.mul(2).bitwise_or((other < image).to(at::kInt));
    }
  }
  return code;
}

at::Tensor count_bits(at::Tensor x) {
  x = x - x.bitwise_right_shift(1).bitwise_and(0x55555555);
  x = x.bitwise_and(0x33333333) + x.bitwise_right_shift(2).bitwise_and(0x33333333);
  x = (x + x.bitwise_right_shift(4)).bitwise_and(0x0f0f0f0f);
  x = x + x.bitwise_right_shift(8);
  return (x + x.bitwise_right_shift(16)).bitwise_and(0x3f);
}

/// The disparity of two cameras' images (H, W) in sixteenths of pixels: census codes compared at
/// each shift, costs added up over squares, the best with a parabola through its neighbours.
at::Tensor stereo_match(const at::Tensor& left, const at::Tensor& right, int64_t shifts) {
  const int64_t width = left.size(1);
  const at::Tensor l = census(left), r = census(right);
  const at::Tensor costs = at::full({shifts, left.size(0), width}, 24, at::kFloat);
  for (int64_t d = 0; d < shifts; ++d) {
    const at::Tensor differ = l.slice(1, d).bitwise_xor(r.slice(1, 0, width - d));
    costs.select(0, d).slice(1, d).copy_(count_bits(differ));
  }
  const at::Tensor sums = at::avg_pool2d(costs.unsqueeze(1), {5, 5}, {1, 1}, {2, 2},
                                         /*ceil_mode=*/false, /*count_include_pad=*/true,
                                         /*divisor_override=*/1)
                              .squeeze(1);
  const at::Tensor best = sums.argmin(0, /*keepdim=*/true);
  const at::Tensor here = sums.gather(0, best), before = sums.gather(0, (best - 1).clamp_min(0)),
                   after = sums.gather(0, (best + 1).clamp_max(shifts - 1));
  const at::Tensor curve = before + after - 2 * here;
  const at::Tensor inside = (best > 0).logical_and(best < shifts - 1).logical_and(curve > 0);
  const at::Tensor offset = at::where(inside, (before - after) / (2 * curve), 0);
  return (16 * (best + offset)).round().to(at::kShort).squeeze(0);
}

/// ToMe: of each image's tokens (B, N, C), which stand for `sizes` (B, N, 1) patches, the `count`
/// most alike of the even ones, by their keys (B, N, D), go into the odd ones that they are like.
std::tuple<at::Tensor, at::Tensor> merge_tokens(const at::Tensor& x, const at::Tensor& keys,
                                                const at::Tensor& sizes, int64_t count) {
  const at::Tensor unit = keys / keys.norm(2, -1, /*keepdim=*/true);
  const auto even = [](const at::Tensor& t) { return t.slice(1, 0, std::nullopt, 2); };
  const auto odd = [](const at::Tensor& t) { return t.slice(1, 1, std::nullopt, 2); };
  const at::Tensor scores = at::matmul(even(unit), odd(unit).transpose(-1, -2));
  scores.select(1, 0).fill_(kMinusInfinity);  // the class's token stays
  const auto [best, partner] = scores.max(-1);
  const at::Tensor order = best.argsort(-1, /*descending=*/true).unsqueeze(-1);
  const at::Tensor gone = order.slice(1, 0, count),
                   kept = std::get<0>(order.slice(1, count).sort(1));
  const at::Tensor to = partner.unsqueeze(-1).gather(1, gone);
  const auto merge = [&](const at::Tensor& t) {
    const int64_t batch = t.size(0), width = t.size(2);
    const auto spread = [&](const at::Tensor& index) { return index.expand({batch, -1, width}); };
    const at::Tensor rest = even(t).gather(1, spread(kept));
    const at::Tensor moved = even(t).gather(1, spread(gone));
    return at::cat({rest, odd(t).scatter_add(1, spread(to), moved)}, 1);
  };
  const at::Tensor merged = merge(sizes);
  return {merge(x * sizes) / merged, merged};
}

/// DeepSeek's latent attention for one token: queries (B, H, D) with rotated parts (B, H, R) over a
/// cache of latents (B, L, C) and rotated keys (B, L, R), of which `lengths` (B) are there; what
/// makes keys (H, D, C) and values (H, C, D) of latents goes to the queries and results.
at::Tensor latent_attention(const at::Tensor& query, const at::Tensor& rotated,
                            const at::Tensor& cache, const at::Tensor& rotated_keys,
                            const at::Tensor& lengths, const at::Tensor& to_key,
                            const at::Tensor& to_value) {
  const double scale = 1 / std::sqrt(static_cast<double>(query.size(2) + rotated.size(2)));
  const at::Tensor absorbed = at::einsum("bhd,hdc->bhc", {query, to_key});
  const at::Tensor scores = at::einsum("bhc,blc->bhl", {absorbed, cache}) +
                            at::einsum("bhr,blr->bhl", {rotated, rotated_keys});
  const at::Tensor absent = at::arange(cache.size(1), at::kLong) >= lengths.view({-1, 1, 1});
  const at::Tensor weights =
      (wide(scores) * scale).masked_fill(absent, kMinusInfinity).softmax(-1).to(cache.dtype());
  const at::Tensor mixed = at::einsum("bhl,blc->bhc", {weights, cache});
  return at::einsum("bhc,hcd->bhd", {mixed, to_value}).flatten(1);
}

/// Mamba 2's mixing of x (B, T, H, P) in chunks: decays' logarithms (B, T, H), inputs' and outputs'
/// vectors (B, T, N); within chunks by matrices, between them by states.
at::Tensor chunk_scan(const at::Tensor& x, const at::Tensor& decay, const at::Tensor& in,
                      const at::Tensor& out, int64_t length) {
  const int64_t b = x.size(0), h = x.size(2), chunks = x.size(1) / length;
  const at::Tensor v = x.view({b, chunks, length, h, -1});
  const at::Tensor i = in.view({b, chunks, length, -1}), o = out.view({b, chunks, length, -1});
  const at::Tensor sums = decay.view({b, chunks, length, h}).permute({0, 3, 1, 2}).cumsum(-1);
  const at::Tensor later = at::ones({length, length}, at::kBool).triu(1);
  const at::Tensor within =
      (sums.unsqueeze(-1) - sums.unsqueeze(-2)).masked_fill(later, kMinusInfinity).exp();
  const at::Tensor own = at::einsum("bcln,bcsn,bhcls,bcshp->bclhp", {o, i, within, v});
  const at::Tensor last = sums.slice(-1, length - 1);
  const at::Tensor states = at::einsum("bcln,bhcl,bclhp->bchpn", {i, (last - sums).exp(), v});
  at::Tensor state = at::zeros_like(states.select(1, 0));
  std::vector<at::Tensor> before;
  for (int64_t c = 0; c < chunks; ++c) {
    before.push_back(state);
    state = state * last.select(2, c).exp().unsqueeze(-1) + states.select(1, c);
  }
  const at::Tensor carried =
      at::einsum("bcln,bchpn,bhcl->bclhp", {o, at::stack(before, 1), sums.exp()});
  return (own + carried).reshape(x.sizes());
}

/// ColBERT's scores (N) of documents (N, L, D) of given lengths (N) for a query (Q, D), and the
/// best ten.
std::tuple<at::Tensor, at::Tensor> late_interaction(const at::Tensor& query,
                                                    const at::Tensor& documents,
                                                    const at::Tensor& lengths) {
  const at::Tensor similar = at::matmul(documents, query.t());
  const at::Tensor there = at::arange(documents.size(1), at::kLong) < lengths.unsqueeze(1);
  const at::Tensor best = similar.masked_fill(there.logical_not().unsqueeze(-1), -9999).amax(1);
  const at::Tensor scores = wide(best).sum(-1);
  return {scores, std::get<0>(scores.topk(10))};
}

/// Places (N, 3) of bodies on ellipses, whose anomalies solve Kepler's equation by Newton's steps:
/// semi-major axes, eccentricities, inclinations, nodes, periapses and mean anomalies (N).
at::Tensor kepler(const at::Tensor& axis, const at::Tensor& eccentricity, const at::Tensor& tilt,
                  const at::Tensor& node, const at::Tensor& periapsis, const at::Tensor& mean) {
  const at::Tensor m = at::remainder(mean, 2 * std::numbers::pi);
  at::Tensor e = m + eccentricity * m.sin();
  for (int step = 0; step < 8; ++step) {
    const at::Tensor error = e - eccentricity * e.sin() - m;
    e = e - error / (1 - eccentricity * e.cos());
  }
  const at::Tensor x = axis * (e.cos() - eccentricity),
                   y = axis * (1 - eccentricity.square()).sqrt() * e.sin();
  const at::Tensor cn = node.cos(), sn = node.sin(), cp = periapsis.cos(), sp = periapsis.sin(),
                   ct = tilt.cos(), st = tilt.sin();
  return at::stack(
      {x * (cn * cp - sn * sp * ct) - y * (cn * sp + sn * cp * ct),
       x * (sn * cp + cn * sp * ct) - y * (sn * sp - cn * cp * ct), x * (sp * st) + y * (cp * st)},
      1);
}

/// The fast guided filter: images (B, 1, H, W) smoothed along the edges of their guides, by local
/// lines that are found at a quarter of the size.
at::Tensor guided_filter(const at::Tensor& guide, const at::Tensor& image, int64_t radius) {
  const int64_t height = guide.size(2), width = guide.size(3);
  const auto small = [&](const at::Tensor& t) {
    return at::upsample_bilinear2d(t, {height / 4, width / 4}, /*align_corners=*/false);
  };
  const auto mean = [&](const at::Tensor& t) {
    return at::avg_pool2d(t, {2 * radius + 1, 2 * radius + 1}, {1, 1}, {radius, radius},
                          /*ceil_mode=*/false, /*count_include_pad=*/false);
  };
  const at::Tensor g = small(guide), p = small(image), mean_g = mean(g), mean_p = mean(p);
  const at::Tensor slope = (mean(g * p) - mean_g * mean_p) / (mean(g * g) - mean_g.square() + 1e-2);
  const at::Tensor level = mean_p - slope * mean_g;
  const auto large = [&](const at::Tensor& t) {
    return at::upsample_bilinear2d(mean(t), {height, width}, /*align_corners=*/false);
  };
  return large(slope) * guide + large(level);
}

/// A count sketch (R, W), to which values (K) of numbered items (K) are added in place: estimates
/// of these items' sums, and the 16 largest. Hashes (R, 4).
std::tuple<at::Tensor, at::Tensor> count_sketch(const at::Tensor& sketch, const at::Tensor& items,
                                                const at::Tensor& values,
                                                const at::Tensor& hashes) {
  constexpr int64_t kPrime = (int64_t{1} << 31) - 1;
  const auto h = hashes.unsqueeze(-1).unbind(1);
  const at::Tensor bucket = (h[0] * items + h[1]).remainder(kPrime).remainder(sketch.size(1));
  const at::Tensor sign = (h[2] * items + h[3]).remainder(kPrime).remainder(2) * 2 - 1;
  sketch.scatter_add_(1, bucket, sign * values);
  const at::Tensor estimate = std::get<0>((sketch.gather(1, bucket) * sign).median(0));
  return {estimate, std::get<0>(estimate.abs().topk(16))};
}

/// Holt's and Winters's smoothing of series (S, T), each with weights (S), goes on in place: level
/// and trend (S), seasons (S, P). Forecasts of each step (S, T), and of a period after (S, P).
std::tuple<at::Tensor, at::Tensor> holt_winters(const at::Tensor& level, const at::Tensor& trend,
                                                const at::Tensor& seasons, const at::Tensor& series,
                                                const at::Tensor& alpha, const at::Tensor& beta,
                                                const at::Tensor& gamma) {
  const int64_t period = seasons.size(1);
  const at::Tensor forecast = at::empty_like(series), ahead = at::empty_like(seasons);
  for (int64_t t = 0; t < series.size(1); ++t) {
    const at::Tensor y = series.select(1, t), season = seasons.select(1, t % period);
    const at::Tensor expected = level + trend;
    forecast.select(1, t).copy_(expected + season);
    const at::Tensor next = alpha * (y - season) + (1 - alpha) * expected;
    trend.copy_(beta * (next - level) + (1 - beta) * trend);
    level.copy_(next);
    season.copy_(gamma * (y - next) + (1 - gamma) * season);
  }
  for (int64_t k = 0; k < period; ++k) {
    const int64_t place = (series.size(1) + k) % period;
    ahead.select(1, k).copy_(level + (k + 1) * trend + seasons.select(1, place));
  }
  return {forecast, ahead};
}

Instance convex_upsample_case(const Options& o) {
  const int64_t batch = o.integer("batch"), height = o.integer("height"),
                width = o.integer("width"), pixels = batch * height * width;
  Draw draw(o);
  const at::Tensor flow = draw.normal({batch, 2, height, width}),
                   mask = draw.normal({batch, 576, height, width});
  return bounded(instance_of(convex_upsample, flow, mask), 4 * pixels * (2 + 576 + 128),
                 pixels * 576 * (kFunction + 3 + 4));
}

Instance edit_distance_case(const Options& o) {
  const int64_t pairs = o.integer("pairs"), length = o.integer("length");
  Draw draw(o);
  const auto word = [&] { return draw.integers({pairs, length}, 4, at::kInt); };
  const auto lengths = [&] { return 1 + draw.integers({pairs}, length); };
  const at::Tensor one = word(), other = word(), one_length = lengths(), other_length = lengths();
  return bounded(instance_of(edit_distance, one, other, one_length, other_length),
                 pairs * (8 * length + 20), pairs * length * length * 8);
}

Instance beamformer_case(const Options& o) {
  const int64_t bins = o.integer("bins"), microphones = o.integer("microphones"),
                snapshots = o.integer("snapshots"), angles = o.integer("angles");
  Draw draw(o);
  const at::Tensor real = draw.normal({bins, microphones, snapshots}),
                   imaginary = draw.normal({bins, microphones, snapshots});
  const int64_t square = microphones * microphones;
  return bounded(
      instance_of(beamformer, real, imaginary, at::arange(microphones, at::kFloat) * 0.05,
                  at::linspace(200, 3000, bins, at::kFloat),
                  at::linspace(-1.5, 1.5, angles, at::kFloat)),
      4 * (2 * real.numel() + microphones + bins + angles + 2 * bins * angles),
      8 * bins * square * (snapshots + microphones + 2 * angles) +
          bins * angles * microphones * (2 * kFunction + 16));
}

Instance stereo_match_case(const Options& o) {
  const int64_t height = o.integer("height"), width = o.integer("width"),
                shifts = o.integer("shifts");
  Draw draw(o);
  const at::Tensor scene = draw.integers({height, width}, 256, at::kByte);
  const at::Tensor other = at::roll(scene, {-3}, {1}) / 2 + draw.integers({height, width}, 16);
  return bounded(instance_of(stereo_match, scene, other.to(at::kByte), shifts), 4 * height * width,
                 height * width * (2 * 24 * 3 + shifts * (13 + 25 + 1)));
}

Instance merge_tokens_case(const Options& o) {
  const int64_t batch = o.integer("batch"), tokens = o.integer("tokens"),
                width = o.integer("width"), keys = o.integer("keys"), count = tokens / 12;
  Draw draw(o);
  const at::Tensor x = draw.normal({batch, tokens, width}), k = draw.normal({batch, tokens, keys});
  const at::Tensor sizes = 1 + draw.integers({batch, tokens, 1}, 3).to(at::kFloat);
  return bounded(instance_of(merge_tokens, x, k, sizes, count),
                 4 * batch * (tokens * (width + keys + 1) + (tokens - count) * (width + 1)),
                 batch * tokens * (tokens / 2 * keys + 3 * keys + 3 * width));
}

Instance latent_attention_case(const Options& o) {
  const int64_t batch = o.integer("batch"), heads = o.integer("heads"),
                length = o.integer("length"), latent = o.integer("latent"), width = latent / 4,
                turned = latent / 8;
  Draw draw(o);
  const auto made = [&](at::IntArrayRef sizes, int64_t over = 1) {
    return (draw.normal(sizes) / std::sqrt(static_cast<double>(over))).to(at::kBFloat16);
  };
  const at::Tensor query = made({batch, heads, width}), rotated = made({batch, heads, turned}),
                   cache = made({batch, length, latent}), keys = made({batch, length, turned});
  const at::Tensor to_key = made({heads, width, latent}, width),
                   to_value = made({heads, latent, width}, latent);
  return bounded(
      instance_of(latent_attention, query, rotated, cache, keys,
                  length / 2 + draw.integers({batch}, length / 2), to_key, to_value),
      // half of the cache is there at least
      2 * (query.numel() * 2 + rotated.numel() + (cache.numel() + keys.numel()) / 2 +
           2 * to_key.numel()),
      batch * heads * (4 * width * latent + length / 2 * (4 * latent + 2 * turned + kFunction)));
}

Instance chunk_scan_case(const Options& o) {
  const int64_t batch = o.integer("batch"), length = o.integer("length"),
                tokens = o.integer("chunks") * length, heads = o.integer("heads"),
                width = o.integer("width"), state = o.integer("state");
  Draw draw(o);
  const at::Tensor x = draw.normal({batch, tokens, heads, width}),
                   decay = draw.uniform({batch, tokens, heads}, -0.2, 0);
  const at::Tensor in = draw.normal({batch, tokens, state}),
                   out = draw.normal({batch, tokens, state});
  return bounded(instance_of(chunk_scan, x, decay, in, out, length),
                 4 * batch * tokens * (heads * (2 * width + 1) + 2 * state),
                 batch * tokens *
                     (2 * length * state +
                      heads * (length * (kFunction + 2 + 2 * width) + 4 * width * state)));
}

Instance late_interaction_case(const Options& o) {
  const int64_t documents = o.integer("documents"), length = o.integer("length"),
                query = o.integer("query"), width = o.integer("width");
  Draw draw(o);
  const auto unit = [&](at::IntArrayRef sizes) {
    const at::Tensor x = draw.normal(sizes);
    return (x / x.norm(2, -1, /*keepdim=*/true)).to(at::kBFloat16);
  };
  const at::Tensor words = unit({query, width}), texts = unit({documents, length, width});
  const at::Tensor lengths = 1 + draw.integers({documents}, length);
  const int64_t there = lengths.sum().item<int64_t>();
  return bounded(instance_of(late_interaction, words, texts, lengths),
                 2 * width * (query + there) + 8 * documents + 4 * (documents + 10),
                 there * query * (2 * width + 1));
}

Instance kepler_case(const Options& o) {
  const int64_t bodies = o.integer("bodies");
  Draw draw(o);
  const auto made = [&](double low, double high) {
    return draw.uniform({bodies}, low, high).to(at::kDouble);
  };
  const at::Tensor axis = made(0.5, 30), eccentricity = made(0, 0.7), tilt = made(0, 0.5),
                   node = made(0, 6), periapsis = made(0, 6), mean = made(0, 60);
  return bounded(instance_of(kepler, axis, eccentricity, tilt, node, periapsis, mean),
                 8 * 9 * bodies, bodies * (8 * (2 * kFunction + 7) + 9 * kFunction + 35));
}

Instance guided_filter_case(const Options& o) {
  const int64_t batch = o.integer("batch"), height = o.integer("height"),
                width = o.integer("width"), radius = 4, pixels = batch * height * width;
  Draw draw(o);
  const at::Tensor guide = draw.uniform({batch, 1, height, width});
  const at::Tensor image = 0.7 * guide + 0.3 * draw.uniform({batch, 1, height, width});
  return bounded(instance_of(guided_filter, guide, image, radius), 12 * pixels,
                 pixels * 26 + pixels / 16 * (6 * 81 + 26));
}

Instance count_sketch_case(const Options& o) {
  const int64_t rows = 5, width = o.integer("width"), items = o.integer("items");
  Draw draw(o);
  const at::Tensor sketch = draw.normal({rows, width}), hashes = draw.integers({rows, 4}, 1 << 20);
  // Few items are many.
  const at::Tensor numbers = (draw.uniform({items}).pow(4) * 100000).to(at::kLong);
  return bounded(updating_instance_of(count_sketch, sketch, numbers, draw.uniform({items}), hashes),
                 16 * items + 4 * 16 + 8 * hashes.numel() + 8 * std::min(width, items),
                 items * rows * 14);
}

Instance holt_winters_case(const Options& o) {
  const int64_t series = o.integer("series"), steps = o.integer("steps"),
                period = o.integer("period");
  Draw draw(o);
  const auto weights = [&] { return draw.uniform({series}, 0.05, 0.4); };
  const at::Tensor values = draw.normal({series, steps}), level = draw.normal({series}),
                   trend = 0.1 * draw.normal({series}), seasons = draw.normal({series, period});
  const at::Tensor alpha = weights(), beta = weights(), gamma = weights();
  return bounded(
      updating_instance_of(holt_winters, level, trend, seasons, values, alpha, beta, gamma),
      4 * series * (2 * steps + 3 * period + 7), series * (16 * steps + 3 * period));
}

}  // namespace

std::vector<Workload> mixture_cases() {
  return {
      {"convex_upsample_f32",
       "a flow at eight times its size, mixtures of 3 x 3 pixels",
       {{"batch", "1", "2", "images"},
        {"height", "46", "5", "coarse rows"},
        {"width", "62", "7", "coarse columns"}},
       convex_upsample_case,
       kSums},
      {"edit_distance_i32",
       "Levenshtein's distances of pairs, row by row",
       {{"pairs", "2048", "37", "pairs of words"}, {"length", "24", "7", "letters at most"}},
       edit_distance_case},
      {"beamformer_f32",
       "the power from each angle by microphones' covariances, and by Capon's weights",
       {{"bins", "32", "3", "frequencies"},
        {"microphones", "8", "4", "in a line"},
        {"snapshots", "256", "37", "of each frequency"},
        {"angles", "181", "19", "to listen to"}},
       beamformer_case,
       10 * kSums},
      {"stereo_match_u8",
       "two cameras' disparity by census codes",
       {{"height", "120", "11", "rows"},
        {"width", "160", "37", "columns"},
        {"shifts", "24", "5", "disparities"}},
       stereo_match_case},
      {"merge_tokens_f32",
       "ToMe's merging of an image's most similar tokens",
       {{"batch", "8", "2", "images"},
        {"tokens", "197", "37", "of an image"},
        {"width", "384", "13", "features of a token"},
        {"keys", "64", "11", "features of a key"}},
       merge_tokens_case,
       kSums},
      {"latent_attention_bf16",
       "one token's attention over a cache of latents",
       {{"batch", "4", "2", "sequences"},
        {"heads", "16", "3", "heads"},
        {"length", "1024", "38", "of the cache"},
        {"latent", "512", "24", "numbers of a latent"}},
       latent_attention_case,
       kRounded},
      {"chunk_scan_f32",
       "Mamba 2's mixing by chunks",
       {{"batch", "1", "2", "sequences"},
        {"chunks", "8", "3", "of a sequence"},
        {"length", "64", "7", "of a chunk"},
        {"heads", "8", "3", "heads"},
        {"width", "64", "5", "of a head"},
        {"state", "64", "9", "of a head's column"}},
       chunk_scan_case,
       kSums},
      {"late_interaction_bf16",
       "ColBERT's scores of documents, and the best",
       {{"documents", "256", "19", "texts"},
        {"length", "160", "11", "tokens of a text at most"},
        {"query", "32", "5", "tokens"},
        {"width", "128", "24", "of a token"}},
       late_interaction_case,
       kRounded},
      {"kepler_f64",
       "bodies' places on their ellipses, by Newton's steps",
       {{"bodies", "16384", "203", "planets and moons"}},
       kepler_case,
       kTails},
      {"guided_filter_f32",
       "the fast guided filter",
       {{"batch", "2", "1", "images"},
        {"height", "240", "37", "rows"},
        {"width", "320", "45", "columns"}},
       guided_filter_case,
       10 * kSums},
      {"count_sketch_f32",
       "items counted in a sketch, in place, and estimated",
       {{"width", "16384", "101", "of the sketch"}, {"items", "32768", "203", "to count"}},
       count_sketch_case,
       kSums},
      {"holt_winters_f32",
       "forecasts by smoothed levels, trends and seasons, in place",
       {{"series", "8192", "37", "series"},
        {"steps", "32", "9", "steps"},
        {"period", "12", "5", "steps of a season's round"}},
       holt_winters_case},
  };
}

}  // namespace graft::workloads::wild
