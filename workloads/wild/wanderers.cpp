// Wanderers: programs of many fields, from trees and edges of images to heaps of sand.

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

using at::Tensor;

/// KIVI's attention of a query (B, H, 1, D): keys in codes of two bits, 16 tokens of a column in a
/// number (B, H, T / 16, D), their groups' scales and least values (B, H, T / 32, D); values
/// likewise, 16 columns of a token (B, H, T, D / 16) with scales (B, H, T, D / 32); and the recent
/// tokens' keys and values (B, H, R, D).
Tensor packed_cache(const Tensor& query, const Tensor& packed_keys, const Tensor& key_scales,
                    const Tensor& key_lows, const Tensor& packed_values, const Tensor& value_scales,
                    const Tensor& value_lows, const Tensor& recent_keys,
                    const Tensor& recent_values) {
  const int64_t batch = query.size(0), heads = query.size(1), width = query.size(3);
  const int64_t tokens = packed_values.size(2);
  const Tensor shifts = at::arange(16, at::kInt) * 2;
  const Tensor key_codes = packed_keys.unsqueeze(3)
                               .bitwise_right_shift(shifts.view({16, 1}))
                               .bitwise_and(3)
                               .view({batch, heads, tokens / 32, 32, width});
  const Tensor value_codes =
      packed_values.unsqueeze(4).bitwise_right_shift(shifts).bitwise_and(3).view(
          {batch, heads, tokens, width / 32, 32});
  const Tensor keys =
      key_codes.to(query.scalar_type()) * key_scales.unsqueeze(3) + key_lows.unsqueeze(3);
  const Tensor values =
      value_codes.to(query.scalar_type()) * value_scales.unsqueeze(4) + value_lows.unsqueeze(4);
  const Tensor old = at::matmul(query, keys.flatten(2, 3).transpose(2, 3));
  const Tensor recent = at::matmul(query, recent_keys.transpose(2, 3));
  const Tensor scores =
      wide(at::cat({old, recent}, -1)) / std::sqrt(static_cast<double>(query.size(3)));
  const Tensor weights = at::softmax(scores, -1).to(query.scalar_type());
  return at::matmul(weights.slice(3, 0, tokens), values.flatten(3)) +
         at::matmul(weights.slice(3, tokens), recent_values);
}

/// Segment Anything's attention of q, k, v (B H, S S, D) over a square of places, with what a
/// query makes of their distances by tables (2 S - 1, D): rows and columns apart.
Tensor decomposed_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                            const Tensor& by_row, const Tensor& by_column) {
  const int64_t count = query.size(0), side = (by_row.size(0) + 1) / 2, width = query.size(2);
  const Tensor places = at::arange(side, at::kLong);
  const Tensor apart = places.unsqueeze(1) - places + (side - 1);
  const Tensor rows = by_row.index({apart}), columns = by_column.index({apart});
  const Tensor square = query.view({count, side, side, width});
  const Tensor down = at::einsum("bhwc,hkc->bhwk", {square, rows});
  const Tensor across = at::einsum("bhwc,wkc->bhwk", {square, columns});
  const Tensor scores =
      at::matmul(query * (1 / std::sqrt(static_cast<double>(width))), key.transpose(1, 2));
  const Tensor biased =
      scores.view({count, side, side, side, side}) + down.unsqueeze(-1) + across.unsqueeze(-2);
  return at::matmul(at::softmax(biased.view_as(scores), -1), value);
}

/// Probabilities by boosted trees of samples (N, F), some of whose numbers are missing: features,
/// thresholds and whether missing ones go right, of each tree's inner nodes (K, 2^depth - 1), and
/// leaves (K, 2^depth).
Tensor boosted_trees(const Tensor& x, const Tensor& feature, const Tensor& threshold,
                     const Tensor& missing_right, const Tensor& leaves, int64_t depth) {
  const int64_t trees = feature.size(0), inner = feature.size(1);
  const Tensor tree = at::arange(trees, at::kLong);
  Tensor node = at::zeros({x.size(0), trees}, at::kLong);
  for (int64_t level = 0; level < depth; ++level) {
    const Tensor place = node + tree * inner;
    const Tensor value = x.gather(1, at::take(feature, place));
    const Tensor right = at::where(value.isnan(), at::take(missing_right, place),
                                   value > at::take(threshold, place));
    node = 2 * node + 1 + right.to(at::kLong);
  }
  const Tensor leaf = node - inner + tree * leaves.size(1);
  return at::sigmoid(0.1 * at::take(leaves, leaf).sum(1) - 0.5);
}

Tensor box_corners(const Tensor& boxes) {
  const auto b = boxes.unbind(-1);
  return at::stack({b[0] - 0.5 * b[2], b[1] - 0.5 * b[3], b[0] + 0.5 * b[2], b[1] + 0.5 * b[3]},
                   -1);
}

Tensor box_sizes(const Tensor& corners) {
  return (corners.select(1, 2) - corners.select(1, 0)) *
         (corners.select(1, 3) - corners.select(1, 1));
}

/// DETR's costs (B, Q, M) of matching queries' logits (B, Q, C) and boxes (B, Q, 4) with objects'
/// labels (M) and boxes (M, 4): focal costs of classes, distances, generalised IoU.
Tensor matching_cost(const Tensor& logits, const Tensor& boxes, const Tensor& labels,
                     const Tensor& objects) {
  const Tensor p = at::sigmoid(logits.flatten(0, 1)), flat = boxes.flatten(0, 1);
  const Tensor absent = 0.75 * p.pow(2) * -(1 - p + 1e-8).log();
  const Tensor present = 0.25 * (1 - p).pow(2) * -(p + 1e-8).log();
  const Tensor of_class = present.index_select(1, labels) - absent.index_select(1, labels);
  const Tensor distance = at::cdist(flat, objects, 1);
  const Tensor a = box_corners(flat), b = box_corners(objects), c = a.unsqueeze(1);
  const Tensor low = at::maximum(c.slice(2, 0, 2), b.slice(1, 0, 2));
  const Tensor high = at::minimum(c.slice(2, 2), b.slice(1, 2));
  const Tensor sides = (high - low).clamp_min(0);
  const Tensor shared = sides.select(2, 0) * sides.select(2, 1);
  const Tensor all = box_sizes(a).unsqueeze(1) + box_sizes(b) - shared;
  const Tensor outer_low = at::minimum(c.slice(2, 0, 2), b.slice(1, 0, 2));
  const Tensor outer_high = at::maximum(c.slice(2, 2), b.slice(1, 2));
  const Tensor outer = (outer_high - outer_low).clamp_min(0);
  const Tensor hull = outer.select(2, 0) * outer.select(2, 1);
  const Tensor generalised = shared / all - (hull - all) / hull;
  const Tensor cost = 5 * distance + 2 * of_class - 2 * generalised;
  return cost.view({logits.size(0), logits.size(1), -1});
}

/// PointNet++'s abstraction of points (B, N, 3) with features (B, N, F): `samples` of them, each
/// the farthest from those before, and a layer's highest values over their nearest points.
std::tuple<Tensor, Tensor> farthest_points(const Tensor& points, const Tensor& features,
                                           const Tensor& weight, const Tensor& bias,
                                           int64_t samples, int64_t near) {
  const int64_t b = points.size(0), n = points.size(1);
  Tensor distance = at::full({b, n}, 1e10, points.options());
  Tensor farthest = at::zeros({b}, at::kLong);
  const Tensor chosen = at::zeros({b, samples}, at::kLong);
  for (int64_t i = 0; i < samples; ++i) {
    chosen.select(1, i).copy_(farthest);
    const Tensor centre = points.gather(1, farthest.view({b, 1, 1}).expand({b, 1, 3}));
    distance = at::minimum(distance, (points - centre).square().sum(-1));
    farthest = distance.argmax(-1);
  }
  const Tensor centres = points.gather(1, chosen.unsqueeze(-1).expand({b, samples, 3}));
  const Tensor squares = -2 * at::matmul(centres, points.transpose(1, 2)) +
                         centres.square().sum(-1, /*keepdim=*/true) +
                         points.square().sum(-1).unsqueeze(1);
  const Tensor index = std::get<1>(squares.topk(near, -1, /*largest=*/false));
  const auto grouped = [&](const Tensor& of) {
    const Tensor flat = index.reshape({b, samples * near, 1});
    return of.gather(1, flat.expand({b, samples * near, of.size(2)}))
        .view({b, samples, near, of.size(2)});
  };
  const Tensor around = grouped(points) - centres.unsqueeze(2);
  const Tensor x = at::linear(at::cat({around, grouped(features)}, -1), weight, bias);
  return {centres, at::relu(x).amax(2)};
}

/// JPEG's codes of images (B, 3, H, W): brightness, and colours at half the size, by blocks' cosine
/// transforms, in zigzag, first ones as differences. Of both the codes (B, C, N, 64), and how many
/// bits the blocks' codes have (B, C, N).
std::tuple<Tensor, Tensor, Tensor, Tensor> jpeg_blocks(const Tensor& image, const Tensor& mix,
                                                       const Tensor& cosines, const Tensor& luma,
                                                       const Tensor& chroma, const Tensor& zigzag) {
  const Tensor colours = at::einsum("dc,bchw->bdhw", {mix, image.to(mix.scalar_type())});
  const auto coded = [&](const Tensor& plane, const Tensor& table) {
    const int64_t b = plane.size(0), c = plane.size(1), h = plane.size(2), w = plane.size(3);
    const Tensor blocks = plane.reshape({b, c, h / 8, 8, w / 8, 8}).permute({0, 1, 2, 4, 3, 5});
    const Tensor turned = at::matmul(at::matmul(cosines, blocks), cosines.t());
    const Tensor codes = (turned / table).round().to(at::kShort).reshape({b, c, -1, 64});
    return codes.index_select(-1, zigzag);
  };
  const auto bits = [](const Tensor& codes) {
    const Tensor first = codes.select(-1, 0);
    first.slice(2, 1).copy_(first.slice(2, 1) - first.slice(2, 0, -1));
    const Tensor size = codes.abs();
    Tensor count = at::zeros_like(size);
    for (int64_t bit = 0; bit < 11; ++bit) count = count + (size >= (int64_t{1} << bit));
    return count.sum(-1);
  };
  const Tensor bright = coded(colours.slice(1, 0, 1) - 128, luma);
  const Tensor coloured = coded(at::avg_pool2d(colours.slice(1, 1), {2, 2}), chroma);
  const Tensor bright_bits = bits(bright), coloured_bits = bits(coloured);
  return {bright, coloured, bright_bits, coloured_bits};
}

/// Canny's edges of images (B, 1, H, W): slopes of the smoothed image, thinned along their
/// directions, and weak ones only where they touch strong ones. Also the thinned slopes.
std::tuple<Tensor, Tensor> canny_edges(const Tensor& image, const Tensor& blur,
                                       const Tensor& slopes) {
  const int64_t h = image.size(2), w = image.size(3);
  const Tensor smooth = at::conv2d(at::reflection_pad2d(image, {2, 2, 2, 2}), blur);
  const Tensor slope = at::conv2d(at::replication_pad2d(smooth, {1, 1, 1, 1}), slopes);
  const Tensor gx = slope.select(1, 0), gy = slope.select(1, 1);
  const Tensor size = (gx * gx + gy * gy).sqrt();
  Tensor angle = at::atan2(gy, gx) * (180 / std::numbers::pi);
  angle = at::where(angle < 0, angle + 180, angle);
  const Tensor padded = at::constant_pad_nd(size, {1, 1, 1, 1}, 0);
  const auto beside = [&](int64_t y, int64_t x) {
    return padded.slice(1, 1 + y, 1 + y + h).slice(2, 1 + x, 1 + x + w);
  };
  const Tensor rising = (angle >= 22.5).logical_and(angle < 67.5);
  const Tensor upright = (angle >= 67.5).logical_and(angle < 112.5);
  const Tensor falling = (angle >= 112.5).logical_and(angle < 157.5);
  Tensor one = at::where(rising, beside(1, 1), beside(0, 1));
  one = at::where(upright, beside(1, 0), one);
  one = at::where(falling, beside(1, -1), one);
  Tensor other = at::where(rising, beside(-1, -1), beside(0, -1));
  other = at::where(upright, beside(-1, 0), other);
  other = at::where(falling, beside(-1, 1), other);
  const Tensor thin = at::where((size >= one).logical_and(size >= other), size, 0);
  const Tensor high = 0.5 * size.amax({1, 2}, /*keepdim=*/true);
  const Tensor weak = thin > 0.4 * high;
  Tensor edges = (thin > high).to(image.scalar_type());
  for (int step = 0; step < 8; ++step) edges = at::max_pool2d(edges, {3, 3}, {1, 1}, {1, 1}) * weak;
  return {edges, thin};
}

/// ConvNeXt V2's block on x (B, C, H, W): a wide depthwise convolution, a norm, and two layers with
/// a normalisation of global responses between. Weights: filters (C, 1, 7, 7) and bias, the norm,
/// up (4 C, C) and bias, the responses' two, down (C, 4 C) and bias.
Tensor global_response(const Tensor& x, const Tensors& w) {
  const int64_t channels = x.size(1);
  Tensor h = at::conv2d(x, w[0], w[1], 1, 3, 1, channels).permute({0, 2, 3, 1});
  h = at::layer_norm(h, {channels}, w[2], w[3], 1e-6);
  h = at::gelu(at::linear(h, w[4], w[5]));
  const Tensor response = h.norm(2, {1, 2}, /*keepdim=*/true);
  const Tensor relative = response / (response.mean(-1, /*keepdim=*/true) + 1e-6);
  h = w[6] * (h * relative) + w[7] + h;
  return x + at::linear(h, w[8], w[9]).permute({0, 3, 1, 2});
}

/// Sand (H, W) that topples wherever four grains lie, and how often it did, in place. How many
/// places still would.
Tensor sandpile(const Tensor& grains, const Tensor& toppled, int64_t steps) {
  for (int64_t step = 0; step < steps; ++step) {
    const Tensor now = at::div(grains, 4, "floor");
    toppled.add_(now);
    grains.sub_(now * 4);
    grains.slice(0, 1).add_(now.slice(0, 0, -1));
    grains.slice(0, 0, -1).add_(now.slice(0, 1));
    grains.slice(1, 1).add_(now.slice(1, 0, -1));
    grains.slice(1, 0, -1).add_(now.slice(1, 1));
  }
  return (grains >= 4).sum();
}

/// Normals of means and deviations (4, N) from a counter by Philox's ten rounds with a key (2) of
/// 32 bits each, and Box and Muller.
Tensor philox_normal(const Tensor& key, const Tensor& mean, const Tensor& deviation) {
  constexpr int64_t kMask = 0xffffffff;
  const Tensor zero = at::zeros({mean.size(1)}, at::kLong);
  Tensor a = at::arange(mean.size(1), at::kLong), b = zero, c = zero, d = zero;
  Tensor k0 = key.select(0, 0), k1 = key.select(0, 1);
  for (int round = 0; round < 10; ++round) {
    const Tensor one = a * int64_t{0xD2511F53}, other = c * int64_t{0xCD9E8D57};
    a = other.bitwise_right_shift(32).bitwise_and(kMask).bitwise_xor(b).bitwise_xor(k0);
    b = other.bitwise_and(kMask);
    c = one.bitwise_right_shift(32).bitwise_and(kMask).bitwise_xor(d).bitwise_xor(k1);
    d = one.bitwise_and(kMask);
    k0 = (k0 + int64_t{0x9E3779B9}).bitwise_and(kMask);
    k1 = (k1 + int64_t{0xBB67AE85}).bitwise_and(kMask);
  }
  const auto uniform = [&](const Tensor& bits) {
    return bits.bitwise_right_shift(8).to(mean.scalar_type()) * 0x1p-24;
  };
  const Tensor r1 = (-2 * (1 - uniform(a)).log()).sqrt(), r2 = (-2 * (1 - uniform(c)).log()).sqrt();
  const Tensor t1 = 2 * std::numbers::pi * uniform(b), t2 = 2 * std::numbers::pi * uniform(d);
  const Tensor z = at::stack({r1 * t1.cos(), r1 * t1.sin(), r2 * t2.cos(), r2 * t2.sin()});
  return mean + deviation * z;
}

/// Spearman's correlations (S, S) of series (S, T), and of each the five highest with others by
/// Fisher's transform.
std::tuple<Tensor, Tensor> rank_correlation(const Tensor& series) {
  const int64_t count = series.size(0), length = series.size(1);
  const Tensor ranks = series.argsort(1, /*descending=*/false)
                           .argsort(1, /*descending=*/false)
                           .to(series.scalar_type());
  const Tensor centred = ranks - ranks.mean(1, /*keepdim=*/true);
  const Tensor unit = centred / centred.norm(2, {1}, /*keepdim=*/true);
  const Tensor rho = at::mm(unit, unit.t());
  const Tensor others = rho.masked_fill(at::eye(count, at::kBool), -2);
  const Tensor best = std::get<0>(others.topk(5, 1));
  return {rho, best.atanh() * std::sqrt(static_cast<double>(length - 3) / 1.06)};
}

/// Soft dynamic time warping of pairs of sequences (B, N, D) and (B, M, D), one diagonal of their
/// distances after the other.
Tensor soft_alignment(const Tensor& x, const Tensor& y) {
  constexpr double kSoftness = 0.1, kFar = 1e10;
  const int64_t batch = x.size(0), n = x.size(1), m = y.size(1);
  const Tensor distances = x.square().sum(-1).unsqueeze(2) + y.square().sum(-1).unsqueeze(1) -
                           2 * at::matmul(x, y.transpose(1, 2));
  const Tensor mirrored = distances.flip({2});
  Tensor before = at::full({batch, n + 1}, kFar, x.options());
  before.select(1, 0).fill_(0);
  Tensor last = at::full({batch, n + 1}, kFar, x.options());
  for (int64_t sum = 2; sum <= n + m; ++sum) {
    const int64_t from = std::max<int64_t>(1, sum - m), to = std::min(n, sum - 1) + 1;
    const Tensor up = last.slice(1, from - 1, to - 1), left = last.slice(1, from, to),
                 both = before.slice(1, from - 1, to - 1);
    const Tensor least = at::logsumexp(at::stack({up, left, both}) / -kSoftness, {0}) * -kSoftness;
    Tensor next = at::full({batch, n + 1}, kFar, x.options());
    next.slice(1, from, to).copy_(mirrored.diagonal(m + 1 - sum, 1, 2) + least);
    before = last;
    last = next;
  }
  return last.select(1, n);
}

Instance boosted_trees_case(const Options& o) {
  const int64_t samples = o.integer("samples"), features = o.integer("features"),
                trees = o.integer("trees"), depth = 6, inner = (1 << depth) - 1;
  Draw draw(o);
  const Tensor x = draw.normal({samples, features});
  x.masked_fill_(draw.uniform({samples, features}) < 0.05,
                 std::numeric_limits<double>::quiet_NaN());
  const Tensor feature = draw.integers({trees, inner}, features),
               threshold = draw.normal({trees, inner}), right = draw.uniform({trees, inner}) < 0.5,
               leaves = draw.normal({trees, inner + 1});
  return bounded(instance_of(boosted_trees, x, feature, threshold, right, leaves, depth),
                 4 * samples * (features + 1) + trees * (13 * inner + 4 * (inner + 1)),
                 samples * (trees * (4 * depth + 1) + kFunction));
}

Instance matching_cost_case(const Options& o) {
  const int64_t images = o.integer("images"), queries = o.integer("queries"),
                objects = o.integer("objects"), classes = 91;
  Draw draw(o);
  const auto boxes = [&](int64_t count) {
    return at::cat({draw.uniform({count, 2}), draw.uniform({count, 2}, 0.05, 0.5)}, 1);
  };
  const Tensor logits = draw.normal({images, queries, classes});
  const Tensor labels = draw.integers({objects}, classes);
  const int64_t rows = images * queries;
  return bounded(instance_of(matching_cost, logits, boxes(rows).view({images, queries, 4}), labels,
                             boxes(objects)),
                 4 * rows * (distinct(labels) + 4 + objects) + 24 * objects,
                 rows * (distinct(labels) * (3 * kFunction + 10) + objects * (11 + 27)));
}

Instance farthest_points_case(const Options& o) {
  const int64_t clouds = o.integer("clouds"), points = o.integer("points"),
                samples = o.integer("samples"), features = o.integer("features"),
                width = o.integer("width"), near = 8;
  Draw draw(o);
  const Tensor places = draw.normal({clouds, points, 3}),
               x = draw.normal({clouds, points, features}),
               weight = draw.normal({width, features + 3}) / 6, bias = draw.normal({width});
  return bounded(instance_of(farthest_points, places, x, weight, bias, samples, near),
                 4 * (places.numel() + weight.numel() + width + clouds * samples * (3 + width)),
                 clouds * samples * (points * (10 + 8) + near * width * 2 * (features + 3)));
}

Instance jpeg_blocks_case(const Options& o) {
  const int64_t batch = o.integer("batch"), height = 16 * o.integer("high"),
                width = 16 * o.integer("wide"), pixels = batch * height * width;
  Draw draw(o);
  const Tensor mix =
      at::tensor({0.299, 0.587, 0.114, -0.168736, -0.331264, 0.5, 0.5, -0.418688, -0.081312},
                 at::kFloat)
          .view({3, 3});
  const Tensor place = at::arange(8, at::kFloat).unsqueeze(1);
  const Tensor cosines =
      0.5 * (std::numbers::pi / 16 * place * (2 * at::arange(8, at::kFloat) + 1)).cos();
  cosines.select(0, 0).fill_(std::sqrt(0.125));
  const Tensor far = place + place.t(), luma = 10 + 6 * far, chroma = (17 + 9 * far).clamp_max(99);
  // Along diagonals, up those of even numbers and down those of odd ones.
  const Tensor row = place.expand({8, 8}), odd = far.remainder(2);
  const Tensor zigzag = (far * 16 + at::where(odd == 1, row, 8 - row)).flatten().argsort();
  const int64_t coefficients = pixels + pixels / 2;
  return bounded(instance_of(jpeg_blocks, draw.integers({batch, 3, height, width}, 256, at::kByte),
                             mix, cosines, luma, chroma, zigzag),
                 3 * pixels + 2 * coefficients + 8 * coefficients / 64 + 4 * (9 + 3 * 64) + 8 * 64,
                 pixels * 15 + 2 * pixels + coefficients * (32 + 2 + 22));
}

Instance canny_edges_case(const Options& o) {
  const int64_t batch = o.integer("batch"), height = o.integer("height"),
                width = o.integer("width"), pixels = batch * height * width;
  Draw draw(o);
  const Tensor image = draw.uniform({batch, 1, height, width});
  const Tensor bell = at::exp(-0.5 * at::arange(-2, 3, at::kFloat).square());
  const Tensor blur = bell.unsqueeze(1) * bell / bell.sum().square();
  const Tensor across = at::tensor({-1, 0, 1, -2, 0, 2, -1, 0, 1}, at::kFloat).view({3, 3});
  return bounded(instance_of(canny_edges, image, blur.view({1, 1, 5, 5}),
                             at::stack({across, across.t()}).unsqueeze(1)),
                 12 * pixels + 4 * (25 + 18),
                 pixels * (2 * (25 + 18) + 4 + kFunction + 12 + 8 * 10));
}

Instance global_response_case(const Options& o) {
  const int64_t batch = o.integer("batch"), side = o.integer("side"), c = o.integer("channels");
  Draw draw(o);
  const auto matrix = [&](int64_t out, int64_t in) {
    return draw.normal({out, in}).div_(std::sqrt(static_cast<double>(in)));
  };
  const auto vector = [&](int64_t size) { return draw.normal({size}).mul_(0.1); };
  const Tensors w{draw.normal({c, 1, 7, 7}).div_(7),
                  vector(c),
                  draw.uniform({c}, 0.5, 1.5),
                  vector(c),
                  matrix(4 * c, c),
                  vector(4 * c),
                  draw.uniform({4 * c}, 0, 1),
                  vector(4 * c),
                  matrix(c, 4 * c),
                  vector(c)};
  const int64_t pixels = batch * side * side;
  return bounded(instance_of(global_response, draw.normal({batch, c, side, side}), w),
                 4 * (2 * pixels * c + 49 * c + 8 * c * c + 16 * c),
                 pixels * c * (98 + 8 + 16 * c + 4 * (kFunction + 7)));
}

Instance sandpile_case(const Options& o) {
  const int64_t height = o.integer("height"), width = o.integer("width"),
                steps = o.integer("steps");
  Draw draw(o);
  return bounded(updating_instance_of(sandpile, draw.integers({height, width}, 12, at::kInt),
                                      at::zeros({height, width}, at::kInt), steps),
                 16 * height * width, height * width * (steps * 8 + 1));
}

Instance philox_normal_case(const Options& o) {
  const int64_t count = o.integer("count");
  Draw draw(o);
  return bounded(instance_of(philox_normal, draw.integers({2}, int64_t{1} << 32),
                             draw.normal({4, count}), draw.uniform({4, count}, 0.5, 1.5)),
                 48 * count + 16, count * (10 * 12 + 6 * kFunction + 20));
}

Instance rank_correlation_case(const Options& o) {
  const int64_t series = o.integer("series"), length = o.integer("length");
  Draw draw(o);
  const Tensor common = draw.normal({length});
  return bounded(instance_of(rank_correlation, draw.normal({series, length}) + 0.5 * common),
                 4 * series * (length + series + 5),
                 series * (2 * length * std::bit_width(static_cast<uint64_t>(length)) + 6 * length +
                           2 * series * length + 5 * kFunction));
}

Instance soft_alignment_case(const Options& o) {
  const int64_t pairs = o.integer("pairs"), one = o.integer("one"), other = o.integer("other"),
                width = 8;
  Draw draw(o);
  const Tensor x = draw.normal({pairs, one, width}), y = draw.normal({pairs, other, width});
  return bounded(instance_of(soft_alignment, x, y), 4 * (x.numel() + y.numel() + pairs),
                 pairs * one * other * (2 * width + 2 + 4 * kFunction + 10));
}

Instance packed_cache_case(const Options& o) {
  const int64_t batch = o.integer("batch"), heads = o.integer("heads"),
                tokens = 32 * o.integer("blocks"), recent = o.integer("recent"),
                width = 32 * o.integer("groups");
  Draw draw(o);
  const auto made = [&](int64_t rows, int64_t columns) {
    return draw.normal({batch, heads, rows, columns}, at::kBFloat16);
  };
  const auto packed = [&](int64_t rows, int64_t columns) {
    return draw.integers({batch, heads, rows, columns}, std::numeric_limits<int32_t>::max(),
                         at::kInt);
  };
  const auto scales = [&](int64_t rows, int64_t columns) {
    return draw.uniform({batch, heads, rows, columns}, 0.5, 1.5).to(at::kBFloat16);
  };
  const auto lows = [&](int64_t rows, int64_t columns) {
    return draw.uniform({batch, heads, rows, columns}, -2, -1).to(at::kBFloat16);
  };
  const int64_t of_old = tokens * width / 4 + 4 * tokens * width / 32;  // bytes, with their scales
  return bounded(
      instance_of(packed_cache, made(1, width), packed(tokens / 16, width),
                  scales(tokens / 32, width), lows(tokens / 32, width), packed(tokens, width / 16),
                  scales(tokens, width / 32), lows(tokens, width / 32), made(recent, width),
                  made(recent, width)),
      batch * heads * (2 * of_old + 2 * width * (2 * recent + 2)),
      batch * heads * ((tokens + recent) * (4 * width + kFunction) + tokens * 8 * width));
}

Instance decomposed_attention_case(const Options& o) {
  const int64_t heads = o.integer("heads"), side = o.integer("side"), width = o.integer("width"),
                count = side * side;
  Draw draw(o);
  const auto made = [&] { return draw.normal({heads, count, width}, at::kBFloat16); };
  const auto table = [&] { return (0.1 * draw.normal({2 * side - 1, width})).to(at::kBFloat16); };
  const Tensor query = made(), key = made(), value = made(), rows = table(), columns = table();
  return bounded(instance_of(decomposed_attention, query, key, value, rows, columns),
                 2 * (4 * query.numel() + 2 * rows.numel()),
                 heads * count * (count * (4 * width + 2 + kFunction) + 4 * side * width));
}

}  // namespace

std::vector<Workload> wanderer_cases() {
  const auto rows = [](const char* count) { return Axis{"height", count, "21", "rows"}; };
  const auto columns = [](const char* count) { return Axis{"width", count, "37", "columns"}; };
  return {
      {"boosted_trees_f32",
       "boosted trees' probabilities, some numbers missing",
       {{"samples", "4096", "37", "samples"},
        {"features", "32", "7", "of a sample"},
        {"trees", "64", "5", "trees"}},
       boosted_trees_case,
       kSums},
      {"matching_cost_f32",
       "DETR's costs of matching boxes with objects",
       {{"images", "8", "2", "images"},
        {"queries", "300", "19", "of an image"},
        {"objects", "160", "11", "of all images"}},
       matching_cost_case,
       10 * kSums},
      {"farthest_points_f32",
       "PointNet++'s farthest points and their groups",
       {{"clouds", "4", "2", "clouds"},
        {"points", "1024", "67", "of a cloud"},
        {"samples", "128", "9", "points to choose"},
        {"features", "32", "5", "of a point"},
        {"width", "64", "11", "hidden"}},
       farthest_points_case,
       kSums},
      {"jpeg_blocks_u8",
       "JPEG's codes and their bits",
       {{"batch", "4", "1", "images"},
        {"high", "16", "2", "rows of 16"},
        {"wide", "24", "3", "columns of 16"}},
       jpeg_blocks_case,
       kSums},
      {"canny_edges_f32",
       "Canny's edges, thinned and joined",
       {{"batch", "4", "2", "images"}, rows("240"), columns("320")},
       canny_edges_case,
       kSums},
      {"global_response_f32",
       "ConvNeXt V2's block",
       {{"batch", "2", "2", "images"},
        {"side", "28", "9", "rows and columns"},
        {"channels", "96", "7", "features"}},
       global_response_case,
       kSums},
      {"sandpile_i32",
       "sand that topples, in place",
       {rows("320"), columns("320"), {"steps", "24", "5", "steps"}},
       sandpile_case},
      {"philox_normal_f32",
       "normals from a counter by Philox",
       {{"count", "131072", "101", "counters, of four normals"}},
       philox_normal_case,
       kTails},
      {"rank_correlation_f32",
       "Spearman's correlations, and the highest",
       {{"series", "384", "37", "series"}, {"length", "512", "67", "of a series"}},
       rank_correlation_case,
       kSums},
      {"soft_alignment_f32",
       "soft dynamic time warping, by diagonals",
       {{"pairs", "64", "3", "pairs of sequences"},
        {"one", "64", "11", "of the first"},
        {"other", "64", "13", "of the second"}},
       soft_alignment_case,
       kSums},
      {"packed_cache_bf16",
       "attention over a cache in codes of two bits",
       {{"batch", "2", "2", "sequences"},
        {"heads", "8", "3", "heads"},
        {"blocks", "32", "3", "of 32 tokens"},
        {"recent", "32", "5", "tokens that are not packed"},
        {"groups", "4", "1", "of 32 columns"}},
       packed_cache_case,
       kRounded},
      {"decomposed_attention_bf16",
       "attention over a square, distances by rows and columns",
       {{"heads", "24", "3", "of all images"},
        {"side", "14", "5", "rows and columns"},
        {"width", "64", "11", "of a head"}},
       decomposed_attention_case,
       kRounded},
  };
}

}  // namespace graft::workloads::wild
