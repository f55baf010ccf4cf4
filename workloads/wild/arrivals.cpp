// Arrivals: caches, adapters and experts of language models, and steps that learn, many by hand.

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

using at::Tensor;

/// One unit in the last place of fp16's largest.
constexpr double kHalfRounded = 0x1p-10;
constexpr double kNever = -std::numeric_limits<double>::infinity();

/// A token's attention (B, H, D) over keys and values in pages (N, S, G, D) by tables of sequences'
/// pages (B, M) and their lengths (B); heads in G groups.
Tensor paged_attention(const Tensor& query, const Tensor& keys, const Tensor& values,
                       const Tensor& tables, const Tensor& lengths) {
  const int64_t batch = query.size(0), heads = query.size(1), width = query.size(2),
                groups = keys.size(2);
  const Tensor k = wide(keys.index({tables})).flatten(1, 2),
               v = wide(values.index({tables})).flatten(1, 2);
  const Tensor q = wide(query).view({batch, groups, heads / groups, width});
  const Tensor scores =
      at::einsum("bghd,btgd->bght", {q, k}) / std::sqrt(static_cast<double>(width));
  const Tensor absent = at::arange(k.size(1), at::kLong) >= lengths.unsqueeze(1);
  const Tensor weights = scores.masked_fill(absent.view({batch, 1, 1, -1}), kNever).softmax(-1);
  const Tensor mixed = at::einsum("bght,btgd->bghd", {weights, v});
  return mixed.reshape({batch, heads, width}).to(query.dtype());
}

/// A layer of x (T, W), each row with an adapter of (A, R, W) and (A, O, R), or with none: -1.
Tensor adapter_rows(const Tensor& x, const Tensor& weight, const Tensor& down, const Tensor& up,
                    const Tensor& scales, const Tensor& which) {
  const Tensor mine = which.clamp_min(0), low = at::bmm(down.index({mine}), x.unsqueeze(-1));
  const Tensor added =
      at::bmm(up.index({mine}), low).squeeze(-1) * scales.index({mine}).unsqueeze(1);
  return at::linear(x, weight) + at::where((which >= 0).unsqueeze(1), added, 0);
}

/// DeepSeek-V3's layer in FP8: x (T, W) to codes with a scale for each block of a row, weights
/// (O, W) in codes with a scale for each square block (O / S, W / S).
Tensor float8_linear(const Tensor& x, const Tensor& weight, const Tensor& scales) {
  const int64_t rows = x.size(0), blocks = scales.size(1), block = x.size(1) / blocks;
  const Tensor parts = wide(x).view({rows, blocks, block});
  const Tensor steps = (parts.abs().amax(-1, /*keepdim=*/true) / 448).clamp_min(1e-12);
  const Tensor codes = (parts / steps).to(at::kFloat8_e4m3fn);
  const Tensor out = at::zeros({rows, weight.size(0)}, scales.options());
  for (int64_t k = 0; k < blocks; ++k) {
    const Tensor w = weight.slice(1, k * block, (k + 1) * block).to(scales.dtype());
    const Tensor made = at::matmul(codes.select(1, k).to(scales.dtype()), w.t());
    out.add_(made * steps.select(1, k) * scales.select(1, k).repeat_interleave(block));
  }
  return out.to(x.dtype());
}

/// Mixtral's experts of tokens x (T, W), two for each, expert by expert: matrices (E, I, W) of
/// gates and ups, (E, W, I) of downs.
Tensor loop_experts(const Tensor& x, const Tensor& router, const Tensor& gates, const Tensor& ups,
                    const Tensor& downs) {
  const int64_t experts = router.size(0);
  const auto [likely, chosen] = at::linear(wide(x), router).softmax(-1).topk(2, -1);
  const Tensor weights = (likely / likely.sum(-1, /*keepdim=*/true)).to(x.dtype());
  const Tensor mask = at::one_hot(chosen, experts).permute({2, 1, 0});
  const Tensor out = at::zeros_like(x);
  for (int64_t e = 0; e < experts; ++e) {
    const auto found = mask[e].nonzero().unbind(1);
    const Tensor &rank = found[0], &rows = found[1];
    if (rows.numel() == 0) continue;
    const Tensor mine = x.index({rows});
    const Tensor gated = at::silu(at::linear(mine, gates[e])) * at::linear(mine, ups[e]);
    const Tensor made = at::linear(gated, downs[e]);
    out.index_add_(0, rows, made * weights.index({rows, rank}).unsqueeze(1));
  }
  return out;
}

/// Attention over a cache (B, H, L, D), in place: H2O keeps the recent tokens and the hottest.
Tensor evict_cache(const Tensor& keys, const Tensor& values, const Tensor& heat,
                   const Tensor& query, const Tensor& key, const Tensor& value, int64_t recent) {
  const int64_t batch = keys.size(0), heads = keys.size(1), length = keys.size(2),
                width = keys.size(3), old = length + 1 - recent;
  const Tensor k = at::cat({keys, key}, 2), v = at::cat({values, value}, 2);
  const Tensor scores = wide(at::matmul(query, k.transpose(-1, -2)));
  const Tensor weights = at::softmax(scores / std::sqrt(static_cast<double>(width)), -1);
  const Tensor out = at::matmul(weights.to(v.dtype()), v);
  const Tensor warm = at::constant_pad_nd(heat, {0, 1}) + weights.squeeze(2);
  const Tensor best =
      std::get<1>(warm.slice(-1, 0, old).topk(old - 1, -1, /*largest=*/true, /*sorted=*/false));
  const Tensor late = at::arange(old, length + 1, at::kLong).expand({batch, heads, recent});
  const Tensor kept = at::cat({std::get<0>(best.sort(-1)), late}, -1);
  const Tensor rows = kept.unsqueeze(-1).expand({-1, -1, -1, width});
  keys.copy_(k.gather(2, rows));
  values.copy_(v.gather(2, rows));
  heat.copy_(warm.gather(2, kept));
  return out;
}

/// Sinkhorn's codes of samples' scores (N, K), all prototypes alike.
Tensor even_codes(const Tensor& scores) {
  Tensor q = (scores / 0.05).exp().t();
  q = q / q.sum();
  for (int step = 0; step < 3; ++step) {
    q = q / q.sum(1, /*keepdim=*/true) / q.size(0);
    q = q / q.sum(0, /*keepdim=*/true) / q.size(1);
  }
  return (q * q.size(1)).t();
}

/// SwAV's step of prototypes (K, D) and their momenta in place, by two views (B, D) and queues of
/// earlier ones (2, Q, D), which move on. The loss; gradients by hand.
Tensor swapped_codes_step(const Tensor& prototypes, const Tensor& momenta, const Tensor& queues,
                          const Tensor& one, const Tensor& other) {
  const int64_t batch = one.size(0);
  const Tensor gradient = at::zeros_like(prototypes);
  Tensors losses;
  for (int64_t view = 0; view < 2; ++view) {
    const Tensor queue = queues[view], &mine = view == 0 ? one : other,
                 &its = view == 0 ? other : one;
    const Tensor all = at::matmul(at::cat({mine, queue}), prototypes.t());
    const Tensor codes = even_codes(all).slice(0, 0, batch);
    const Tensor logs = at::log_softmax(at::matmul(its, prototypes.t()) / 0.1, 1);
    losses.push_back(-(codes * logs).sum(1).mean());
    gradient.add_(at::matmul((logs.exp() - codes).t(), its) / (0.1 * static_cast<double>(batch)));
    queue.copy_(at::cat({mine, queue.slice(0, 0, -batch)}));
  }
  momenta.mul_(0.9).add_(gradient);
  prototypes.sub_(momenta, 0.05);
  prototypes.div_(prototypes.norm(2, 1, /*keepdim=*/true));
  return 0.5 * (losses[0] + losses[1]);
}

Tensor along_sphere(const Tensor& gradient, const Tensor& unit, const Tensor& size) {
  return (gradient - unit * (gradient * unit).sum(1, /*keepdim=*/true)) / size;
}

/// ArcFace's loss of features (B, D) and classes' weights (C, D), with its gradients by both.
std::tuple<Tensor, Tensor, Tensor> angular_margin(const Tensor& features, const Tensor& weights,
                                                  const Tensor& labels) {
  constexpr double kScale = 64, kMargin = 0.5;
  const Tensor x_size = features.norm(2, 1, /*keepdim=*/true),
               w_size = weights.norm(2, 1, /*keepdim=*/true);
  const Tensor x = features / x_size, w = weights / w_size, rows = labels.unsqueeze(1);
  const Tensor cosine = at::mm(x, w.t()).clamp(-1 + 1e-6, 1 - 1e-6);
  const Tensor mine = cosine.gather(1, rows);
  const Tensor sine = (1 - mine.square()).sqrt(), within = mine > -std::cos(kMargin);
  Tensor turned = mine * std::cos(kMargin) - sine * std::sin(kMargin);
  turned = at::where(within, turned, mine - std::sin(kMargin) * kMargin);
  const Tensor logs = at::log_softmax(kScale * cosine.scatter(1, rows, turned), 1);
  const Tensor slope = logs.exp();
  const Tensor bend = at::where(within, std::cos(kMargin) + std::sin(kMargin) * mine / sine, 1);
  slope.scatter_(1, rows, (slope.gather(1, rows) - 1) * bend);
  slope.mul_(kScale / static_cast<double>(features.size(0)));
  return {-logs.gather(1, rows).mean(), along_sphere(at::mm(slope, w), x, x_size),
          along_sphere(at::mm(slope.t(), x), w, w_size)};
}

/// LambdaRank's loss of documents' scores (Q, N) by grades, lengths (Q) of them; its gradient.
std::tuple<Tensor, Tensor> lambda_rank(const Tensor& scores, const Tensor& grades,
                                       const Tensor& lengths) {
  const Tensor places = at::arange(scores.size(1), at::kLong);
  const Tensor there = places < lengths.unsqueeze(1);
  const Tensor held = scores.masked_fill(there.logical_not(), kNever);
  const Tensor ranks = held.argsort(1, /*descending=*/true).argsort(1, /*descending=*/false);
  const Tensor gains = (at::exp2(grades.to(scores.dtype())) - 1) * there;
  const Tensor discounts = 1 / at::log2(ranks + 2.0);
  const Tensor best = std::get<0>(gains.sort(1, /*descending=*/true));
  const Tensor ideal = (best / at::log2(places + 2.0)).sum(1, /*keepdim=*/true).clamp_min(1e-6);
  const auto pairs = [](const Tensor& x) { return x.unsqueeze(2) - x.unsqueeze(1); };
  const Tensor swap = pairs(gains).abs() * pairs(discounts).abs();
  const Tensor above = (grades.unsqueeze(2) > grades.unsqueeze(1))
                           .logical_and(there.unsqueeze(2))
                           .logical_and(there.unsqueeze(1));
  const Tensor weight = at::where(above, swap / ideal.unsqueeze(-1), 0), apart = pairs(scores);
  const Tensor loss = (at::softplus(-apart) * weight).sum({1, 2}).mean();
  const Tensor pull = at::sigmoid(-apart) * weight;
  return {loss, pull.sum(1) - pull.sum(2)};
}

/// Half a step of implicit ALS: users' factors (U, F), in place, by items' (I, F), which of them a
/// user had (U, L) and how much (U, L). The loss of what they had.
Tensor alternating_squares(const Tensor& users, const Tensor& items, const Tensor& lists,
                           const Tensor& counts) {
  const Tensor gram = at::mm(items.t(), items) + 0.1 * at::eye(items.size(1), items.options());
  const Tensor chosen = items.index({lists}), trust = at::where(counts > 0, 1 + counts, 0);
  const Tensor weighted = (chosen * counts.unsqueeze(-1)).transpose(1, 2);
  const Tensor factors = at::linalg_cholesky(gram + at::bmm(weighted, chosen));
  const Tensor sides = (chosen * trust.unsqueeze(-1)).sum(1);
  users.copy_(at::cholesky_solve(sides.unsqueeze(-1), factors).squeeze(-1));
  const Tensor seen = at::bmm(chosen, users.unsqueeze(-1)).squeeze(-1);
  return (trust * (1 - seen).square()).sum();
}

/// word2vec's step of vectors (V, D) in place, by pairs (B) and other words (B, K). The loss.
Tensor word_vectors_step(const Tensor& inputs, const Tensor& outputs, const Tensor& words,
                         const Tensor& contexts, const Tensor& others) {
  const Tensor w = inputs.index({words}), c = outputs.index({contexts}),
               n = outputs.index({others});
  const Tensor near = (w * c).sum(1, /*keepdim=*/true), far = at::bmm(n, w.unsqueeze(-1));
  const Tensor loss = -(at::log_sigmoid(near).sum() + at::log_sigmoid(-far).sum()) / words.size(0);
  const Tensor pull = 0.025 * at::sigmoid(-near), push = -0.025 * at::sigmoid(far);
  inputs.index_add_(0, words, pull * c + (push * n).sum(1));
  outputs.index_add_(0, contexts, pull * w);
  outputs.index_add_(0, others.flatten(), (push * w.unsqueeze(1)).flatten(0, 1));
  return loss;
}

/// Prodigy's step of many parameters, in place, with their moments, sums and starts; its own rate
/// and a numerator are numbers in tensors.
void prodigy_step(const Tensors& p, const Tensors& gradients, const Tensors& first,
                  const Tensors& second, const Tensors& sums, const Tensors& starts,
                  const Tensors& state) {
  constexpr double kLeast = 1e-6;
  double d = state[0].item<double>(), numerator = state[1].item<double>(), gained = 0, total = 0;
  const double step = 0.1 * d, beta = std::sqrt(0.999);
  for (size_t i = 0; i < p.size(); ++i) {
    const Tensor& g = gradients[i];
    gained += d / kLeast * step * g.flatten().dot((starts[i] - p[i]).flatten()).item<double>();
    first[i].mul_(0.9).add_(g, 0.1 * d);
    second[i].mul_(0.999).addcmul_(g, g, 0.001 * d * d);
    sums[i].mul_(beta).add_(g, d / kLeast * step);
    total += sums[i].abs().sum().item<double>();
  }
  if (total == 0) return;
  numerator = beta * numerator + gained;
  d = std::max(d, std::min(numerator / total, 1.02 * d));
  for (size_t i = 0; i < p.size(); ++i) {
    p[i].mul_(1 - 0.1 * step);
    p[i].addcdiv_(first[i], second[i].sqrt().add_(1e-8 * d), -step);
  }
  state[0].fill_(d);
  state[1].fill_(numerator);
}

/// A step with scaled gradients in fp16, in place: parameters, the same in fp16, momenta. One with
/// an infinite gradient is left out, and the scale halved; 2000 good ones double it.
void scaled_step(const Tensors& masters, const Tensors& halves, const Tensors& momenta,
                 const Tensors& gradients, const Tensor& scale, const Tensor& good) {
  Tensors plain, finite, norms;
  for (const Tensor& g : gradients) plain.push_back(wide(g) / scale);
  for (const Tensor& g : plain) finite.push_back(g.isfinite().all());
  if (!at::stack(finite).all().item<bool>()) {
    scale.mul_(0.5);
    good.zero_();
    return;
  }
  for (const Tensor& g : plain) norms.push_back(g.norm());
  const Tensor factor = (1 / (at::stack(norms).norm() + 1e-6)).clamp_max(1);
  for (size_t i = 0; i < masters.size(); ++i) {
    momenta[i].mul_(0.9).add_(plain[i] * factor);
    masters[i].mul_(1 - 1e-4).sub_(momenta[i], 0.01);
    halves[i].copy_(masters[i]);
  }
  good.add_(1);
  if (good.item<int64_t>() % 2000 == 0) scale.mul_(2);
}

/// A restricted Boltzmann machine's step by contrastive divergence, in place: weights (H, V) and
/// both biases, for data (B, V) and noise (B, H). How far off it dreams.
Tensor boltzmann_step(const Tensor& weights, const Tensor& visible, const Tensor& hidden,
                      const Tensor& data, const Tensor& noise) {
  const Tensor likely = at::sigmoid(at::linear(data, weights, hidden));
  const Tensor fired = (noise < likely).to(data.dtype());
  const Tensor dreamt = at::sigmoid(at::mm(fired, weights) + visible);
  const Tensor again = at::sigmoid(at::linear(dreamt, weights, hidden));
  const double rate = 0.1 / static_cast<double>(data.size(0));
  weights.mul_(1 - 1e-4).add_(at::mm(likely.t(), data) - at::mm(again.t(), dreamt), rate);
  visible.add_((data - dreamt).sum(0), rate);
  hidden.add_((likely - again).sum(0), rate);
  return (data - dreamt).square().mean();
}

/// Rows of a table of `size`, a power of two, for the corners of cells (N, 3).
Tensor corner_keys(const Tensor& cells, int64_t size) {
  const auto cell = cells.unbind(1);
  Tensors keys;
  for (int64_t corner = 0; corner < 8; ++corner) {
    const Tensor x = cell[0] + (corner & 1), y = (cell[1] + (corner >> 1 & 1)) * 2654435761,
                 z = (cell[2] + (corner >> 2)) * 805459861;
    keys.push_back(x.bitwise_xor(y).bitwise_xor(z).bitwise_and(size - 1));
  }
  return at::stack(keys, 1);
}

/// Instant NGP's step: tables of levels (L, S, 2) by hashed corners and a layer (2 L), in place,
/// for points (N, 3) and targets (N). The loss; gradients by hand.
Tensor hash_grid_step(const Tensor& tables, const Tensor& head, const Tensor& points,
                      const Tensor& targets) {
  const int64_t levels = tables.size(0), size = tables.size(1), width = tables.size(2);
  Tensors places, shares, features;
  for (int64_t level = 0; level < levels; ++level) {
    const Tensor scaled = points * (16 * std::pow(1.5, level)), low = scaled.floor();
    const Tensor above = scaled - low;
    Tensors parts;
    for (int64_t corner = 0; corner < 8; ++corner) {
      const Tensor bits = at::tensor({corner & 1, corner >> 1 & 1, corner >> 2}, at::kLong);
      parts.push_back(at::where(bits == 1, above, 1 - above).prod(1));
    }
    places.push_back(corner_keys(low.to(at::kLong), size));
    shares.push_back(at::stack(parts, 1));
    const Tensor rows = tables[level].index({places.back()});
    features.push_back((rows * shares.back().unsqueeze(-1)).sum(1));
  }
  const Tensor x = at::cat(features, 1), off = at::mv(x, head) - targets;
  const Tensor by_out = 2 * off / points.size(0);
  const Tensor by_levels = (by_out.unsqueeze(1) * head).view({-1, levels, width});
  head.sub_(at::mv(x.t(), by_out), 0.01);
  for (int64_t level = 0; level < levels; ++level) {
    const Tensor added = shares[level].unsqueeze(-1) * by_levels.select(1, level).unsqueeze(1);
    const Tensor gradient = at::zeros_like(tables[level]);
    gradient.index_add_(0, places[level].flatten(), added.flatten(0, 1));
    tables[level].sub_(gradient);
  }
  return off.square().mean();
}

Tensor scaled_matrix(Draw& draw, at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
  return (draw.normal(sizes) / std::sqrt(static_cast<double>(sizes.back()))).to(dtype);
}

Tensors square_normals(Draw& draw, int64_t count, int64_t side, double scale) {
  Tensors out;
  for (int64_t i = 0; i < count; ++i) out.push_back(scale * draw.normal({side, side}));
  return out;
}

Instance paged_attention_case(const Options& o) {
  const int64_t batch = o.integer("batch"), pages = o.integer("pages"), page = 16, groups = 4,
                heads = 16, width = 64;
  Draw draw(o);
  const auto made = [&] { return draw.normal({batch * pages, page, groups, width}, at::kHalf); };
  const Tensor keys = made(), values = made();
  const Tensor tables = draw.uniform({batch * pages}).argsort().view({batch, pages});
  const Tensor query = draw.normal({batch, heads, width}, at::kHalf),
               lengths = 1 + draw.integers({batch}, pages * page);
  const int64_t there = lengths.sum().item<int64_t>();
  return bounded(instance_of(paged_attention, query, keys, values, tables, lengths),
                 4 * width * (there * groups + batch * heads) + 8 * (there / page + batch),
                 there * heads * (4 * width + kFunction + 4));
}

Instance adapter_rows_case(const Options& o) {
  const int64_t tokens = o.integer("tokens"), width = o.integer("width"), adapters = 12, rank = 16;
  Draw draw(o);
  const Tensor x = draw.normal({tokens, width}, at::kBFloat16),
               weight = scaled_matrix(draw, {width, width}, at::kBFloat16),
               down = scaled_matrix(draw, {adapters, rank, width}, at::kBFloat16),
               up = draw.normal({adapters, width, rank}, at::kBFloat16),
               scales = draw.uniform({adapters}, 0.1, 0.5).to(at::kBFloat16),
               which = draw.integers({tokens}, adapters + 1) - 1;
  const Tensor given = which.masked_select(which >= 0);
  return bounded(
      instance_of(adapter_rows, x, weight, down, up, scales, which),
      2 * (width * (2 * tokens + width) + distinct(given) * (2 * rank * width + 1)) + 8 * tokens,
      2 * tokens * width * width + given.numel() * width * (4 * rank + 2));
}

Instance float8_linear_case(const Options& o) {
  const int64_t tokens = o.integer("tokens"), blocks = o.integer("blocks"), outs = 4, block = 128,
                width = blocks * block;
  Draw draw(o);
  const Tensor x = draw.normal({tokens, width}, at::kBFloat16);
  const Tensor weight = (100 * draw.normal({outs * block, width})).clamp(-448, 448);
  return bounded(instance_of(float8_linear, x, weight.to(at::kFloat8_e4m3fn),
                             draw.uniform({outs, blocks}, 1e-4, 4e-4)),
                 2 * tokens * (width + outs * block) + width * outs * block + 4 * outs * blocks,
                 tokens * outs * block * (2 * width + 3 * blocks) + 4 * tokens * width);
}

Instance loop_experts_case(const Options& o) {
  const int64_t tokens = o.integer("tokens"), width = o.integer("width"), hidden = 2 * width,
                experts = 8;
  Draw draw(o);
  const Tensor x = draw.normal({tokens, width}, at::kBFloat16),
               router = scaled_matrix(draw, {experts, width}),
               gates = scaled_matrix(draw, {experts, hidden, width}, at::kBFloat16),
               ups = scaled_matrix(draw, {experts, hidden, width}, at::kBFloat16),
               downs = scaled_matrix(draw, {experts, width, hidden}, at::kBFloat16);
  const int64_t used = distinct(std::get<1>(at::linear(wide(x), router).topk(2, -1)));
  return bounded(instance_of(loop_experts, x, router, gates, ups, downs),
                 4 * width * (tokens + experts) + 6 * used * width * hidden,
                 tokens * (2 * experts * width + 2 * hidden * (6 * width + kFunction + 2)));
}

Instance evict_cache_case(const Options& o) {
  const int64_t batch = o.integer("batch"), recent = o.integer("recent"), length = 4 * recent,
                heads = 8, width = 64;
  Draw draw(o);
  const auto made = [&](int64_t n) { return draw.normal({batch, heads, n, width}, at::kBFloat16); };
  const Tensor keys = made(length), values = made(length), query = made(1), key = made(1),
               value = made(1), heat = 2 * draw.uniform({batch, heads, length});
  return bounded(updating_instance_of(evict_cache, keys, values, heat, query, key, value, recent),
                 8 * batch * heads * (length * (width + 1) + width),
                 batch * heads * (length + 1) * (4 * width + kFunction + 6));
}

Instance swapped_codes_step_case(const Options& o) {
  const int64_t batch = o.integer("batch"), width = o.integer("width"), kept = 6 * batch,
                prototypes = 6 * width;
  Draw draw(o);
  const auto unit = [&](at::IntArrayRef sizes) {
    const Tensor x = draw.normal(sizes);
    return x / x.norm(2, -1, /*keepdim=*/true);
  };
  const Tensor p = unit({prototypes, width}), momenta = 0.01 * draw.normal({prototypes, width}),
               queues = unit({2, kept, width}), one = unit({batch, width}),
               other = unit({batch, width});
  return bounded(updating_instance_of(swapped_codes_step, p, momenta, queues, one, other),
                 4 * (width * (4 * prototypes + 4 * kept + 2 * batch) + 1),
                 2 * prototypes *
                     ((batch + kept) * (2 * width + kFunction + 13) +
                      batch * (4 * width + 2 * kFunction + 4) + 4 * width));
}

Instance angular_margin_case(const Options& o) {
  const int64_t batch = o.integer("batch"), classes = o.integer("classes"), width = 128;
  Draw draw(o);
  const Tensor x = draw.normal({batch, width}), w = draw.normal({classes, width});
  return bounded(
      instance_of(angular_margin, x, w, draw.integers({batch}, classes)),
      4 * (2 * width * (batch + classes) + 1) + 8 * batch,
      batch * classes * (6 * width + 2 * kFunction + 6) + 10 * width * (batch + classes));
}

Instance lambda_rank_case(const Options& o) {
  const int64_t queries = o.integer("queries"), count = o.integer("documents"),
                all = queries * count;
  Draw draw(o);
  const Tensor scores = draw.normal({queries, count}), grades = draw.integers({queries, count}, 5);
  return bounded(instance_of(lambda_rank, scores, grades, 1 + draw.integers({queries}, count)),
                 16 * all + 8 * queries + 4, all * count * (3 * kFunction + 14));
}

Instance alternating_squares_case(const Options& o) {
  const int64_t users = o.integer("users"), items = o.integer("items"), listed = 40, width = 32;
  Draw draw(o);
  const Tensor start = draw.normal({users, width}), factors = 0.3 * draw.normal({items, width}),
               lists = draw.integers({users, listed}, items),
               counts = (10 * draw.uniform({users, listed}) - 3).clamp_min(0);
  return bounded(updating_instance_of(alternating_squares, start, factors, lists, counts),
                 4 * width * (2 * users + items) + 12 * users * listed + 4,
                 2 * width * width * (items + users * listed) +
                     users * width * (width * width / 3 + 2 * width + 5 * listed));
}

Instance word_vectors_step_case(const Options& o) {
  const int64_t pairs = o.integer("pairs"), words = o.integer("words"), width = 100, others = 6;
  Draw draw(o);
  const Tensor inputs = 0.1 * draw.normal({words, width}),
               outputs = 0.1 * draw.normal({words, width});
  // Few words are many.
  const auto chosen = (draw.uniform({2, pairs}).pow(3) * words).to(at::kLong).unbind(0);
  const Tensor drawn = draw.integers({pairs, others}, words);
  const int64_t rows = distinct(chosen[0]) + distinct(at::cat({chosen[1], drawn.flatten()}));
  return bounded(
      updating_instance_of(word_vectors_step, inputs, outputs, chosen[0], chosen[1], drawn),
      8 * (rows * width + pairs * (2 + others)) + 4,
      pairs * (1 + others) * (6 * width + 2 * kFunction));
}

Instance prodigy_step_case(const Options& o) {
  const int64_t count = o.integer("count"), side = o.integer("side"), all = count * side * side;
  Draw draw(o);
  const auto made = [&](double scale) { return square_normals(draw, count, side, scale); };
  const Tensors starts = made(0.1), gradients = made(0.01), first = made(1e-5);
  Tensors second = made(1e-5), sums = made(1e-3), p = made(1e-3);
  for (Tensor& v : second) v = v.square();
  for (size_t i = 0; i < p.size(); ++i) p[i] = starts[i] + p[i];
  const Tensors state{at::full({}, 1e-3), at::zeros({})};
  return bounded(
      updating_instance_of(prodigy_step, p, gradients, first, second, sums, starts, state),
      40 * all + 16, 19 * all);
}

Instance scaled_step_case(const Options& o) {
  const int64_t count = o.integer("count"), side = o.integer("side"), all = count * side * side;
  Draw draw(o);
  const Tensors masters = square_normals(draw, count, side, 0.1),
                momenta = square_normals(draw, count, side, 0.001);
  Tensors halves = masters, gradients = square_normals(draw, count, side, 10);
  for (Tensor& p : halves) p = p.to(at::kHalf);
  for (Tensor& g : gradients) g = g.to(at::kHalf);
  return bounded(updating_instance_of(scaled_step, masters, halves, momenta, gradients,
                                      at::full({}, 1024.0), at::full({}, 7, at::kLong)),
                 20 * all + 24, 10 * all);
}

Instance boltzmann_step_case(const Options& o) {
  const int64_t batch = o.integer("batch"), visible = o.integer("visible"), hidden = visible / 3;
  Draw draw(o);
  const Tensor data = (draw.uniform({batch, visible}) < 0.3).to(at::kFloat),
               weights = 0.01 * draw.normal({hidden, visible}), seen = draw.normal({visible}),
               unseen = draw.normal({hidden});
  return bounded(
      updating_instance_of(boltzmann_step, weights, seen, unseen, data,
                           draw.uniform({batch, hidden})),
      4 * (2 * (hidden * visible + hidden + visible) + batch * (visible + hidden) + 1),
      hidden * visible * (10 * batch + 4) + batch * (kFunction + 4) * (visible + 2 * hidden));
}

Instance hash_grid_step_case(const Options& o) {
  const int64_t count = o.integer("points"), size = int64_t{1} << o.integer("log_size"), levels = 6;
  Draw draw(o);
  const Tensor tables = 0.1 * draw.normal({levels, size, 2}), head = draw.normal({2 * levels}),
               points = draw.uniform({count, 3});
  int64_t rows = 0;
  for (int64_t level = 0; level < levels; ++level)
    rows += distinct(corner_keys((points * (16 * std::pow(1.5, level))).to(at::kLong), size));
  return bounded(updating_instance_of(hash_grid_step, tables, head, points, draw.normal({count})),
                 16 * (rows + count + levels) + 4, count * levels * 8 * 24);
}

}  // namespace

std::vector<Workload> arrival_cases() {
  const Axis count{"count", "8", "3", "parameters"}, side{"side", "256", "13", "of a parameter"};
  return {
      {"paged_attention_f16",
       "a token's attention over pages of a cache",
       {{"batch", "8", "3", "sequences"}, {"pages", "32", "3", "of a sequence at most"}},
       paged_attention_case,
       kHalfRounded},
      {"adapter_rows_bf16",
       "a layer with an adapter of its own for each row",
       {{"tokens", "128", "13", "tokens"}, {"width", "512", "24", "of a token"}},
       adapter_rows_case,
       2 * kRounded},
      {"float8_linear_bf16",
       "DeepSeek-V3's layer in FP8 with scales of blocks",
       {{"tokens", "48", "5", "tokens"}, {"blocks", "6", "2", "of 128 numbers of a token"}},
       float8_linear_case,
       2 * kRounded},
      {"loop_experts_bf16",
       "Mixtral's experts, one after another",
       {{"tokens", "48", "7", "tokens"}, {"width", "256", "16", "of a token"}},
       loop_experts_case,
       2 * kRounded},
      {"evict_cache_bf16",
       "attention over a cache that the coldest token leaves, in place",
       {{"batch", "4", "2", "sequences"}, {"recent", "64", "5", "tokens, a quarter of the cache"}},
       evict_cache_case,
       2 * kRounded},
      {"swapped_codes_step_f32",
       "SwAV's step of prototypes with queues, in place",
       {{"batch", "64", "5", "samples"}, {"width", "64", "11", "features"}},
       swapped_codes_step_case,
       10 * kSums},
      {"angular_margin_f32",
       "ArcFace's loss with its gradients",
       {{"batch", "96", "7", "samples"}, {"classes", "2048", "37", "classes"}},
       angular_margin_case,
       10 * kSums},
      {"lambda_rank_f32",
       "LambdaRank's loss with its gradient",
       {{"queries", "48", "5", "queries"}, {"documents", "64", "13", "of a query"}},
       lambda_rank_case,
       kSums},
      {"alternating_squares_f32",
       "half a step of implicit ALS, in place",
       {{"users", "384", "13", "users"}, {"items", "4096", "101", "items"}},
       alternating_squares_case,
       10 * kSums},
      {"word_vectors_step_f32",
       "word2vec's step with drawn words, in place",
       {{"pairs", "1024", "19", "pairs"}, {"words", "20000", "37", "words"}},
       word_vectors_step_case,
       kSums},
      {"prodigy_step_f32",
       "Prodigy's step at a rate of its own, in place",
       {count, side},
       prodigy_step_case,
       kSums},
      {"scaled_step_f16",
       "a step with scaled gradients, or none, in place",
       {count, side},
       scaled_step_case,
       kHalfRounded},
      {"boltzmann_step_f32",
       "a restricted Boltzmann machine's step, in place",
       {{"batch", "128", "7", "samples"}, {"visible", "784", "37", "of a sample"}},
       boltzmann_step_case,
       10 * kSums},
      {"hash_grid_step_f32",
       "Instant NGP's step of hashed tables, in place",
       {{"points", "2048", "37", "points"}, {"log_size", "14", "6", "logarithm of a table's rows"}},
       hash_grid_step_case,
       kSums},
  };
}

}  // namespace graft::workloads::wild
