// Drifters: boxes, maps, sounds, games and searches, some of which go on until they are done.

#include <ATen/ATen.h>

#include <bit>
#include <cmath>
#include <numbers>
#include <vector>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

using at::Tensor;
using at::indexing::Slice;

/// Non-maximum suppression of boxes (N, 4) by classes, one best box after another.
Tensor greedy_boxes(const Tensor& boxes, const Tensor& scores, const Tensor& classes) {
  const Tensor apart = boxes + (classes * (boxes.max() + 1)).unsqueeze(1);
  const Tensor areas = (apart.slice(1, 2) - apart.slice(1, 0, 2)).prod(1);
  Tensor order = scores.argsort(0, /*descending=*/true);
  order = order.index({scores.index({order}) > 0.2});
  std::vector<int64_t> kept;
  while (order.numel() > 0) {
    const int64_t best = order[0].item<int64_t>();
    kept.push_back(best);
    const Tensor rest = order.slice(0, 1), box = apart[best], others = apart.index({rest});
    const Tensor low = at::maximum(box.slice(0, 0, 2), others.slice(1, 0, 2)),
                 high = at::minimum(box.slice(0, 2), others.slice(1, 2));
    const Tensor shared = (high - low).clamp_min(0).prod(1);
    order = rest.index({shared / (areas[best] + areas.index({rest}) - shared) <= 0.5});
  }
  return at::tensor(kept, at::kLong);
}

/// Connected regions of a mask (H, W), numbered from 1 without small ones; how large they are.
std::tuple<Tensor, Tensor> label_regions(const Tensor& mask, int64_t least) {
  const int64_t height = mask.size(0), width = mask.size(1);
  const Tensor inside = mask.to(at::kFloat).view({1, 1, height, width});
  Tensor labels =
      at::arange(1, height * width + 1, at::kFloat).view({1, 1, height, width}) * inside;
  while (true) {
    const Tensor grown = at::max_pool2d(labels, {3, 3}, {1, 1}, {1, 1}) * inside;
    if (at::equal(grown, labels)) break;
    labels = grown;
  }
  const auto [all, number, sizes] =
      at::_unique2(labels.to(at::kLong).view({height, width}), /*sorted=*/true,
                   /*return_inverse=*/true, /*return_counts=*/true);
  const Tensor large = (sizes.index({number}) >= least).logical_and(mask);
  const Tensor renumbered = std::get<1>(at::_unique2(at::where(large, number, 0), /*sorted=*/true,
                                                     /*return_inverse=*/true));
  return {renumbered, at::bincount(renumbered.flatten())};
}

/// A lidar's points (N, 4) between two ends (2, 3) by pillars that they fall into: features of each
/// point, a layer, each pillar's largest, on a map (C, S, S).
Tensor dynamic_pillars(const Tensor& all, const Tensor& ends, const Tensor& weight,
                       const Tensor& scale, const Tensor& shift, int64_t side) {
  const Tensor low = ends[0], high = ends[1], place = all.slice(1, 0, 3);
  const Tensor points = all.index({(place >= low).logical_and(place < high).all(1)});
  const Tensor size = (high - low).slice(0, 0, 2) / side, corner = low.slice(0, 0, 2);
  const Tensor cell =
      ((points.slice(1, 0, 2) - corner) / size).floor().to(at::kLong).clamp(0, side - 1);
  const auto [pillars, inverse, counts] =
      at::_unique2(cell.select(1, 0) * side + cell.select(1, 1), /*sorted=*/true,
                   /*return_inverse=*/true, /*return_counts=*/true);
  const Tensor sums = at::zeros({pillars.size(0), 3}, points.options())
                          .index_add_(0, inverse, points.slice(1, 0, 3));
  const Tensor from_mean = points.slice(1, 0, 3) - (sums / counts.unsqueeze(1)).index({inverse});
  const Tensor from_centre = points.slice(1, 0, 2) - ((cell + 0.5) * size + corner);
  const Tensor features = at::linear(at::cat({points, from_mean, from_centre}, 1), weight);
  const Tensor x = at::relu(features * scale + shift);
  const Tensor most = at::zeros({pillars.size(0), x.size(1)}, x.options());
  most.scatter_reduce_(0, inverse.unsqueeze(1).expand_as(x), x, "amax", /*include_self=*/false);
  Tensor canvas = at::zeros({x.size(1), side * side}, x.options());
  canvas.index_put_({Slice(), pillars}, most.t());
  return canvas.view({-1, side, side});
}

/// The fast algorithm of Griffin and Lim: sounds of magnitudes (B, F, T), from given phases.
Tensor rebuild_phase(const Tensor& magnitudes, const Tensor& phases, const Tensor& window,
                     int64_t steps) {
  const int64_t size = window.size(0), hop = size / 4;
  Tensor angles = at::polar(at::ones_like(phases), phases),
         before = at::zeros({}, at::kComplexFloat);
  for (int64_t step = 0; step < steps; ++step) {
    const Tensor signal = at::istft(magnitudes * angles, size, hop, size, window);
    const Tensor rebuilt = at::stft(signal, size, hop, size, window, /*center=*/true, "reflect",
                                    /*normalized=*/false, /*onesided=*/{}, /*return_complex=*/true);
    angles = rebuilt - before * (0.99 / 1.99);
    angles = angles / (angles.abs() + 1e-16);
    before = rebuilt;
  }
  return at::istft(magnitudes * angles, size, hop, size, window);
}

/// Nussinov's folding of RNA's letters (B, L) by scores of pairs (4, 4), shortest spans first: the
/// best score, and those of all spans.
std::tuple<Tensor, Tensor> rna_pairs(const Tensor& letters, const Tensor& scores) {
  const int64_t batch = letters.size(0), length = letters.size(1);
  const Tensor gains = scores.index({letters.unsqueeze(2), letters.unsqueeze(1)});
  Tensors best;
  for (int64_t span = 0; span < 4; ++span)
    best.push_back(at::zeros({batch, length - span}, scores.options()));
  for (int64_t span = 4; span < length; ++span) {
    const int64_t count = length - span;
    const Tensor paired = best[span - 2].slice(1, 1, count + 1) + gains.diagonal(span, 1, 2);
    Tensors left, right;
    for (int64_t k = 0; k < span; ++k) {
      left.push_back(best[k].slice(1, 0, count));
      right.push_back(best[span - k - 1].slice(1, k + 1, k + 1 + count));
    }
    best.push_back(at::maximum(paired, (at::stack(left) + at::stack(right)).amax(0)));
  }
  return {best.back().squeeze(1), at::cat(best, 1)};
}

/// Conway's life on a torus of bytes (H, W), until it stands still or its time is up; how many live
/// in each generation, and the board.
std::tuple<Tensor, Tensor> life_board(const Tensor& start, int64_t steps) {
  Tensor board = start;
  Tensors alive;
  for (int64_t step = 0; step < steps; ++step) {
    const Tensor row = board + board.roll({1}, {0}) + board.roll({-1}, {0});
    const Tensor around = row + row.roll({1}, {1}) + row.roll({-1}, {1}) - board;
    const Tensor next =
        (around == 3).logical_or((around == 2).logical_and(board == 1)).to(at::kByte);
    if (at::equal(next, board)) break;
    alive.push_back(next.sum());
    board = next;
  }
  return {at::stack(alive), board};
}

/// A robot among landmarks by an extended Kalman filter: place, heading and landmarks (3 + 2 M)
/// with their covariance, after a move and distances and bearings (K, 2) of landmarks (K). One that
/// is unlikely is left out, one that is new is put where it seems to be.
std::tuple<Tensor, Tensor, Tensor> landmark_update(const Tensor& state, const Tensor& covariance,
                                                   const Tensor& control,
                                                   const Tensor& observations, const Tensor& ids,
                                                   const Tensor& seen) {
  constexpr double kTime = 0.1, kPi = std::numbers::pi;
  const Tensor x = state.clone(), heading = x[2];
  Tensor known = seen.clone();
  const int64_t size = x.size(0);
  const Tensor noise = at::tensor({0.01, 0.001}, x.options()).diag(), along = control[0] * kTime;
  // The robot moves.
  Tensor turn = at::eye(size, x.options());
  turn.index_put_({0, 2}, -along * heading.sin());
  turn.index_put_({1, 2}, along * heading.cos());
  Tensor p = at::matmul(at::matmul(turn, covariance), turn.t());
  p.slice(0, 0, 3).slice(1, 0, 3).add_(at::eye(3, x.options()), 1e-3);
  x.slice(0, 0, 3).add_(
      at::stack({along * heading.cos(), along * heading.sin(), control[1] * kTime}));
  // It sees landmarks, one after another.
  for (int64_t k = 0; k < ids.size(0); ++k) {
    const int64_t mark = ids[k].item<int64_t>(), from = 3 + 2 * mark;
    const Tensor distance = observations[k][0], bearing = observations[k][1];
    const Tensor place = x.slice(0, from, from + 2);
    if (!known[mark].item<bool>()) {
      const Tensor angle = heading + bearing;
      place.copy_(x.slice(0, 0, 2) + distance * at::stack({angle.cos(), angle.sin()}));
      known.index_put_({mark}, true);
      continue;
    }
    const Tensor apart = place - x.slice(0, 0, 2), square = apart.dot(apart), root = square.sqrt();
    const Tensor by = at::stack({apart / root, at::stack({-apart[1], apart[0]}) / square});
    Tensor h = at::zeros({2, size}, x.options());
    h.slice(1, 0, 2).copy_(-by);
    h.index_put_({1, 2}, -1);
    h.slice(1, from, from + 2).copy_(by);
    const Tensor off = bearing - (at::atan2(apart[1], apart[0]) - heading);
    const Tensor error = at::stack({distance - root, at::remainder(off + kPi, 2 * kPi) - kPi});
    const Tensor hp = at::matmul(h, p), s = at::matmul(hp, h.t()) + noise;
    if (error.dot(at::linalg_solve(s, error)).item<double>() > 13.8) continue;
    const Tensor gain = at::linalg_solve(s, hp).t();
    x.add_(at::matmul(gain, error));
    p = p - at::matmul(gain, hp);
    p = 0.5 * (p + p.t());
  }
  return {x, p, known};
}

/// Bertsekas's auction: objects for persons by their values (N, N), until each has one. Objects,
/// prices, and what all are worth.
std::tuple<Tensor, Tensor, Tensor> auction(const Tensor& values) {
  const int64_t count = values.size(0);
  const Tensor prices = at::zeros({count}, values.options());
  Tensor owned = at::full({count}, -1, at::kLong);
  while ((owned < 0).any().item<bool>()) {
    const Tensor free = (owned < 0).nonzero().squeeze(1);
    const auto [best, which] = (values.index({free}) - prices).topk(2, 1);
    const Tensor rise = best.select(1, 0) - best.select(1, 1) + 1 / static_cast<double>(count);
    const Tensor bids = at::zeros({free.size(0), count}, values.options())
                            .scatter_(1, which.slice(1, 0, 1), rise.unsqueeze(1));
    const Tensor wanted = (bids > 0).any(0).nonzero().squeeze(1);
    const auto [high, bidder] = bids.index({Slice(), wanted}).max(0);
    prices.index_add_(0, wanted, high);
    owned.index_put_({at::isin(owned, wanted)}, -1);
    owned.index_put_({free.index({bidder})}, wanted);
  }
  return {owned, prices, values.gather(1, owned.unsqueeze(1)).sum()};
}

/// t-SNE's step in place: places (N, 2), velocities, gains; by how likely neighbours are (N, N).
Tensor neighbour_embedding(const Tensor& y, const Tensor& velocity, const Tensor& gains,
                           const Tensor& likely) {
  const Tensor squares = y.square().sum(1);
  const Tensor kernel = 1 / (1 + squares.unsqueeze(1) + squares - 2 * at::mm(y, y.t()));
  kernel.fill_diagonal_(0);
  const Tensor q = (kernel / kernel.sum()).clamp_min(1e-12);
  const Tensor pull = (likely - q) * kernel;
  const Tensor gradient = 4 * (pull.sum(1, /*keepdim=*/true) * y - at::mm(pull, y));
  const Tensor turned = gradient.sign() != velocity.sign();
  gains.copy_(at::where(turned, gains + 0.2, gains * 0.8).clamp_min(0.01));
  velocity.mul_(0.5).sub_(gains * gradient, 100);
  y.add_(velocity);
  y.sub_(y.mean(0));
  return (likely * (likely / q).log()).sum();
}

/// Options' volatilities (N) by Newton's steps on Black's formula, until all are near.
Tensor implied_volatility(const Tensor& prices, const Tensor& spots, const Tensor& strikes,
                          const Tensor& times, const Tensor& rate) {
  const Tensor roots = times.sqrt(), forward = spots * (rate * times).exp();
  const Tensor discount = (-rate * times).exp(), moneyness = (forward / strikes).log();
  Tensor sigma = at::full_like(prices, 0.5);
  for (int step = 0; step < 50; ++step) {
    const Tensor d = moneyness / (sigma * roots) + 0.5 * sigma * roots;
    const Tensor worth =
        discount * (forward * at::special_ndtr(d) - strikes * at::special_ndtr(d - sigma * roots));
    const Tensor vega =
        discount * forward * (-0.5 * d.square()).exp() * (roots / std::sqrt(2 * std::numbers::pi));
    const Tensor error = worth - prices;
    if (error.abs().max().item<double>() < 1e-8) break;
    sigma = (sigma - error / vega.clamp_min(1e-8)).clamp(0.01, 4);
  }
  return sigma;
}

/// Knapsacks (B) of whole items by their weights and values (B, N): the best value, and what is in.
std::tuple<Tensor, Tensor> knapsack(const Tensor& weights, const Tensor& values, int64_t capacity) {
  const int64_t batch = weights.size(0), items = weights.size(1);
  const auto of = [](const Tensor& all, int64_t i) { return all.slice(1, i, i + 1); };
  Tensor best = at::zeros({batch, capacity + 1}, values.options());
  const Tensor rooms = at::arange(capacity + 1, at::kLong);
  Tensors taken;
  for (int64_t i = 0; i < items; ++i) {
    const Tensor left = rooms - of(weights, i);
    const Tensor more = best.gather(1, left.clamp_min(0)) + of(values, i);
    taken.push_back((left >= 0).logical_and(more > best));
    best = at::where(taken.back(), more, best);
  }
  Tensor room = at::full({batch, 1}, capacity, at::kLong);
  const Tensor chosen = at::zeros({batch, items}, at::kBool);
  for (int64_t i = items - 1; i >= 0; --i) {
    const Tensor take = taken[i].gather(1, room);
    of(chosen, i).copy_(take);
    room = room - take * of(weights, i);
  }
  return {best.select(1, -1), chosen};
}

/// Elo's ratings of players (P) and how often each played, in place, by rounds of games (R, G, 2)
/// and their results (R, G). The ten best.
std::tuple<Tensor, Tensor> rating_rounds(const Tensor& ratings, const Tensor& played,
                                         const Tensor& pairs, const Tensor& results) {
  for (int64_t round = 0; round < pairs.size(0); ++round) {
    const Tensor games = pairs[round], one = games.select(1, 0), other = games.select(1, 1);
    const Tensor ours = ratings.index({one}), theirs = ratings.index({other});
    const Tensor expected = 1 / (1 + at::pow(10, (theirs - ours) / 400));
    const Tensor steps = at::where(played.index({games}) < 30, 40.0,
                                   at::where(ratings.index({games}) > 2400, 10.0, 20.0));
    const Tensor off = results[round] - expected;
    ratings.index_add_(0, one, steps.select(1, 0) * off);
    ratings.index_add_(0, other, -steps.select(1, 1) * off);
    played.index_add_(0, games.flatten(), at::ones_like(games).flatten());
  }
  return ratings.topk(10);
}

/// A step of Stein's variational gradients in place: particles (P, D) of a logistic regression's
/// weights, and their squares, for x (N, D) and labels (N).
void stein_step(const Tensor& particles, const Tensor& squares, const Tensor& x,
                const Tensor& labels) {
  const int64_t count = particles.size(0);
  const Tensor off = labels - at::sigmoid(at::mm(particles, x.t()));
  const Tensor score = at::mm(off, x) - particles;
  const Tensor apart = at::cdist(particles, particles).square();
  const Tensor width = apart.median() / std::log(static_cast<double>(count + 1));
  const Tensor kernel = (-apart / width).exp();
  const Tensor pushed = kernel.sum(1, /*keepdim=*/true) * particles - at::mm(kernel, particles);
  const Tensor step = (at::mm(kernel, score) + 2 / width * pushed) / count;
  squares.mul_(0.9).addcmul_(step, step, 0.1);
  particles.addcdiv_(step, squares.sqrt() + 1e-6, 0.01);
}

/// Lovasz's softmax loss of logits (B, C, H, W), over classes that are there.
Tensor lovasz_loss(const Tensor& logits, const Tensor& labels) {
  const int64_t classes = logits.size(1);
  const Tensor likely = logits.softmax(1).movedim(1, -1).reshape({-1, classes}),
               kinds = labels.flatten();
  Tensors losses;
  for (int64_t c = 0; c < classes; ++c) {
    const Tensor mine = (kinds == c).to(likely.dtype());
    if (!mine.any().item<bool>()) continue;
    const auto [errors, order] = (mine - likely.select(1, c)).abs().sort(0, /*descending=*/true);
    const Tensor truth = mine.index({order});
    const Tensor within = truth.sum() - truth.cumsum(0);
    const Tensor jaccard = 1 - within / (truth.sum() + (1 - truth).cumsum(0));
    jaccard.slice(0, 1).copy_(jaccard.slice(0, 1) - jaccard.slice(0, 0, -1));
    losses.push_back(errors.dot(jaccard));
  }
  return at::stack(losses).mean();
}

Instance greedy_boxes_case(const Options& o) {
  const int64_t objects = o.integer("objects"), around = o.integer("around"),
                count = objects * around;
  Draw draw(o);
  const Tensor middle = draw.uniform({objects, 1, 2}, 0, 640),
               half = draw.uniform({objects, 1, 2}, 10, 60);
  const Tensor off = draw.normal({objects, around, 2}),
               grown = draw.uniform({objects, around, 2}, 0.8, 1.2);
  const Tensor middles = (middle + 0.2 * half * off).view({count, 2}),
               halves = (half * grown).view({count, 2});
  const Tensor boxes = at::cat({middles - halves, middles + halves}, 1),
               scores = draw.uniform({count});
  const Tensor kinds = draw.integers({objects, 1}, 4).expand({objects, around}).reshape({count});
  const int64_t kept = greedy_boxes(boxes, scores, kinds).size(0);
  return bounded(
      instance_of(greedy_boxes, boxes, scores, kinds), 28 * count + 8 * kept,
      count * (2 * std::bit_width(static_cast<uint64_t>(count)) + 11) + kept * (kept - 1) / 2 * 13);
}

Instance label_regions_case(const Options& o) {
  const int64_t height = o.integer("height"), width = o.integer("width"),
                least = o.integer("least"), cells = height * width;
  Draw draw(o);
  const Tensor noise = at::avg_pool2d(draw.uniform({1, 1, height + 8, width + 8}), {9, 9}, {1, 1});
  // Each cell sees its neighbours once at least.
  return bounded(instance_of(label_regions, (noise > 0.5).view({height, width}), least), 9 * cells,
                 10 * cells);
}

Instance dynamic_pillars_case(const Options& o) {
  const int64_t count = o.integer("points"), side = o.integer("side"), width = o.integer("width");
  Draw draw(o);
  const Tensor distance = 40 * draw.uniform({count}).square() + 1,
               angle = draw.uniform({count}, -std::numbers::pi, std::numbers::pi);
  const Tensor place =
      at::stack({distance * angle.cos(), distance * angle.sin(), draw.normal({count}) - 1}, 1);
  const Tensor points = at::cat({place, draw.uniform({count, 1})}, 1);
  const Tensor ends = at::tensor({-32, -32, -3, 32, 32, 1}, at::kFloat).view({2, 3});
  const Tensor weight = 0.3 * draw.normal({width, 9}), scale = draw.uniform({width}, 0.5, 1.5);
  const int64_t found =
      (place >= ends[0]).logical_and(place < ends[1]).all(1).sum().item<int64_t>();
  return bounded(
      instance_of(dynamic_pillars, points, ends, weight, scale, 0.1 * draw.normal({width}), side),
      4 * (4 * count + 11 * width + 6 + width * side * side),
      6 * count + found * (30 + width * (18 + 4)));
}

Instance rebuild_phase_case(const Options& o) {
  const int64_t batch = o.integer("batch"), frames = o.integer("frames"), size = o.integer("size"),
                steps = o.integer("steps"), bins = size / 2 + 1, all = batch * bins * frames;
  Draw draw(o);
  const Tensor magnitudes = draw.normal({batch, bins, frames}).exp();
  const Tensor phases = draw.uniform({batch, bins, frames}, -std::numbers::pi, std::numbers::pi);
  const int64_t of_frame = size * (5 * std::bit_width(static_cast<uint64_t>(size)) / 2 + 2);
  return bounded(
      instance_of(rebuild_phase, magnitudes, phases, at::hann_window(size, at::kFloat), steps),
      4 * (2 * all + size + batch * (frames - 1) * (size / 4)),
      batch * frames * (2 * steps + 1) * of_frame + all * (2 * kFunction + 14 * steps));
}

Instance rna_pairs_case(const Options& o) {
  const int64_t batch = o.integer("batch"), length = o.integer("length");
  Draw draw(o);
  constexpr int kNo = -1000;
  const Tensor scores =
      at::tensor({kNo, kNo, kNo, 2, kNo, kNo, 3, kNo, kNo, 3, kNo, 1, 2, kNo, 1, kNo}, at::kInt);
  int64_t additions = 0;
  for (int64_t span = 4; span < length; ++span) additions += (length - span) * (2 * span + 2);
  return bounded(instance_of(rna_pairs, draw.integers({batch, length}, 4), scores.view({4, 4})),
                 8 * batch * length + 64 + 4 * batch * (1 + length * (length + 1) / 2),
                 batch * additions);
}

Instance life_board_case(const Options& o) {
  const int64_t height = o.integer("height"), width = o.integer("width"),
                steps = o.integer("steps");
  Draw draw(o);
  return bounded(instance_of(life_board, draw.integers({height, width}, 2, at::kByte), steps),
                 2 * height * width + 8 * steps, height * width * steps * 12);
}

Instance landmark_update_case(const Options& o) {
  const int64_t marks = o.integer("marks"), seen = o.integer("seen"), size = 3 + 2 * marks;
  Draw draw(o);
  const Tensor places = draw.uniform({marks, 2}, -20, 20).to(at::kDouble),
               known = draw.uniform({marks}) < 0.8;
  const Tensor guess = places + 0.2 * draw.normal({marks, 2}, at::kDouble),
               state = at::cat({at::zeros({3}, at::kDouble), guess.view({-1})}),
               mixed = 0.02 * draw.normal({size, 8}, at::kDouble);
  const Tensor covariance = 0.04 * at::eye(size, at::kDouble) + at::mm(mixed, mixed.t());
  const Tensor ids = draw.integers({seen}, marks);
  const auto chosen = places.index_select(0, ids).unbind(1);
  const Tensor exact =
      at::stack({at::hypot(chosen[0], chosen[1]), at::atan2(chosen[1], chosen[0])}, 1);
  const Tensor observations = exact + at::tensor({0.1, 0.03}) * draw.normal({seen, 2});
  // Some are of something else.
  const Tensor wrong = draw.uniform({seen}) < 0.2;
  observations.select(1, 0).add_(6 * wrong);
  const int64_t used =
      known.index_select(0, ids).logical_and(wrong.logical_not()).sum().item<int64_t>();
  return bounded(instance_of(landmark_update, state, covariance,
                             at::tensor({1.0, 0.2}, at::kDouble), observations, ids, known),
                 8 * (2 * size + 2 * size * size + 2 + 3 * seen) + 2 * marks,
                 used * (6 * size * size + 30 * size) + 8 * size);
}

Instance auction_case(const Options& o) {
  const int64_t count = o.integer("count");
  Draw draw(o);
  // Each person bids once at least.
  return bounded(instance_of(auction, 100 * draw.uniform({count, count}).to(at::kDouble)),
                 8 * (count * count + 2 * count + 1), 3 * count * count);
}

Instance neighbour_embedding_case(const Options& o) {
  const int64_t points = o.integer("points");
  Draw draw(o);
  const Tensor x = draw.normal({points, 8}), near = (-at::cdist(x, x)).exp();
  near.fill_diagonal_(0);
  const Tensor y = draw.normal({points, 2}), velocity = 0.01 * draw.normal({points, 2}),
               gains = draw.uniform({points, 2}, 0.5, 1.5);
  return bounded(updating_instance_of(neighbour_embedding, y, velocity, gains,
                                      (near / near.sum()).clamp_min(1e-12)),
                 4 * (points * points + 12 * points + 1),
                 points * points * (kFunction + 21) + 30 * points);
}

Instance implied_volatility_case(const Options& o) {
  const int64_t options = o.integer("options");
  Draw draw(o);
  const auto made = [&](double low, double high) {
    return draw.uniform({options}, low, high).to(at::kDouble);
  };
  const Tensor spots = made(80, 120), strikes = spots * made(0.8, 1.25), times = made(0.1, 2),
               rate = at::full({}, 0.03, at::kDouble);
  const Tensor forward = spots * (rate * times).exp(), wide = made(0.1, 0.8) * times.sqrt();
  const Tensor d = (forward / strikes).log() / wide + 0.5 * wide;
  const Tensor prices = (-rate * times).exp() *
                        (forward * at::special_ndtr(d) - strikes * at::special_ndtr(d - wide));
  // Two steps at least: one that moves, one that is near.
  return bounded(instance_of(implied_volatility, prices, spots, strikes, times, rate),
                 8 * (5 * options + 1), options * (3 * kFunction + 4 + 2 * (3 * kFunction + 22)));
}

Instance knapsack_case(const Options& o) {
  const int64_t batch = o.integer("batch"), items = o.integer("items"),
                capacity = o.integer("capacity");
  Draw draw(o);
  const Tensor weights = 1 + draw.integers({batch, items}, 50),
               values = draw.integers({batch, items}, 1000);
  return bounded(instance_of(knapsack, weights, values, capacity), batch * (17 * items + 8),
                 batch * items * (capacity * 6 + 2));
}

Instance rating_rounds_case(const Options& o) {
  const int64_t players = o.integer("players"), rounds = o.integer("rounds"),
                games = o.integer("games");
  Draw draw(o);
  const Tensor ratings = (1500 + 200 * draw.normal({players})).to(at::kDouble);
  const Tensor played = draw.integers({players}, 60),
               pairs = draw.integers({rounds, games, 2}, players);
  const Tensor results = draw.integers({rounds, games}, 3).to(at::kDouble) / 2;
  return bounded(updating_instance_of(rating_rounds, ratings, played, pairs, results),
                 32 * players + 24 * rounds * games + 160, rounds * games * (kFunction + 16));
}

Instance stein_step_case(const Options& o) {
  const int64_t count = o.integer("particles"), samples = o.integer("samples"),
                width = o.integer("width");
  Draw draw(o);
  const Tensor x = draw.normal({samples, width}), start = 0.3 * draw.normal({count, width}),
               squares = draw.uniform({count, width});
  const Tensor labels = draw.integers({samples}, 2).to(at::kFloat);
  return bounded(updating_instance_of(stein_step, start, squares, x, labels),
                 4 * (4 * count * width + samples * (width + 1)),
                 count * (samples * (4 * width + kFunction + 1) +
                          count * (6 * width + kFunction + 5) + 14 * width));
}

Instance lovasz_loss_case(const Options& o) {
  const int64_t batch = o.integer("batch"), classes = o.integer("classes"),
                height = o.integer("height"), width = o.integer("width"),
                pixels = batch * height * width;
  Draw draw(o);
  // Some classes are seldom there.
  const Tensor labels = (draw.uniform({batch, height, width}).pow(3) * classes).to(at::kLong);
  const int64_t there = distinct(labels), log = std::bit_width(static_cast<uint64_t>(pixels));
  return bounded(instance_of(lovasz_loss, draw.normal({batch, classes, height, width}), labels),
                 4 * pixels * classes + 8 * pixels + 4,
                 pixels * (classes * (kFunction + 4) + there * (2 * log + 12)));
}

}  // namespace

std::vector<Workload> drifter_cases() {
  const auto rows = [](const char* count) { return Axis{"height", count, "21", "rows"}; };
  const auto columns = [](const char* count) { return Axis{"width", count, "37", "columns"}; };
  return {
      {"greedy_boxes_f32",
       "non-maximum suppression, one best box after another",
       {{"objects", "80", "7", "objects"}, {"around", "8", "5", "boxes of an object"}},
       greedy_boxes_case},
      {"label_regions_i64",
       "a mask's connected regions, grown until nothing changes",
       {rows("96"), columns("128"), {"least", "24", "5", "cells of a region"}},
       label_regions_case},
      {"dynamic_pillars_f32",
       "a lidar's points by pillars on a map",
       {{"points", "20000", "203", "points"},
        {"side", "80", "11", "pillars of the map's side"},
        {"width", "32", "5", "features"}},
       dynamic_pillars_case,
       kSums},
      {"rebuild_phase_f32",
       "sounds of magnitudes by Griffin and Lim",
       {{"batch", "2", "1", "sounds"},
        {"frames", "64", "9", "of a sound"},
        {"size", "512", "16", "samples of a frame"},
        {"steps", "8", "2", "steps"}},
       rebuild_phase_case,
       10 * kSums},
      {"rna_pairs_i32",
       "RNA's folding by spans",
       {{"batch", "64", "3", "strands"}, {"length", "40", "13", "letters"}},
       rna_pairs_case},
      {"life_board_u8",
       "Conway's life until it stands still",
       {rows("192"), columns("256"), {"steps", "48", "5", "generations at most"}},
       life_board_case},
      {"landmark_update_f64",
       "a robot among landmarks by an extended Kalman filter",
       {{"marks", "96", "7", "landmarks"}, {"seen", "16", "5", "observations"}},
       landmark_update_case,
       kSums},
      {"auction_f64",
       "objects for persons by an auction that goes on until each has one",
       {{"count", "48", "7", "persons"}},
       auction_case},
      {"implied_volatility_f64",
       "options' volatilities by Newton's steps, until all are near",
       {{"options", "8192", "37", "options"}},
       implied_volatility_case,
       kSums},
      {"knapsack_i64",
       "what to put into knapsacks, and back through the choices",
       {{"batch", "64", "5", "knapsacks"},
        {"items", "40", "7", "to choose from"},
        {"capacity", "400", "61", "of a knapsack"}},
       knapsack_case},
      {"rating_rounds_f64",
       "Elo's ratings by rounds of games, in place",
       {{"players", "4096", "37", "players"},
        {"rounds", "32", "3", "rounds"},
        {"games", "512", "19", "of a round"}},
       rating_rounds_case,
       kTails},
      {"stein_step_f32",
       "a step of Stein's variational gradients, in place",
       {{"particles", "384", "19", "of weights"},
        {"samples", "512", "37", "samples"},
        {"width", "32", "5", "of a sample"}},
       stein_step_case,
       10 * kSums},
      {"lovasz_loss_f32",
       "Lovasz's loss of a segmentation, class by class",
       {{"batch", "1", "2", "pictures"},
        {"classes", "12", "5", "classes"},
        rows("96"),
        columns("96")},
       lovasz_loss_case,
       kSums},
      {"neighbour_embedding_f32",
       "a step of t-SNE, in place",
       {{"points", "640", "37", "points"}},
       neighbour_embedding_case,
       10 * kSums},
  };
}

}  // namespace graft::workloads::wild
