// Science and decisions: equations, statistics, graphs, tokens.

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {

std::vector<Workload> science_cases();

namespace {

/// One rounding to bf16, relative to the largest value.
constexpr double kRoundingBf16 = 1.0 / 128;
constexpr int64_t kEndOfText = 2;

/// Lorenz's equations: the slopes of states (N, 3), each with its own rho (N).
at::Tensor lorenz_slope(const at::Tensor& state, const at::Tensor& rho) {
  const auto c = state.unbind(-1);
  return at::stack({10 * (c[1] - c[0]), c[0] * (rho - c[2]) - c[1], c[0] * c[1] - 8.0 / 3 * c[2]},
                   -1);
}

/// Steps of Runge and Kutta's fourth order: the last states, and the highest z on the way.
std::tuple<at::Tensor, at::Tensor> lorenz_paths(const at::Tensor& start, const at::Tensor& rho,
                                                int64_t steps) {
  constexpr double kStep = 0.01;
  at::Tensor state = start, highest = start.select(-1, 2);
  for (int64_t step = 0; step < steps; ++step) {
    const at::Tensor k1 = lorenz_slope(state, rho);
    const at::Tensor k2 = lorenz_slope(state + 0.5 * kStep * k1, rho);
    const at::Tensor k3 = lorenz_slope(state + 0.5 * kStep * k2, rho);
    const at::Tensor k4 = lorenz_slope(state + kStep * k3, rho);
    state = state + kStep / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
    highest = at::maximum(highest, state.select(-1, 2));
  }
  return {state, highest};
}

/// Thomas's algorithm for B tridiagonal systems at once: bands and right sides (N, B).
at::Tensor thomas(const at::Tensor& lower, const at::Tensor& diagonal, const at::Tensor& upper,
                  const at::Tensor& right) {
  const int64_t n = diagonal.size(0);
  at::Tensor ratio = at::empty_like(upper), x = at::empty_like(right);
  ratio.select(0, 0).copy_(upper.select(0, 0) / diagonal.select(0, 0));
  x.select(0, 0).copy_(right.select(0, 0) / diagonal.select(0, 0));
  for (int64_t i = 1; i < n; ++i) {
    const at::Tensor below = lower.select(0, i);
    const at::Tensor pivot = diagonal.select(0, i) - below * ratio.select(0, i - 1);
    ratio.select(0, i).copy_(upper.select(0, i) / pivot);
    x.select(0, i).copy_((right.select(0, i) - below * x.select(0, i - 1)) / pivot);
  }
  for (int64_t i = n - 2; i >= 0; --i) x.select(0, i).sub_(ratio.select(0, i) * x.select(0, i + 1));
  return x;
}

/// Conjugate gradients with Jacobi's preconditioner for B systems (B, N, N) and (B, N): the
/// solutions, and the residual's norm before each step and at the end (steps + 1, B).
std::tuple<at::Tensor, at::Tensor> conjugate_gradient(const at::Tensor& matrices,
                                                      const at::Tensor& right, int64_t steps) {
  const at::Tensor scale = matrices.diagonal(0, 1, 2).reciprocal();
  at::Tensor x = at::zeros_like(right), r = right, p = r * scale;
  at::Tensor product = (r * p).sum(-1, /*keepdim=*/true);
  std::vector<at::Tensor> norms{r.norm(2, -1)};
  for (int64_t step = 0; step < steps; ++step) {
    const at::Tensor image = at::bmm(matrices, p.unsqueeze(-1)).squeeze(-1);
    const at::Tensor alpha = product / (p * image).sum(-1, /*keepdim=*/true);
    x = x + alpha * p;
    r = r - alpha * image;
    norms.push_back(r.norm(2, -1));
    const at::Tensor z = r * scale, next = (r * z).sum(-1, /*keepdim=*/true);
    p = z + next / product * p;
    product = next;
  }
  return {x, at::stack(norms)};
}

/// Eigenvalues (N, 3) of symmetric 3x3 matrices given as (xx, xy, xz, yy, yz, zz) (N, 6), by the
/// trigonometric formula, and the fractional anisotropy (N), as for diffusion tensors.
std::tuple<at::Tensor, at::Tensor> diffusion_tensor(const at::Tensor& tensors) {
  const auto t = tensors.unbind(1);
  const at::Tensor &xy = t[1], &xz = t[2], &yz = t[4];
  const at::Tensor mean = (t[0] + t[3] + t[5]) / 3;
  const at::Tensor a = t[0] - mean, b = t[3] - mean, c = t[5] - mean;
  const at::Tensor off = xy.square() + xz.square() + yz.square();
  const at::Tensor p =
      ((a.square() + b.square() + c.square() + 2 * off) / 6).sqrt().clamp_min(1e-9);
  const at::Tensor determinant =
      a * (b * c - yz * yz) - xy * (xy * c - yz * xz) + xz * (xy * yz - b * xz);
  const at::Tensor angle = (determinant / (2 * p.pow(3))).clamp(-1, 1).acos() / 3;
  const at::Tensor first = mean + 2 * p * angle.cos();
  const at::Tensor third = mean + 2 * p * (angle + 2 * std::numbers::pi / 3).cos();
  const at::Tensor values = at::stack({first, 3 * mean - first - third, third}, 1);
  const at::Tensor spread = (values - mean.unsqueeze(1)).square().sum(1);
  return {values, (1.5 * spread / values.square().sum(1).clamp_min(1e-12)).sqrt()};
}

/// The power of fields (B, H, W) by wave number, averaged over rings, and its centre of mass (B).
std::tuple<at::Tensor, at::Tensor> power_spectrum(const at::Tensor& fields) {
  const int64_t height = fields.size(1), width = fields.size(2);
  const int64_t rings = std::min(height, width) / 2 + 1;
  const at::Tensor centred = fields - fields.mean({1, 2}, /*keepdim=*/true);
  const at::Tensor power =
      at::fft_rfft2(centred, std::nullopt, {-2, -1}, "ortho").abs().square().flatten(1);
  const at::Tensor ky =
      at::fft_fftfreq(height, 1.0 / static_cast<double>(height), fields.options());
  const at::Tensor kx = at::fft_rfftfreq(width, 1.0 / static_cast<double>(width), fields.options());
  const at::Tensor radius = (ky.square().unsqueeze(1) + kx.square()).sqrt();
  const at::Tensor ring = radius.round().to(at::kLong).clamp_max(rings).flatten();
  const at::Tensor count = at::bincount(ring, {}, rings + 1).clamp_min(1);
  const at::Tensor total =
      at::zeros({fields.size(0), rings + 1}, fields.options()).index_add_(1, ring, power);
  const at::Tensor mean = (total / count).slice(1, 0, rings);
  const at::Tensor k = at::arange(rings, fields.options());
  return {mean, (mean * k).sum(1) / mean.sum(1)};
}

/// Of log-returns (days, assets): the deepest drawdown, its day, the longest time under water in
/// days, and the growth by year over the drawdown (Calmar's ratio).
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> drawdown(const at::Tensor& returns) {
  const int64_t days = returns.size(0);
  const at::Tensor wealth = returns.cumsum(0), equity = wealth.exp();
  const auto [peak, since] = equity.cummax(0);
  const auto [deepest, day] = (1 - equity / peak).max(0);
  const at::Tensor under = at::arange(days, at::kLong).unsqueeze(1) - since;
  const at::Tensor growth = (wealth.select(0, -1) * (252.0 / static_cast<double>(days))).exp() - 1;
  return {deepest, day, std::get<0>(under.max(0)), growth / deepest.clamp_min(1e-4)};
}

/// Sinkhorn's iterations in the log domain between clouds (B, N, D) and (B, M, D): the transport
/// plans (B, N, M) and their costs (B).
std::tuple<at::Tensor, at::Tensor> sinkhorn(const at::Tensor& x, const at::Tensor& y,
                                            int64_t rounds) {
  constexpr double kBlur = 0.5;
  const double log_n = std::log(static_cast<double>(x.size(1))),
               log_m = std::log(static_cast<double>(y.size(1)));
  const at::Tensor cost = (x.square().sum(-1).unsqueeze(2) + y.square().sum(-1).unsqueeze(1) -
                           2 * at::bmm(x, y.transpose(1, 2)))
                              .clamp_min(0);
  at::Tensor f = at::zeros_like(cost.select(2, 0)), g = at::zeros_like(cost.select(1, 0));
  for (int64_t i = 0; i < rounds; ++i) {
    f = -kBlur * at::logsumexp((g.unsqueeze(1) - cost) / kBlur - log_m, {2});
    g = -kBlur * at::logsumexp((f.unsqueeze(2) - cost) / kBlur - log_n, {1});
  }
  const at::Tensor plan =
      ((f.unsqueeze(2) + g.unsqueeze(1) - cost) / kBlur - (log_n + log_m)).exp();
  return {plan, (plan * cost).sum({1, 2})};
}

/// A bootstrap particle filter of the usual nonlinear growth model with systematic resampling:
/// particles (F, P), observations and uniforms (T, F), noise (T, F, P). The filtered means (T, F)
/// and log-likelihoods (F).
std::tuple<at::Tensor, at::Tensor> particle_filter(const at::Tensor& start,
                                                   const at::Tensor& observed,
                                                   const at::Tensor& noise,
                                                   const at::Tensor& uniforms) {
  const int64_t particles = start.size(1);
  const double count = static_cast<double>(particles);
  const at::Tensor comb = at::arange(particles, start.options()) / count;
  at::Tensor x = start, likelihood = at::zeros_like(start.select(1, 0));
  std::vector<at::Tensor> means;
  for (int64_t t = 0; t < observed.size(0); ++t) {
    const double season = 8 * std::cos(1.2 * static_cast<double>(t));
    x = 0.5 * x + 25 * x / (1 + x.square()) + season + 3 * noise.select(0, t);
    const at::Tensor error = observed.select(0, t).unsqueeze(1) - x.square() / 20;
    const at::Tensor score = -0.5 * error.square();
    likelihood = likelihood + at::logsumexp(score, {1}) - std::log(count);
    const at::Tensor weight = at::softmax(score, 1);
    means.push_back((weight * x).sum(1));
    const at::Tensor places = comb + uniforms.select(0, t).unsqueeze(1) / count;
    const at::Tensor chosen = at::searchsorted(weight.cumsum(1), places).clamp_max(particles - 1);
    x = x.gather(1, chosen);
  }
  return {at::stack(means), likelihood};
}

/// A GINE layer over molecules and its readout: atoms (N, D), bonds' kinds (E) with embeddings
/// (K, D), an MLP; then the mean and the maximum of each graph's atoms (G, 2 D).
std::tuple<at::Tensor, at::Tensor> molecule_layer(const at::Tensor& atoms, const at::Tensor& source,
                                                  const at::Tensor& target, const at::Tensor& kinds,
                                                  const at::Tensor& bonds, const at::Tensor& graph,
                                                  const at::Tensor& w1, const at::Tensor& b1,
                                                  const at::Tensor& w2, const at::Tensor& b2,
                                                  int64_t graphs) {
  const at::Tensor messages = at::relu(atoms.index_select(0, source) + at::embedding(bonds, kinds));
  const at::Tensor around = at::zeros_like(atoms).index_add_(0, target, messages);
  const at::Tensor hidden = at::relu(at::linear(1.1 * atoms + around, w1, b1));
  const at::Tensor h = at::relu(at::linear(hidden, w2, b2)) + atoms;
  const at::Tensor zero = at::zeros({graphs, h.size(1)}, h.options());
  const at::Tensor count =
      at::zeros({graphs}, h.options()).index_add_(0, graph, at::ones_like(h.select(1, 0)));
  const at::Tensor mean = zero.index_add(0, graph, h) / count.clamp_min(1).unsqueeze(1);
  const at::Tensor most = at::scatter_reduce(zero, 0, graph.unsqueeze(1).expand_as(h), h, "amax",
                                             /*include_self=*/false);
  return {h, at::cat({mean, most}, 1)};
}

/// TransE's evaluation: the filtered rank of each triple's tail among all entities (E, D) by the L1
/// distance, known other tails (Q, K) left out; the mean reciprocal rank, and hits at 10.
std::tuple<at::Tensor, at::Tensor, at::Tensor> translation_rank(
    const at::Tensor& entities, const at::Tensor& relations, const at::Tensor& head,
    const at::Tensor& relation, const at::Tensor& tail, const at::Tensor& known) {
  const at::Tensor query = entities.index_select(0, head) + relations.index_select(0, relation);
  const at::Tensor distance = at::cdist(query, entities, 1);
  const at::Tensor own = distance.gather(1, tail.unsqueeze(1));
  const at::Tensor filtered = distance.scatter(1, known, std::numeric_limits<double>::infinity());
  const at::Tensor rank = (filtered < own).sum(1) + 1;
  const at::Tensor hits = (rank <= 10).to(distance.scalar_type());
  return {rank, rank.to(distance.scalar_type()).reciprocal().mean(), hits.mean()};
}

/// Deep interest network: histories (B, L) of so many items each, weighted by a small network of
/// item and candidate. The interests (B, D), and the probability of a click (B).
std::tuple<at::Tensor, at::Tensor> deep_interest(const at::Tensor& items, const at::Tensor& history,
                                                 const at::Tensor& lengths,
                                                 const at::Tensor& candidate, const at::Tensor& w1,
                                                 const at::Tensor& b1, const at::Tensor& w2,
                                                 const at::Tensor& b2) {
  const at::Tensor keys = at::embedding(items, history), wanted = at::embedding(items, candidate);
  const at::Tensor query = wanted.unsqueeze(1).expand_as(keys);
  const at::Tensor features = at::cat({query, keys, query - keys, query * keys}, -1);
  const at::Tensor hidden = at::sigmoid(at::linear(features, w1, b1));
  const at::Tensor score =
      at::linear(hidden, w2, b2).squeeze(-1) / std::sqrt(static_cast<double>(items.size(1)));
  const at::Tensor there = at::arange(history.size(1), at::kLong) < lengths.unsqueeze(1);
  const at::Tensor weight = at::softmax(score.masked_fill(there.logical_not(), -1e9), -1);
  const at::Tensor interest = at::bmm(weight.unsqueeze(1), keys).squeeze(1);
  return {interest, at::sigmoid((interest * wanted).sum(-1))};
}

/// Top-p sampling of logits (B, V) by given uniforms (B): the tokens, their log-probabilities, and
/// the distributions that they are drawn from.
std::tuple<at::Tensor, at::Tensor, at::Tensor> nucleus_sample(const at::Tensor& logits,
                                                              const at::Tensor& uniforms) {
  const auto [p, order] = at::softmax(logits / 0.9, -1).sort(-1, /*descending=*/true);
  const at::Tensor outside = p.cumsum(-1) - p > 0.9;
  const at::Tensor kept = p.masked_fill(outside, 0);
  const at::Tensor share = kept / kept.sum(-1, /*keepdim=*/true);
  const at::Tensor below = share.cumsum(-1) < uniforms.unsqueeze(1);
  const at::Tensor choice =
      at::minimum(below.sum(-1, /*keepdim=*/true),
                  outside.logical_not().sum(-1, /*keepdim=*/true) - 1);  // of those kept
  const at::Tensor distribution = at::zeros_like(logits).scatter_(1, order, share);
  return {order.gather(1, choice).squeeze(1), share.gather(1, choice).squeeze(1).log(),
          distribution};
}

/// A step of beam search: logits (B K, V), scores and finished (B, K), tokens (B, K, T). The beams'
/// new scores, tokens (B, K, T + 1) and ends, and the scores with a penalty on length.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> beam_step(const at::Tensor& logits,
                                                                     const at::Tensor& scores,
                                                                     const at::Tensor& finished,
                                                                     const at::Tensor& tokens) {
  const int64_t batch = scores.size(0), beams = scores.size(1), vocabulary = logits.size(1),
                length = tokens.size(2);
  at::Tensor end = at::full({vocabulary}, -1e9, logits.options());
  end.select(0, kEndOfText).fill_(0);
  const at::Tensor log_p = at::log_softmax(logits, -1).view({batch, beams, vocabulary});
  const at::Tensor total = scores.unsqueeze(-1) + at::where(finished.unsqueeze(-1), end, log_p);
  const auto [best, flat] = total.view({batch, -1}).topk(beams, -1);
  const at::Tensor beam = at::div(flat, vocabulary, "floor"), token = flat.remainder(vocabulary);
  const at::Tensor before = tokens.gather(1, beam.unsqueeze(-1).expand({-1, -1, length}));
  const at::Tensor done = at::logical_or(finished.gather(1, beam), token == kEndOfText);
  const double penalty = std::pow((5.0 + static_cast<double>(length + 1)) / 6.0, 0.6);
  return {best, at::cat({before, token.unsqueeze(-1)}, -1), done, best / penalty};
}

/// A step of DPM-Solver++ (2M) with rescaled guidance and Imagen's dynamic thresholding, in fp32:
/// x (B, C, H, W), the noise predicted without and with the condition (2 B, C, H, W), the image
/// estimated before, and cumulated alphas (S). The next x, and the image estimated now.
std::tuple<at::Tensor, at::Tensor> dpm_solver(const at::Tensor& x, const at::Tensor& predicted,
                                              const at::Tensor& previous, const at::Tensor& alphas,
                                              int64_t step, int64_t stride) {
  const auto halves = wide(predicted).chunk(2, 0);
  const at::Tensor guided = halves[0] + 7.5 * (halves[1] - halves[0]);
  const at::Tensor ratio = halves[1].std({1, 2, 3}, /*unbiased=*/true, /*keepdim=*/true) /
                           guided.std({1, 2, 3}, /*unbiased=*/true, /*keepdim=*/true);
  const at::Tensor noise = 0.7 * (guided * ratio) + 0.3 * guided;
  const at::Tensor a = alphas.sqrt(), s = (1 - alphas).sqrt(), level = (a / s).log();
  const at::Tensor raw = (wide(x) - s.select(0, step) * noise) / a.select(0, step);
  const at::Tensor limit =
      at::quantile(raw.abs().flatten(1), 0.995, 1).clamp_min(1).view({-1, 1, 1, 1});
  const at::Tensor image = at::clamp(raw, -limit, limit) / limit;
  const int64_t next = step - stride;
  const at::Tensor h = level.select(0, next) - level.select(0, step);
  const at::Tensor r = (level.select(0, step) - level.select(0, step + stride)) / h;
  const at::Tensor d = (1 + 0.5 / r) * image - 0.5 / r * wide(previous);
  const at::Tensor out =
      s.select(0, next) / s.select(0, step) * wide(x) - a.select(0, next) * at::expm1(-h) * d;
  return {out.to(x.scalar_type()), image.to(x.scalar_type())};
}

Instance lorenz_case(const Options& o) {
  const int64_t systems = o.integer("systems"), steps = o.integer("steps");
  Draw draw(o);
  const at::Tensor start = draw.normal({systems, 3}) * 5;
  return bounded(instance_of(lorenz_paths, start, draw.uniform({systems}, 20, 35), steps),
                 4 * 8 * systems, steps * (4 * 9 + 3 * 6 + 3 * 7 + 1) * systems);
}

Instance thomas_case(const Options& o) {
  const int64_t unknowns = o.integer("unknowns"), systems = o.integer("systems");
  Draw draw(o);
  const at::Tensor lower = draw.uniform({unknowns, systems}, -1, 1),
                   diagonal = draw.uniform({unknowns, systems}, 3, 5),
                   upper = draw.uniform({unknowns, systems}, -1, 1);
  return bounded(instance_of(thomas, lower, diagonal, upper, draw.normal({unknowns, systems})),
                 4 * 5 * unknowns * systems, 8 * unknowns * systems);
}

Instance conjugate_gradient_case(const Options& o) {
  const int64_t systems = o.integer("systems"), unknowns = o.integer("unknowns"),
                steps = o.integer("steps");
  Draw draw(o);
  const at::Tensor root =
      draw.normal({systems, unknowns, unknowns}) / std::sqrt(static_cast<double>(unknowns));
  const at::Tensor matrices = at::bmm(root, root.transpose(1, 2)) + at::eye(unknowns);
  return bounded(instance_of(conjugate_gradient, matrices, draw.normal({systems, unknowns}), steps),
                 4 * systems * (unknowns * unknowns + 2 * unknowns + steps + 1),
                 steps * systems * (2 * unknowns * unknowns + 13 * unknowns));
}

Instance diffusion_tensor_case(const Options& o) {
  const int64_t voxels = o.integer("voxels");
  return bounded(instance_of(diffusion_tensor, Draw(o).normal({voxels, 6})), 4 * 10 * voxels,
                 (60 + 3 * kFunction) * voxels);
}

Instance power_spectrum_case(const Options& o) {
  const int64_t batch = o.integer("batch"), height = o.integer("height"),
                width = o.integer("width"), rings = std::min(height, width) / 2 + 1;
  const double cells = static_cast<double>(height * width);
  const int64_t transform = static_cast<int64_t>(2.5 * cells * std::log2(cells));
  return bounded(instance_of(power_spectrum, Draw(o).normal({batch, height, width})),
                 4 * batch * (height * width + rings + 1),
                 batch * (transform + 5 * height * width));
}

Instance drawdown_case(const Options& o) {
  const int64_t days = o.integer("days"), assets = o.integer("assets");
  return bounded(instance_of(drawdown, Draw(o).normal({days, assets}) * 0.01),
                 4 * days * assets + (4 + 8 + 8 + 4) * assets, (kFunction + 7) * days * assets);
}

Instance sinkhorn_case(const Options& o) {
  const int64_t batch = o.integer("batch"), points = o.integer("points"),
                others = o.integer("others"), width = o.integer("width"),
                rounds = o.integer("rounds");
  Draw draw(o);
  const at::Tensor x = draw.uniform({batch, points, width}),
                   y = draw.uniform({batch, others, width}) + 0.25;
  return bounded(instance_of(sinkhorn, x, y, rounds),
                 4 * batch * ((points + others) * width + points * others + 1),
                 batch * points * others * (2 * width + 2 * rounds * (kFunction + 5) + kFunction));
}

Instance particle_filter_case(const Options& o) {
  const int64_t filters = o.integer("filters"), particles = o.integer("particles"),
                steps = o.integer("steps");
  Draw draw(o);
  const at::Tensor start = draw.normal({filters, particles}, at::kDouble) * 2,
                   observed = draw.uniform({steps, filters}, 0, 15).to(at::kDouble),
                   noise = draw.normal({steps, filters, particles}, at::kDouble),
                   uniforms = draw.uniform({steps, filters}).to(at::kDouble);
  return bounded(instance_of(particle_filter, start, observed, noise, uniforms),
                 8 * (filters * particles * (1 + steps) + 3 * steps * filters + filters),
                 steps * filters * particles * (2 * kFunction + 24));
}

Instance molecule_layer_case(const Options& o) {
  const int64_t nodes = o.integer("nodes"), edges = o.integer("edges"), width = o.integer("width"),
                graphs = o.integer("graphs"), kinds = 5;
  Draw draw(o);
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  const at::Tensor atoms = draw.normal({nodes, width});
  const at::Tensor source = draw.integers({edges}, nodes), target = draw.integers({edges}, nodes),
                   kind = draw.integers({edges}, kinds);
  const at::Tensor bonds = draw.normal({kinds, width});
  const at::Tensor graph = at::arange(nodes, at::kLong).mul(graphs).floor_divide(nodes);
  const at::Tensor w1 = draw.normal({2 * width, width}) * scale,
                   w2 = draw.normal({width, 2 * width}) * scale;
  return bounded(
      instance_of(molecule_layer, atoms, source, target, kind, bonds, graph, w1,
                  draw.normal({2 * width}), w2, draw.normal({width}), graphs),
      4 * width * (2 * nodes + kinds + 4 * width + 3 + 2 * graphs) + 24 * edges + 8 * nodes,
      3 * edges * width + nodes * width * (8 * width + 8));
}

Instance translation_rank_case(const Options& o) {
  const int64_t entities = o.integer("entities"), triples = o.integer("triples"),
                known = o.integer("known"), width = o.integer("width"), kinds = 11;
  Draw draw(o);
  const at::Tensor table = draw.normal({entities, width}),
                   relations = draw.normal({kinds, width}) * 0.5;
  // Heads in the first half; in the second the tails, about where the translations lead.
  const at::Tensor head = draw.integers({triples}, entities / 2),
                   relation = draw.integers({triples}, kinds),
                   tail = at::arange(triples, at::kLong) + entities / 2;
  const at::Tensor noise = draw.normal({triples, width}) * draw.uniform({triples, 1}, 0.5, 2);
  table.index_copy_(0, tail,
                    table.index_select(0, head) + relations.index_select(0, relation) + noise);
  return bounded(instance_of(translation_rank, table, relations, head, relation, tail,
                             draw.integers({triples, known}, entities)),
                 4 * width * (entities + distinct(relation)) + 8 * triples * (3 + known + 1) + 8,
                 triples * entities * (3 * width + 1));
}

Instance deep_interest_case(const Options& o) {
  const int64_t batch = o.integer("batch"), length = o.integer("length"),
                width = o.integer("width"), hidden = o.integer("hidden"),
                values = o.integer("values");
  Draw draw(o);
  const at::Tensor items = draw.normal({values, width});
  const at::Tensor history = draw.integers({batch, length}, values),
                   lengths = draw.integers({batch}, length) + 1,
                   candidate = draw.integers({batch}, values);
  const at::Tensor w1 = draw.normal({hidden, 4 * width}) * 0.2, b1 = draw.normal({hidden}),
                   w2 = draw.normal({1, hidden}), b2 = draw.normal({1});
  const int64_t touched = distinct(at::cat({history.view(-1), candidate}));
  return bounded(
      instance_of(deep_interest, items, history, lengths, candidate, w1, b1, w2, b2),
      8 * batch * (length + 2) + 4 * (touched * width + hidden * (4 * width + 2) + 1) +
          4 * batch * (width + 1),
      batch * length * (8 * width * hidden + hidden * (kFunction + 2) + 4 * width + kFunction));
}

Instance nucleus_sample_case(const Options& o) {
  const int64_t batch = o.integer("batch"), vocabulary = o.integer("vocabulary");
  Draw draw(o);
  const at::Tensor logits = draw.normal({batch, vocabulary}) * 3;
  return bounded(instance_of(nucleus_sample, logits, draw.uniform({batch})),
                 8 * batch * vocabulary + (4 + 8 + 4) * batch,
                 (kFunction + 10) * batch * vocabulary);
}

Instance beam_step_case(const Options& o) {
  const int64_t batch = o.integer("batch"), beams = o.integer("beams"),
                vocabulary = o.integer("vocabulary"), length = o.integer("length"),
                rows = batch * beams;
  Draw draw(o);
  const at::Tensor logits = draw.normal({rows, vocabulary}) * 3;
  const at::Tensor scores = std::get<0>(draw.uniform({batch, beams}, -9, -5).sort(-1, true));
  const at::Tensor finished = draw.uniform({batch, beams}) < 0.2;
  const at::Tensor tokens = draw.integers({batch, beams, length}, vocabulary);
  return bounded(
      instance_of(beam_step, logits, scores, finished, tokens),
      4 * rows * vocabulary + rows * (4 + 1 + 8 * length) + rows * (4 + 8 * (length + 1) + 1 + 4),
      (kFunction + 5) * rows * vocabulary);
}

Instance dpm_solver_case(const Options& o) {
  const int64_t batch = o.integer("batch"), channels = o.integer("channels"),
                side = o.integer("side");
  Draw draw(o);
  const auto image = [&](int64_t count) {
    return draw.normal({count, channels, side, side}, at::kBFloat16);
  };
  const at::Tensor x = image(batch), predicted = image(2 * batch),
                   previous = image(batch).clamp(-1, 1);
  const at::Tensor alphas = (1 - at::linspace(1e-4, 0.02, 1000, at::kFloat)).cumprod(0);
  return bounded(instance_of(dpm_solver, x, predicted, previous, alphas, int64_t{500}, int64_t{50}),
                 2 * 6 * x.numel() + 4 * 3, 30 * x.numel());
}

}  // namespace

std::vector<Workload> science_cases() {
  return {
      {"lorenz_paths_f32",
       "Runge-Kutta steps of many Lorenz systems",
       {{"systems", "32768", "67", "systems"}, {"steps", "8", "3", "steps"}},
       lorenz_case},
      {"thomas_f32",
       "many tridiagonal systems by Thomas's algorithm",
       {{"unknowns", "48", "7", "of a system"}, {"systems", "32768", "67", "systems"}},
       thomas_case},
      {"conjugate_gradient_f32",
       "preconditioned conjugate gradients of many small systems",
       {{"systems", "2048", "13", "systems"},
        {"unknowns", "32", "9", "of a system"},
        {"steps", "6", "3", "steps"}},
       conjugate_gradient_case,
       10 * kSums},
      {"diffusion_tensor_f32",
       "eigenvalues of symmetric 3x3 matrices, and their anisotropy",
       {{"voxels", "262144", "131", "matrices"}},
       diffusion_tensor_case,
       kSums},
      {"power_spectrum_f32",
       "the power of fields by wave number",
       {{"batch", "24", "3", "fields"},
        {"height", "256", "19", "rows of a field"},
        {"width", "256", "37", "cells of a row"}},
       power_spectrum_case,
       kSums},
      {"drawdown_f32",
       "the deepest and longest drawdowns of assets",
       {{"days", "512", "67", "days"}, {"assets", "2048", "37", "assets"}},
       drawdown_case,
       kSums},
      {"sinkhorn_f32",
       "entropic optimal transport between clouds of points",
       {{"batch", "8", "2", "pairs of clouds"},
        {"points", "256", "19", "of the first cloud"},
        {"others", "192", "13", "of the second"},
        {"width", "8", "3", "of a point"},
        {"rounds", "10", "3", "iterations"}},
       sinkhorn_case,
       10 * kSums},
      {"particle_filter_f64",
       "a particle filter with systematic resampling",
       {{"filters", "64", "5", "filters"},
        {"particles", "512", "67", "of a filter"},
        {"steps", "8", "3", "observations"}},
       particle_filter_case,
       kSums},
      {"molecule_layer_f32",
       "a graph isomorphism layer with bonds, and its readout",
       {{"nodes", "8192", "67", "atoms"},
        {"edges", "32768", "211", "bonds"},
        {"width", "64", "13", "features of an atom"},
        {"graphs", "256", "5", "molecules"}},
       molecule_layer_case,
       kSums},
      {"translation_rank_f32",
       "filtered ranks of triples by TransE",
       {{"entities", "8192", "67", "entities"},
        {"triples", "64", "7", "triples"},
        {"known", "32", "3", "other tails of a triple"},
        {"width", "64", "13", "of an embedding"}},
       translation_rank_case,
       kSums},
      {"deep_interest_f32",
       "a user's interest by attention over the history",
       {{"batch", "1024", "37", "samples"},
        {"length", "50", "7", "of a history"},
        {"width", "16", "5", "of an embedding"},
        {"hidden", "36", "11", "hidden units"},
        {"values", "65536", "211", "items"}},
       deep_interest_case,
       kSums},
      {"nucleus_sample_f32",
       "tokens by top-p sampling from given uniforms",
       {{"batch", "8", "5", "sequences"}, {"vocabulary", "32000", "211", "tokens"}},
       nucleus_sample_case,
       kSums},
      {"beam_step_f32",
       "a step of beam search",
       {{"batch", "16", "3", "sequences"},
        {"beams", "5", "3", "beams of a sequence"},
        {"vocabulary", "32000", "211", "tokens"},
        {"length", "64", "7", "tokens before"}},
       beam_step_case,
       kSums},
      {"dpm_solver_bf16",
       "a DPM-Solver++ step with rescaled guidance and dynamic thresholds",
       {{"batch", "4", "3", "images"},
        {"channels", "3", "2", "of an image"},
        {"side", "128", "13", "rows and columns"}},
       dpm_solver_case,
       kRoundingBf16},
  };
}

}  // namespace graft::workloads::wild
