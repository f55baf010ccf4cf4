// Newcomers: programs of many fields, from cameras and hashes to survival and boxes.

#include <ATen/ATen.h>

#include <bit>
#include <cmath>
#include <numbers>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

using at::Tensor;

/// A camera's raw numbers of 10 bits (H, W), in Bayer's pattern RGGB, to a picture's bytes
/// (3, H, W): gains (2, 1, 2), bilinear colours, a matrix and a table of 1024 bytes.
Tensor demosaic(const Tensor& raw, const Tensor& gains, const Tensor& matrix, const Tensor& table) {
  const int64_t h = raw.size(0), w = raw.size(1);
  const Tensor lit = (raw.to(gains.scalar_type()) - 64).clamp_min(0);
  const Tensor balanced = (lit.view({h / 2, 2, w / 2, 2}) * gains).view({1, h, w});
  const Tensor padded = at::reflection_pad2d(balanced, {1, 1, 1, 1}).squeeze(0);
  const auto from = [&](int64_t y, int64_t x) {
    return padded.slice(0, 1 + y, y + h, 2).slice(1, 1 + x, x + w, 2);
  };
  const Tensor picture = at::empty({3, h, w}, gains.options());
  const auto to = [&](int64_t colour, int64_t y, int64_t x) {
    return picture.select(0, colour).slice(0, y, h, 2).slice(1, x, w, 2);
  };
  to(0, 0, 0).copy_(from(0, 0));
  to(0, 0, 1).copy_((from(0, 0) + from(0, 2)) / 2);
  to(0, 1, 0).copy_((from(0, 0) + from(2, 0)) / 2);
  to(0, 1, 1).copy_((from(0, 0) + from(0, 2) + from(2, 0) + from(2, 2)) / 4);
  to(1, 0, 0).copy_((from(-1, 0) + from(1, 0) + from(0, -1) + from(0, 1)) / 4);
  to(1, 0, 1).copy_(from(0, 1));
  to(1, 1, 0).copy_(from(1, 0));
  to(1, 1, 1).copy_((from(0, 1) + from(2, 1) + from(1, 0) + from(1, 2)) / 4);
  to(2, 0, 0).copy_((from(-1, -1) + from(-1, 1) + from(1, -1) + from(1, 1)) / 4);
  to(2, 0, 1).copy_((from(-1, 1) + from(1, 1)) / 2);
  to(2, 1, 0).copy_((from(1, -1) + from(1, 1)) / 2);
  to(2, 1, 1).copy_(from(1, 1));
  const Tensor colours = at::einsum("dc,chw->dhw", {matrix, picture});
  return table.index({colours.round().clamp(0, 1023).to(at::kLong)});
}

/// A number's 21 bits, two zeros after each.
Tensor spread_bits(Tensor x) {
  x = x.bitwise_or(x.bitwise_left_shift(32)).bitwise_and(int64_t{0x1f00000000ffff});
  x = x.bitwise_or(x.bitwise_left_shift(16)).bitwise_and(int64_t{0x1f0000ff0000ff});
  x = x.bitwise_or(x.bitwise_left_shift(8)).bitwise_and(int64_t{0x100f00f00f00f00f});
  x = x.bitwise_or(x.bitwise_left_shift(4)).bitwise_and(int64_t{0x10c30c30c30c30c3});
  return x.bitwise_or(x.bitwise_left_shift(2)).bitwise_and(int64_t{0x1249249249249249});
}

/// Points (N, 3) along Morton's curve, as a tree of boxes is built: their order, their codes, and
/// how many bits two neighbours' codes need from where they differ.
std::tuple<Tensor, Tensor, Tensor> morton_order(const Tensor& points) {
  const Tensor low = points.amin(0), high = points.amax(0);
  const Tensor cell = ((points - low) / (high - low) * 2097151).to(at::kLong);
  const Tensor spread = spread_bits(cell);
  const Tensor code = spread.select(1, 0)
                          .bitwise_left_shift(2)
                          .bitwise_or(spread.select(1, 1).bitwise_left_shift(1))
                          .bitwise_or(spread.select(1, 2));
  const auto [sorted, order] = at::sort(code, /*stable=*/true, 0, /*descending=*/false);
  Tensor rest = sorted.slice(0, 1).bitwise_xor(sorted.slice(0, 0, -1));
  Tensor bits = at::zeros_like(rest);
  for (int64_t step = 32; step > 0; step /= 2) {
    const Tensor high_part = rest.bitwise_right_shift(step), more = high_part > 0;
    bits = bits + more.to(at::kLong) * step;
    rest = at::where(more, high_part, rest);
  }
  return {order, sorted, bits + rest};
}

/// Many poles on carts (N, 4) that are pushed left or right (N), in place; those that fell, or
/// stood for long, begin afresh. Rewards, and which are over.
std::tuple<Tensor, Tensor> cart_pole(const Tensor& state, const Tensor& age, const Tensor& actions,
                                     const Tensor& fresh) {
  constexpr double kTime = 0.02, kPole = 0.05, kMass = 1.1;
  const auto s = state.unbind(1);
  const Tensor force = at::where(actions == 1, 10.0, -10.0);
  const Tensor sine = s[2].sin(), cosine = s[2].cos();
  const Tensor pushed = (force + kPole * s[3].square() * sine) / kMass;
  const Tensor turning =
      (9.8 * sine - cosine * pushed) / (0.5 * (4.0 / 3 - 0.1 * cosine.square() / kMass));
  const Tensor moving = pushed - kPole * turning * cosine / kMass;
  const Tensor next = at::stack(
      {s[0] + kTime * s[1], s[1] + kTime * moving, s[2] + kTime * s[3], s[3] + kTime * turning}, 1);
  age.add_(1);
  const Tensor fell =
      (next.select(1, 0).abs() > 2.4).logical_or(next.select(1, 2).abs() > 0.20943951);
  const Tensor over = fell.logical_or(age >= 500);
  state.copy_(at::where(over.unsqueeze(1), fresh, next));
  age.masked_fill_(over, 0);
  return {fell.logical_not().to(state.dtype()), over};
}

/// MurmurHash's last mixing of 64 bits.
Tensor mixed_bits(Tensor x) {
  const auto folded = [](const Tensor& t) {
    return t.bitwise_xor(t.bitwise_right_shift(33).bitwise_and(0x7fffffff));
  };
  x = folded(x) * static_cast<int64_t>(0xff51afd7ed558ccdULL);
  x = folded(x) * static_cast<int64_t>(0xc4ceb9fe1a85ec53ULL);
  return folded(x);
}

/// A Bloom filter of bits (M), a power of two, to which items (N) are added in place: which of
/// others (N) it knows, and about how many items are in it.
std::tuple<Tensor, Tensor> bloom_filter(const Tensor& bits, const Tensor& added,
                                        const Tensor& asked) {
  const int64_t size = bits.size(0), hashes = 7;
  const auto places = [&](const Tensor& items) {
    const Tensor first = mixed_bits(items),
                 second = mixed_bits(items.bitwise_xor(0x5bd1e995)).bitwise_or(1);
    const Tensor many = first.unsqueeze(1) + at::arange(hashes, at::kLong) * second.unsqueeze(1);
    return many.bitwise_and(size - 1);
  };
  bits.index_fill_(0, places(added).flatten(), true);
  const Tensor known = bits.index({places(asked)}).all(1);
  const Tensor share = bits.sum() / size;
  return {known, -(static_cast<double>(size) / hashes) * at::log1p(-share)};
}

Tensor variation_of(const Tensor& rows) {
  const Tensor mean = rows.mean(-1, /*keepdim=*/true);
  return (rows - mean).square().mean(-1).sqrt() / mean.squeeze(-1);
}

/// An interval (2) of the coefficient of variation of x (N), by resamples (R, N): Efron's, with
/// corrections of bias and acceleration; `scores` (2) of the levels. Also both corrections.
std::tuple<Tensor, Tensor, Tensor> bootstrap_interval(const Tensor& x, const Tensor& resamples,
                                                      const Tensor& scores) {
  const int64_t others = x.size(0) - 1;
  const Tensor whole = variation_of(x), drawn = variation_of(x.index({resamples}));
  const Tensor bias = at::special_ndtri((drawn < whole).to(x.dtype()).mean());
  const Tensor mean = (x.sum() - x) / others;
  const Tensor variance = (x.square().sum() - x.square()) / others - mean.square();
  const Tensor without = variance.sqrt() / mean, apart = without.mean() - without;
  const Tensor acceleration = apart.pow(3).sum() / (6 * apart.square().sum().pow(1.5));
  const Tensor z = bias + scores;
  const Tensor levels = at::special_ndtr(bias + z / (1 - acceleration * z));
  return {at::quantile(drawn, levels), bias, acceleration};
}

Instance demosaic_case(const Options& o) {
  const int64_t height = 2 * o.integer("high"), width = 2 * o.integer("wide"),
                pixels = height * width;
  Draw draw(o);
  const Tensor gains = at::tensor({1.9, 1.0, 1.0, 1.6}, at::kFloat).view({2, 1, 2});
  const Tensor matrix =
      at::tensor({1.61, -0.42, -0.19, -0.27, 1.48, -0.21, 0.03, -0.57, 1.54}, at::kFloat)
          .view({3, 3});
  const Tensor level = at::linspace(0, 1, 1024, at::kFloat);
  const Tensor coded =
      at::where(level <= 0.0031308, 12.92 * level, 1.055 * level.pow(1 / 2.4) - 0.055);
  return bounded(instance_of(demosaic, draw.integers({height, width}, 1024, at::kShort), gains,
                             matrix, (255 * coded + 0.5).to(at::kByte)),
                 5 * pixels + 4 * 13 + 1024, pixels * (3 + 5 + 15 + 9));
}

Instance morton_order_case(const Options& o) {
  const int64_t count = o.integer("points");
  Draw draw(o);
  return bounded(
      instance_of(morton_order, draw.normal({count, 3})), (12 + 3 * 8) * count - 8,
      count * (15 + 3 * 15 + 4 + 6 * 5 + 2 * std::bit_width(static_cast<uint64_t>(count))));
}

Instance cart_pole_case(const Options& o) {
  const int64_t carts = o.integer("carts");
  Draw draw(o);
  const auto states = [&] { return draw.uniform({carts, 4}, -0.05, 0.05); };
  const Tensor state = states(), age = draw.integers({carts}, 100);
  return bounded(updating_instance_of(cart_pole, state, age, draw.integers({carts}, 2), states()),
                 carts * (32 + 16 + 8 + 5), carts * (2 * kFunction + 40));
}

Instance bloom_filter_case(const Options& o) {
  const int64_t size = int64_t{1} << o.integer("log_bits"), items = o.integer("items");
  Draw draw(o);
  const Tensor bits = draw.uniform({size}) < 0.05;
  const Tensor added = draw.integers({items}, int64_t{1} << 40);
  const Tensor asked = at::where(draw.uniform({items}) < 0.5, added.flip(0),
                                 draw.integers({items}, int64_t{1} << 40));
  return bounded(updating_instance_of(bloom_filter, bits, added, asked), 17 * items + size + 4,
                 2 * items * (25 + 7 * 4) + size);
}

Instance bootstrap_interval_case(const Options& o) {
  const int64_t count = o.integer("count"), resamples = o.integer("resamples");
  Draw draw(o);
  const Tensor x = -(1 - draw.uniform({count}).to(at::kDouble)).log();
  const Tensor scores = at::tensor({-1.959963984540054, 1.959963984540054}, at::kDouble);
  return bounded(
      instance_of(bootstrap_interval, x, draw.integers({resamples, count}, count), scores),
      8 * (count + resamples * count + 2 + 4), resamples * count * 4 + count * 14);
}

/// A step of expectation and maximisation for a mixture of Gaussians with diagonal covariances, in
/// place: weights (K), means and variances (K, D) for x (N, D). How likely x was.
Tensor mixture_step(const Tensor& weights, const Tensor& means, const Tensor& variances,
                    const Tensor& x) {
  const double width = static_cast<double>(x.size(1));
  const Tensor precise = variances.reciprocal(), squares = x.square();
  const Tensor far = at::mm(squares, precise.t()) - 2 * at::mm(x, (means * precise).t()) +
                     (means.square() * precise).sum(1);
  const Tensor joint =
      weights.log() - 0.5 * (far + variances.log().sum(1) + width * std::log(2 * std::numbers::pi));
  const Tensor whole = joint.logsumexp(1, /*keepdim=*/true);
  const Tensor share = (joint - whole).exp();
  const Tensor count = share.sum(0) + 1e-10;
  weights.copy_(count / x.size(0));
  means.copy_(at::mm(share.t(), x) / count.unsqueeze(1));
  variances.copy_(at::mm(share.t(), squares) / count.unsqueeze(1) - means.square() + 1e-6);
  return whole.mean();
}

/// A step of Cox's regression with an L1 penalty: hazards' weights (D), in place, for people (N, D)
/// and their times (N), which ended by an event or not. The partial likelihood's loss.
Tensor hazard_step(const Tensor& weights, const Tensor& people, const Tensor& times,
                   const Tensor& events) {
  constexpr double kRate = 0.1, kPenalty = 0.01;
  const Tensor order = times.argsort(0, /*descending=*/true);
  const Tensor x = people.index_select(0, order);
  const Tensor event = events.index_select(0, order).to(x.dtype());
  const Tensor risk = at::mv(x, weights);
  const Tensor at_risk = risk.logcumsumexp(0);
  const Tensor count = event.sum();
  const Tensor loss = -((risk - at_risk) * event).sum() / count;
  const Tensor hazard = (event * (-at_risk).exp()).flip(0).cumsum(0).flip(0);
  const Tensor gradient = at::mv(x.t(), risk.exp() * hazard - event) / count;
  const Tensor moved = weights - kRate * gradient;
  weights.copy_(moved.sign() * (moved.abs() - kRate * kPenalty).clamp_min(0));
  return loss;
}

/// C51's loss: logits of returns at atoms (B, A, Z), actions, rewards and ends (B), and the next
/// states' logits by the network and its slow copy. Also each sample's (B), its priority.
std::tuple<Tensor, Tensor> categorical_loss(const Tensor& logits, const Tensor& actions,
                                            const Tensor& rewards, const Tensor& ended,
                                            const Tensor& next, const Tensor& slow_next,
                                            const Tensor& atoms) {
  const int64_t batch = logits.size(0), count = atoms.size(0);
  const auto of_action = [&](const Tensor& all, const Tensor& action) {
    return all.gather(1, action.view({batch, 1, 1}).expand({batch, 1, count})).squeeze(1);
  };
  const Tensor best = (at::softmax(next, -1) * atoms).sum(-1).argmax(1);
  const Tensor likely = of_action(at::softmax(slow_next, -1), best);
  const Tensor left = ended.logical_not().to(atoms.dtype()).unsqueeze(1);
  const Tensor moved = (rewards.unsqueeze(1) + 0.99 * left * atoms).clamp(-10, 10);
  const Tensor place = (moved + 10) / (20.0 / static_cast<double>(count - 1));
  const Tensor lower = place.floor().to(at::kLong).clamp(0, count - 1),
               upper = (lower + 1).clamp_max(count - 1);
  const Tensor above = place - lower;
  const Tensor target = at::zeros_like(likely);
  const Tensor start = at::arange(batch, at::kLong).unsqueeze(1) * count;
  target.view(-1).index_add_(0, (lower + start).view(-1), (likely * (1 - above)).view(-1));
  target.view(-1).index_add_(0, (upper + start).view(-1), (likely * above).view(-1));
  const Tensor each = -(target * at::log_softmax(of_action(logits, actions), -1)).sum(-1);
  return {each.mean(), each};
}

/// Mean precisions and areas under curves of classes (C), by scores and labels (N, C).
std::tuple<Tensor, Tensor> average_precision(const Tensor& scores, const Tensor& labels) {
  const int64_t count = scores.size(0);
  const Tensor order = scores.argsort(0, /*descending=*/true);
  const Tensor hit = labels.gather(0, order).to(scores.dtype());
  const Tensor found = hit.cumsum(0), present = found.select(0, -1);
  const Tensor place = at::arange(1, count + 1, scores.options()).unsqueeze(1);
  const Tensor precision = (found / place * hit).sum(0) / present.clamp_min(1);
  const Tensor ranks = (hit * (count + 1 - place)).sum(0);
  const Tensor absent = count - present;
  const Tensor area = (ranks - present * (present + 1) / 2) / (present * absent).clamp_min(1);
  return {precision, area};
}

/// SOLOv2's suppression of instances by a matrix: masks (N, H, W), classes and scores (N). Scores
/// of the best first, what they were before, and which stay.
std::tuple<Tensor, Tensor, Tensor> matrix_suppression(const Tensor& masks, const Tensor& classes,
                                                      const Tensor& scores) {
  const Tensor seen = masks > 0.5;
  const Tensor area = seen.sum({1, 2}).to(masks.dtype());
  const Tensor sure = (masks * seen).sum({1, 2}) / area.clamp_min(1);
  const auto [best, order] = (scores * sure).sort(0, /*descending=*/true);
  const Tensor flat = seen.index_select(0, order).flatten(1).to(masks.dtype());
  const Tensor sizes = area.index_select(0, order), kind = classes.index_select(0, order);
  const Tensor shared = at::mm(flat, flat.t());
  const Tensor overlap = shared / (sizes.unsqueeze(1) + sizes - shared).clamp_min(1);
  const Tensor same = (kind.unsqueeze(1) == kind).to(masks.dtype());
  const Tensor decayed = (overlap * same).triu(1);
  const Tensor most = decayed.amax(0).unsqueeze(1);
  const Tensor factor = (-2 * (decayed.square() - most.square())).exp().amin(0);
  const Tensor updated = best * factor;
  return {updated, best, updated >= 0.05};
}

Instance mixture_step_case(const Options& o) {
  const int64_t count = o.integer("count"), width = o.integer("width"), kinds = o.integer("kinds");
  Draw draw(o);
  const Tensor centres = 2 * draw.normal({kinds, width}, at::kDouble);
  const Tensor x = centres.index_select(0, draw.integers({count}, kinds)) +
                   draw.normal({count, width}, at::kDouble);
  const Tensor means = centres + draw.normal({kinds, width}, at::kDouble);
  return bounded(updating_instance_of(
                     mixture_step, at::full({kinds}, 1 / static_cast<double>(kinds), x.options()),
                     means, at::ones_like(means), x),
                 8 * (x.numel() + 4 * means.numel() + 2 * kinds + 1),
                 count * (kinds * (8 * width + 2 * kFunction + 8) + width));
}

Instance hazard_step_case(const Options& o) {
  const int64_t people = o.integer("people"), width = o.integer("width");
  Draw draw(o);
  const Tensor x = draw.normal({people, width}, at::kDouble);
  const Tensor times = draw.uniform({people}, 0.1, 10).to(at::kDouble);
  return bounded(
      updating_instance_of(hazard_step, 0.1 * draw.normal({width}, at::kDouble), x, times,
                           draw.uniform({people}) < 0.7),
      8 * (x.numel() + people + 2 * width + 1) + people,
      people * (4 * width + 2 * std::bit_width(static_cast<uint64_t>(people)) + 4 * kFunction + 9));
}

Instance categorical_loss_case(const Options& o) {
  const int64_t batch = o.integer("batch"), actions = o.integer("actions"), atoms = 51;
  Draw draw(o);
  const auto logits = [&] { return draw.normal({batch, actions, atoms}); };
  const Tensor now = logits(), next = logits(), slow = logits();
  const Tensor taken = draw.integers({batch}, actions), rewards = draw.normal({batch}),
               ended = draw.uniform({batch}) < 0.1;
  return bounded(instance_of(categorical_loss, now, taken, rewards, ended, next, slow,
                             at::linspace(-10, 10, atoms, at::kFloat)),
                 // of two only the rows of one action
                 4 * batch * atoms * (actions + 2) + batch * (8 + 4 + 1 + 4) + 4 * (atoms + 1),
                 batch * atoms * (actions * (kFunction + 4) + 2 * kFunction + 22));
}

Instance average_precision_case(const Options& o) {
  const int64_t samples = o.integer("samples"), classes = o.integer("classes"),
                all = samples * classes;
  Draw draw(o);
  const Tensor labels = draw.uniform({samples, classes}) < 0.2;
  const Tensor scores = draw.normal({samples, classes}) + labels.to(at::kFloat);
  return bounded(instance_of(average_precision, scores, labels), 5 * all + 8 * classes,
                 all * (2 * std::bit_width(static_cast<uint64_t>(samples)) + 7));
}

Instance matrix_suppression_case(const Options& o) {
  const int64_t count = o.integer("instances"), height = o.integer("height"),
                width = o.integer("width"), all = count * height * width;
  Draw draw(o);
  // Discs, soft at their rims.
  const Tensor down = at::arange(height, at::kFloat).view({height, 1}) / height,
               across = at::arange(width, at::kFloat) / width;
  const Tensor y = draw.uniform({count, 1, 1}), x = draw.uniform({count, 1, 1}),
               radius = draw.uniform({count, 1, 1}, 0.1, 0.4);
  const Tensor masks =
      at::sigmoid(20 * (radius - ((down - y).square() + (across - x).square()).sqrt()));
  return bounded(instance_of(matrix_suppression, masks, draw.integers({count}, 4),
                             draw.uniform({count}, 0.1, 1)),
                 4 * all + count * (8 + 4 + 9),
                 4 * all + 2 * count * all + count * count * (9 + kFunction));
}

}  // namespace

std::vector<Workload> newcomer_cases() {
  return {
      {"demosaic_i16",
       "a camera's raw numbers to a picture's bytes",
       {{"high", "270", "11", "pairs of rows"}, {"wide", "480", "19", "pairs of columns"}},
       demosaic_case,
       // a number that is rounded otherwise is up to four bytes away in the table
       4 * 1.01 / 255},
      {"morton_order_i64",
       "points along Morton's curve, and where neighbours' codes differ",
       {{"points", "65536", "203", "points"}},
       morton_order_case},
      {"cart_pole_step_f32",
       "a step of many poles on carts, in place",
       {{"carts", "512", "37", "carts"}},
       cart_pole_case,
       kTails},
      {"bloom_filter_i64",
       "items added to a Bloom filter, in place, and others looked up",
       {{"log_bits", "22", "10", "logarithm of its bits' number"},
        {"items", "65536", "67", "added, and asked for"}},
       bloom_filter_case,
       kTails},
      {"bootstrap_interval_f64",
       "Efron's interval of a coefficient of variation",
       {{"count", "512", "37", "numbers"}, {"resamples", "4000", "61", "resamples"}},
       bootstrap_interval_case,
       kSums},
      {"mixture_step_f64",
       "a mixture of Gaussians by expectation and maximisation, in place",
       {{"count", "4096", "67", "samples"},
        {"width", "16", "5", "of a sample"},
        {"kinds", "24", "3", "Gaussians"}},
       mixture_step_case,
       kSums},
      {"hazard_step_f64",
       "a step of Cox's regression with an L1 penalty, in place",
       {{"people", "2048", "67", "people"}, {"width", "32", "5", "of a person"}},
       hazard_step_case,
       kSums},
      {"categorical_loss_f32",
       "C51's loss over distributions of returns",
       {{"batch", "32", "11", "samples"}, {"actions", "6", "3", "actions"}},
       categorical_loss_case,
       kSums},
      {"average_precision_f32",
       "classes' mean precisions and areas under their curves",
       {{"samples", "1024", "67", "samples"}, {"classes", "64", "5", "classes"}},
       average_precision_case,
       kSums},
      {"matrix_suppression_f32",
       "SOLOv2's suppression of instances by a matrix",
       {{"instances", "96", "13", "masks"},
        {"height", "56", "11", "rows"},
        {"width", "72", "13", "columns"}},
       matrix_suppression_case,
       kSums},
  };
}

}  // namespace graft::workloads::wild
