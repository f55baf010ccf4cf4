// Models: parts of models, optimizers, quantisers and losses of recent papers.

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

/// RWKV-7's mixing (the generalised delta rule) of r, k, v, key to remove, its rate, and w, the
/// decays' logarithms (B, T, H, D): each head has a matrix as its state.
at::Tensor delta_rule(const at::Tensor& r, const at::Tensor& w, const at::Tensor& k,
                      const at::Tensor& v, const at::Tensor& removal, const at::Tensor& rate) {
  const at::Tensor decay = at::exp(-at::exp(w));
  const at::Tensor unit = removal / removal.norm(2, {-1}, /*keepdim=*/true).clamp_min(1e-12);
  const at::Tensor a = -unit, b = unit * rate;
  const int64_t width = r.size(3);
  at::Tensor state = at::zeros({r.size(0), r.size(2), width, width}, r.options());
  at::Tensor out = at::empty_like(v);
  for (int64_t t = 0; t < r.size(1); ++t) {
    const at::Tensor removed =
        at::matmul(at::matmul(state, a.select(1, t).unsqueeze(-1)), b.select(1, t).unsqueeze(-2));
    const at::Tensor added = at::matmul(v.select(1, t).unsqueeze(-1), k.select(1, t).unsqueeze(-2));
    state = state * decay.select(1, t).unsqueeze(-2) + removed + added;
    out.select(1, t).copy_(at::matmul(state, r.select(1, t).unsqueeze(-1)).squeeze(-1));
  }
  return out;
}

/// A Kolmogorov-Arnold layer: x (B, I) through cubic B-splines over each feature's knots (I, 12) by
/// Cox and de Boor's recursion; weights (O, I), spline weights (O, I, 8) and their scales (O, I).
at::Tensor spline_layer(const at::Tensor& x, const at::Tensor& knots, const at::Tensor& weight,
                        const at::Tensor& splines, const at::Tensor& scales) {
  const at::Tensor u = x.unsqueeze(-1);
  at::Tensor bases =
      (u >= knots.slice(1, 0, -1)).logical_and(u < knots.slice(1, 1)).to(x.scalar_type());
  for (int64_t k = 1; k <= 3; ++k) {
    const at::Tensor first = knots.slice(1, 0, -(k + 1)), last = knots.slice(1, k + 1);
    const at::Tensor rising = (u - first) / (knots.slice(1, k, -1) - first);
    const at::Tensor falling = (last - u) / (last - knots.slice(1, 1, -k));
    bases = rising * bases.slice(2, 0, -1) + falling * bases.slice(2, 1);
  }
  const at::Tensor scaled = (splines * scales.unsqueeze(-1)).view({weight.size(0), -1});
  return at::mm(at::silu(x), weight.t()) + at::mm(bases.reshape({x.size(0), -1}), scaled.t());
}

/// S4D's convolution kernel (H, L) of states (H, N) with complex rates, written as pairs: their
/// real parts' logarithms and imaginary parts, C's two parts, and the logarithms of steps (H).
at::Tensor diagonal_kernel(const at::Tensor& log_step, const at::Tensor& log_real,
                           const at::Tensor& imaginary, const at::Tensor& c_real,
                           const at::Tensor& c_imaginary, int64_t length) {
  const at::Tensor step = log_step.exp().unsqueeze(1), real = -log_real.exp();
  const at::Tensor zr = real * step, zi = imaginary * step;
  // c (exp(z) - 1) / a
  const at::Tensor er = zr.exp() * zi.cos() - 1, ei = zr.exp() * zi.sin();
  const at::Tensor square = real.square() + imaginary.square();
  const at::Tensor qr = (er * real + ei * imaginary) / square;
  const at::Tensor qi = (ei * real - er * imaginary) / square;
  const at::Tensor cr = c_real * qr - c_imaginary * qi, ci = c_real * qi + c_imaginary * qr;
  const at::Tensor time = at::arange(length, log_step.options());
  const at::Tensor size = (zr.unsqueeze(-1) * time).exp(), angle = zi.unsqueeze(-1) * time;
  return 2 * (size * (cr.unsqueeze(-1) * angle.cos() - ci.unsqueeze(-1) * angle.sin())).sum(1);
}

/// Schedule-free AdamW over lists by foreach operators: y, where gradients are taken, z, and second
/// moments. The step is the tenth.
void schedule_free_adamw(const Tensors& y, const Tensors& gradients, const Tensors& z,
                         const Tensors& second) {
  constexpr double kRate = 2e-3, kMix = 0.1;  // 1 / 10: the newest z's weight in the average
  at::_foreach_mul_(second, 0.999);
  at::_foreach_addcmul_(second, gradients, gradients, 0.001);
  const Tensors below = at::_foreach_div(second, 0.00995512);  // 1 - 0.999^10
  at::_foreach_sqrt_(below);
  at::_foreach_add_(below, 1e-8);
  const Tensors update = at::_foreach_div(gradients, below);
  at::_foreach_add_(update, y, 0.01);
  at::_foreach_lerp_(y, z, kMix);
  at::_foreach_add_(y, update, kRate * (0.9 * (1 - kMix) - 1));
  at::_foreach_sub_(z, update, kRate);
}

/// Connectionist temporal classification's loss of each sequence, forward: logits (T, B, V) with
/// the blank as 0, labels (B, L) and how many of them count (B). Also the mean over labels.
std::tuple<at::Tensor, at::Tensor> ctc_forward(const at::Tensor& logits, const at::Tensor& labels,
                                               const at::Tensor& lengths) {
  constexpr double kNever = -1e30;
  const int64_t steps = logits.size(0), batch = labels.size(0), states = 2 * labels.size(1) + 1;
  at::Tensor extended = at::zeros({batch, states}, labels.options());
  extended.slice(1, 1, std::numeric_limits<int64_t>::max(), 2).copy_(labels);
  const at::Tensor emitted =
      at::log_softmax(logits, -1).gather(2, extended.unsqueeze(0).expand({steps, batch, states}));
  const at::Tensor later = extended.slice(1, 2);
  const at::Tensor skips = at::constant_pad_nd(
      (later != 0).logical_and(later != extended.slice(1, 0, -2)), {2, 0}, false);
  at::Tensor alpha = at::full({batch, states}, kNever, logits.options());
  alpha.slice(1, 0, 2).copy_(emitted.select(0, 0).slice(1, 0, 2));
  for (int64_t t = 1; t < steps; ++t) {
    const at::Tensor one = at::constant_pad_nd(alpha, {1, 0}, kNever).slice(1, 0, -1);
    const at::Tensor two = at::constant_pad_nd(alpha, {2, 0}, kNever).slice(1, 0, -2);
    alpha = at::logsumexp(at::stack({alpha, one, at::where(skips, two, kNever)}), {0}) +
            emitted.select(0, t);
  }
  const at::Tensor ends = at::stack({2 * lengths, 2 * lengths - 1}, 1);
  const at::Tensor loss = -at::logsumexp(alpha.gather(1, ends), {1});
  return {loss, (loss / lengths).mean()};
}

/// CLIP's loss of paired embeddings (B, D), and its gradients by both and by the scale's logarithm
/// (0-dim).
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> contrastive(
    const at::Tensor& images, const at::Tensor& texts, const at::Tensor& log_scale) {
  const at::Tensor scale = log_scale.exp();
  const at::Tensor image_norm = images.norm(2, {1}, /*keepdim=*/true),
                   text_norm = texts.norm(2, {1}, /*keepdim=*/true);
  const at::Tensor a = images / image_norm, b = texts / text_norm;
  const at::Tensor logits = scale * at::mm(a, b.t());
  const at::Tensor by_row = at::log_softmax(logits, 1), by_column = at::log_softmax(logits, 0);
  const at::Tensor loss = -0.5 * (by_row.diagonal().mean() + by_column.diagonal().mean());
  const double count = static_cast<double>(images.size(0));
  const at::Tensor gradient = (by_row.exp() + by_column.exp()) / (2 * count);
  gradient.diagonal().sub_(1 / count);
  const at::Tensor by_a = scale * at::mm(gradient, b), by_b = scale * at::mm(gradient.t(), a);
  const at::Tensor by_images = (by_a - a * (a * by_a).sum(1, /*keepdim=*/true)) / image_norm;
  const at::Tensor by_texts = (by_b - b * (b * by_b).sum(1, /*keepdim=*/true)) / text_norm;
  return {loss, by_images, by_texts, (gradient * logits).sum()};
}

/// AWQ's search for the columns' scales of weights (R, C) by activations' mean magnitudes (C): the
/// losses of each exponent tried, with 4 bits in groups of 64, and the best scales.
std::tuple<at::Tensor, at::Tensor> awq_search(const at::Tensor& weights,
                                              const at::Tensor& activations, int64_t tries) {
  Tensors losses, scales;
  for (int64_t i = 0; i < tries; ++i) {
    const double exponent = static_cast<double>(i) / static_cast<double>(tries);
    at::Tensor scale = activations.pow(exponent).clamp_min(1e-4);
    scale = scale / (scale.max() * scale.min()).sqrt();
    const at::Tensor groups = (weights * scale).view({-1, 64});
    const at::Tensor top = groups.amax(1, /*keepdim=*/true), low = groups.amin(1, /*keepdim=*/true);
    const at::Tensor step = (top - low).clamp_min(1e-5) / 15;
    const at::Tensor zero = (-at::round(low / step)).clamp(0, 15);
    const at::Tensor codes = (at::round(groups / step) + zero).clamp(0, 15);
    const at::Tensor restored = ((codes - zero) * step).view(weights.sizes()) / scale;
    losses.push_back(((restored - weights) * activations).square().mean());
    scales.push_back(scale);
  }
  const at::Tensor all = at::stack(losses);
  const at::Tensor best = all.argmin();
  return {all, at::stack(scales).index_select(0, best.view({1})).squeeze(0)};
}

/// A diffusion transformer's block between attention and its MLP (adaLN-Zero), all in bf16: tokens
/// and attention's result (B, N, D), six modulations (B, 6 D). The tokens, and the MLP's input.
std::tuple<at::Tensor, at::Tensor> adaptive_norm(const at::Tensor& x, const at::Tensor& attended,
                                                 const at::Tensor& modulation) {
  const auto part = modulation.chunk(6, 1);
  const at::Tensor middle = x + part[2].unsqueeze(1) * attended;
  const at::Tensor normal = at::layer_norm(middle, {x.size(2)}, {}, {}, 1e-6);
  return {middle, normal * (1 + part[4].unsqueeze(1)) + part[3].unsqueeze(1)};
}

/// Gemma 2's local attention from its scores (H, S, S) on: capped softly at 50, causal within a
/// window, softmax in fp32, times values (H, S, D).
at::Tensor capped_window(const at::Tensor& scores, const at::Tensor& values, int64_t window) {
  const at::Tensor capped = at::tanh(scores / 50) * 50;
  const int64_t tokens = scores.size(1);
  const at::Tensor visible =
      at::ones({tokens, tokens}, scores.options().dtype(at::kBool)).tril().triu(1 - window);
  const at::Tensor masked =
      capped.masked_fill(visible.logical_not(), -std::numeric_limits<double>::infinity());
  return at::bmm(at::softmax(wide(masked), -1).to(values.scalar_type()), values);
}

/// A mixture of experts' end: rows (2 T, D), sorted by expert, go back to their two tokens' places
/// by weight, onto the residual (T, D). Also where each expert's rows end.
std::tuple<at::Tensor, at::Tensor> combine_experts(const at::Tensor& rows,
                                                   const at::Tensor& residual,
                                                   const at::Tensor& experts,
                                                   const at::Tensor& weights, int64_t count) {
  const at::Tensor flat = experts.view(-1);
  const at::Tensor order = at::argsort(flat, /*stable=*/true, /*dim=*/-1, /*descending=*/false);
  const at::Tensor share = (weights / weights.sum(-1, /*keepdim=*/true)).view(-1);
  const at::Tensor scaled = rows * share.index_select(0, order).unsqueeze(1);
  const at::Tensor mixed = at::zeros_like(residual).index_add_(0, order.div(2, "floor"),
                                                               scaled.to(residual.scalar_type()));
  return {residual + mixed, at::bincount(flat, {}, count).cumsum(0)};
}

/// Microscaling FP4: blocks of 32 numbers in bf16 (R, C) as e2m1, two codes to a byte, and a power
/// of two for each block, its exponent taken from the largest's bits.
std::tuple<at::Tensor, at::Tensor> mxfp4_quantise(const at::Tensor& x) {
  const at::Tensor blocks = x.to(at::kFloat).view({-1, 32});
  const at::Tensor largest = blocks.abs().amax(1, /*keepdim=*/true);
  const at::Tensor exponent =
      (at::bitwise_right_shift(largest.view(at::kInt), 23) - 2).clamp(1, 254);
  const at::Tensor v = blocks / at::bitwise_left_shift(exponent, 23).view(at::kFloat);
  const at::Tensor size = v.abs();
  const at::Tensor coarse =
      at::where(size < 4, size.round() + 2, ((size / 2).round() + 4).clamp_max(7));
  const at::Tensor level = at::where(size < 2, (size * 2).round(), coarse).to(at::kByte);
  const at::Tensor codes =
      at::bitwise_or(level, at::signbit(v).to(at::kByte) * 8).view({x.size(0), -1, 2});
  const at::Tensor packed =
      at::bitwise_or(codes.select(2, 0), at::bitwise_left_shift(codes.select(2, 1), 4));
  return {packed, exponent.to(at::kByte).view({x.size(0), -1})};
}

/// The moving average of weights in bf16, in place, rounded at random by given bits (0 to 65535);
/// and how far each average is from its weights at most.
at::Tensor stochastic_average(const Tensors& averages, const Tensors& weights,
                              const Tensors& noise) {
  Tensors apart;
  for (size_t i = 0; i < averages.size(); ++i) {
    const at::Tensor now = weights[i].to(at::kFloat);
    const at::Tensor moved = at::lerp(averages[i].to(at::kFloat), now, 0.005);
    const at::Tensor bits = at::bitwise_and(moved.view(at::kInt) + noise[i], -65536);
    averages[i].copy_(bits.view(at::kFloat));
    apart.push_back((averages[i].to(at::kFloat) - now).abs().max());
  }
  return at::stack(apart);
}

/// Adam with moments of 8 bits, in place: codes (N, 256) of blocks with a scale each (N, 1), read
/// and rounded by two books of 256 levels; the parameter and its gradient in bf16.
void adam_8bit(const at::Tensor& parameter, const at::Tensor& gradient, const at::Tensor& first,
               const at::Tensor& first_scale, const at::Tensor& second,
               const at::Tensor& second_scale, const at::Tensor& levels,
               const at::Tensor& positive_levels) {
  const auto load = [](const at::Tensor& codes, const at::Tensor& scale, const at::Tensor& book) {
    return book.index_select(0, codes.view(-1).to(at::kInt)).view(codes.sizes()) * scale;
  };
  const auto store = [](const at::Tensor& x, const at::Tensor& codes, const at::Tensor& scale,
                        const at::Tensor& book) {
    scale.copy_(x.abs().amax(1, /*keepdim=*/true));
    const at::Tensor middles = (book.slice(0, 1) + book.slice(0, 0, -1)) / 2;
    codes.copy_(at::bucketize(x / scale.clamp_min(1e-12), middles));
  };
  const at::Tensor g = wide(gradient).view(first.sizes());
  const at::Tensor m = load(first, first_scale, levels) * 0.9 + g * 0.1;
  const at::Tensor v = load(second, second_scale, positive_levels) * 0.999 + g * g * 0.001;
  const at::Tensor update = (m / (v.sqrt() + 1e-8)).view(parameter.sizes());
  parameter.copy_(wide(parameter) * (1 - 1e-5) - 1e-3 * update);
  store(m, first, first_scale, levels);
  store(v, second, second_scale, positive_levels);
}

/// PPO's clipped loss with a bonus for entropy over tokens' logits (T, V) in bf16, its gradient by
/// them, and how many ratios are out of range.
std::tuple<at::Tensor, at::Tensor, at::Tensor> clipped_policy(const at::Tensor& logits,
                                                              const at::Tensor& actions,
                                                              const at::Tensor& before,
                                                              const at::Tensor& advantages) {
  const at::Tensor log_p = at::log_softmax(wide(logits), -1), p = log_p.exp();
  const at::Tensor index = actions.unsqueeze(1);
  const at::Tensor ratio = (log_p.gather(1, index).squeeze(1) - before).exp();
  const at::Tensor gain = (advantages - advantages.mean()) / (advantages.std() + 1e-8);
  const at::Tensor free = ratio * gain, held = ratio.clamp(0.8, 1.2) * gain;
  const at::Tensor entropy = -(p * log_p).sum(-1);
  const at::Tensor loss = -at::minimum(free, held).mean() - 0.01 * entropy.mean();
  const double count = static_cast<double>(logits.size(0));
  const at::Tensor slope = (at::where(free <= held, -free, 0) / count).unsqueeze(1);
  at::Tensor by_logits = p * (0.01 / count * (log_p + entropy.unsqueeze(1)) - slope);
  by_logits.scatter_add_(1, index, slope);
  const at::Tensor outside = ((ratio - 1).abs() > 0.2).to(ratio.scalar_type()).mean();
  return {loss, by_logits.to(logits.scalar_type()), outside};
}

Instance delta_rule_case(const Options& o) {
  const int64_t batch = o.integer("batch"), steps = o.integer("steps"), heads = o.integer("heads"),
                width = o.integer("width"), count = batch * steps * heads * width;
  Draw draw(o);
  const auto normal = [&] { return draw.normal({batch, steps, heads, width}); };
  const at::Tensor r = normal(), k = normal() * 0.3, v = normal(), removal = normal();
  const at::Tensor w = draw.uniform({batch, steps, heads, width}, -6, -1),
                   rate = draw.uniform({batch, steps, heads, width});
  return bounded(instance_of(delta_rule, r, w, k, v, removal, rate), 4 * 7 * count,
                 count * (2 * kFunction + 5 + 9 * width));
}

Instance spline_layer_case(const Options& o) {
  const int64_t batch = o.integer("batch"), in = o.integer("inputs"), out = o.integer("outputs");
  Draw draw(o);
  const at::Tensor x = draw.uniform({batch, in}, -1, 1);
  const at::Tensor knots = (at::arange(12, at::kFloat) - 3) * 0.4 - 1 +  // five spans in [-1, 1]
                           draw.uniform({in, 12}, 0, 0.05);
  const at::Tensor weight = draw.normal({out, in}) * 0.1, splines = draw.normal({out, in, 8}) * 0.1;
  return bounded(instance_of(spline_layer, x, knots, weight, splines, draw.uniform({out, in})),
                 4 * (batch * in + 12 * in + 10 * out * in + batch * out),
                 batch * in * (33 + 7 * 27 + kFunction + 2 + 18 * out));
}

Instance diagonal_kernel_case(const Options& o) {
  const int64_t features = o.integer("features"), states = o.integer("states"),
                length = o.integer("length");
  Draw draw(o);
  const at::Tensor log_step = draw.uniform({features}, -6.9, -2.3);  // from 0.001 to 0.1
  const at::Tensor log_real = draw.normal({features, states}) * 0.1 - 0.7;
  const at::Tensor imaginary =
      3.14159265 * at::arange(states, at::kFloat) + draw.normal({features, states}) * 0.1;
  const at::Tensor cr = draw.normal({features, states}), ci = draw.normal({features, states});
  return bounded(instance_of(diagonal_kernel, log_step, log_real, imaginary, cr, ci, length),
                 4 * (features + 4 * features * states + features * length),
                 features * states * length * (3 * kFunction + 7));
}

template <class Make>
Tensors made_list(int64_t count, const Make& make) {
  Tensors out;
  for (int64_t i = 0; i < count; ++i) out.push_back(make());
  return out;
}

Instance schedule_free_case(const Options& o) {
  const int64_t count = o.integer("count"), side = o.integer("side");
  Draw draw(o);
  const auto normal = [&] { return draw.normal({side, side}); };
  const Tensors y = made_list(count, normal), g = made_list(count, normal),
                z = made_list(count, normal);
  const Tensors v = made_list(count, [&] { return draw.uniform({side, side}, 0.001, 0.01); });
  return bounded(updating_instance_of(schedule_free_adamw, y, g, z, v), 4 * 7 * count * side * side,
                 17 * count * side * side);
}

Instance ctc_forward_case(const Options& o) {
  const int64_t steps = o.integer("steps"), batch = o.integer("batch"),
                classes = o.integer("classes"), labels = o.integer("labels");
  Draw draw(o);
  const at::Tensor logits = draw.normal({steps, batch, classes});
  const at::Tensor targets = draw.integers({batch, labels}, classes - 1) + 1;
  const at::Tensor lengths = draw.integers({batch}, labels) + 1;
  return bounded(
      instance_of(ctc_forward, logits, targets, lengths),
      4 * steps * batch * classes + 8 * batch * (labels + 1) + 4 * (batch + 1),
      steps * batch * ((kFunction + 4) * classes + (4 * kFunction + 8) * (2 * labels + 1)));
}

Instance contrastive_case(const Options& o) {
  const int64_t batch = o.integer("batch"), width = o.integer("width");
  Draw draw(o);
  const at::Tensor images = draw.normal({batch, width});
  const at::Tensor texts = images + draw.normal({batch, width}) * 2;
  return bounded(instance_of(contrastive, images, texts, at::full({}, 2.6593, at::kFloat)),
                 4 * (4 * batch * width + 3),
                 batch * batch * (6 * width + 4 * kFunction + 10) + 20 * batch * width);
}

Instance awq_search_case(const Options& o) {
  const int64_t rows = o.integer("rows"), columns = 64 * o.integer("groups"),
                tries = o.integer("tries");
  Draw draw(o);
  const at::Tensor weights = draw.normal({rows, columns}) * 0.02;
  return bounded(instance_of(awq_search, weights, draw.normal({columns}).exp(), tries),
                 4 * (rows * columns + 2 * columns + tries), 15 * tries * rows * columns);
}

Instance adaptive_norm_case(const Options& o) {
  const int64_t batch = o.integer("batch"), tokens = o.integer("tokens"),
                width = o.integer("width"), count = batch * tokens * width;
  Draw draw(o);
  const auto normal = [&] { return draw.normal({batch, tokens, width}, at::kBFloat16); };
  const at::Tensor x = normal(), attended = normal();
  const at::Tensor modulation = (draw.normal({batch, 6 * width}) * 0.3).to(at::kBFloat16);
  return bounded(instance_of(adaptive_norm, x, attended, modulation),
                 2 * (4 * count + 3 * batch * width), 11 * count);
}

Instance capped_window_case(const Options& o) {
  const int64_t heads = o.integer("heads"), tokens = o.integer("tokens"),
                width = o.integer("width"), window = std::min(o.integer("window"), tokens);
  Draw draw(o);
  const at::Tensor scores = (draw.normal({heads, tokens, tokens}) * 20).to(at::kBFloat16);
  const at::Tensor values = draw.normal({heads, tokens, width}, at::kBFloat16);
  // Of the scores those within the window are needed.
  const int64_t visible = heads * (tokens * window - window * (window - 1) / 2);
  return bounded(instance_of(capped_window, scores, values, window),
                 2 * (visible + 2 * heads * tokens * width),
                 visible * (2 * kFunction + 5 + 2 * width));
}

Instance combine_experts_case(const Options& o) {
  const int64_t tokens = o.integer("tokens"), width = o.integer("width"),
                experts = o.integer("experts");
  Draw draw(o);
  const at::Tensor rows = draw.normal({2 * tokens, width}, at::kBFloat16),
                   residual = draw.normal({tokens, width}, at::kBFloat16);
  const at::Tensor first = draw.integers({tokens}, experts);  // two different ones for each token
  const at::Tensor second = (first + 1 + draw.integers({tokens}, experts - 1)).remainder(experts);
  return bounded(instance_of(combine_experts, rows, residual, at::stack({first, second}, 1),
                             draw.uniform({tokens, 2}, 0.05, 1), experts),
                 2 * 4 * tokens * width + (8 + 4) * 2 * tokens + 8 * experts, 5 * tokens * width);
}

Instance mxfp4_quantise_case(const Options& o) {
  const int64_t rows = o.integer("rows"), blocks = o.integer("blocks"), count = rows * blocks * 32;
  const at::Tensor x = Draw(o).normal({rows, blocks * 32}, at::kBFloat16);
  return bounded(instance_of(mxfp4_quantise, x), 2 * count + count / 2 + rows * blocks, 12 * count);
}

Instance stochastic_average_case(const Options& o) {
  const int64_t count = o.integer("count"), side = o.integer("side");
  Draw draw(o);
  const auto normal = [&] { return draw.normal({side, side}, at::kBFloat16); };
  const Tensors averages = made_list(count, normal), weights = made_list(count, normal);
  const Tensors noise =
      made_list(count, [&] { return draw.integers({side, side}, 65536, at::kInt); });
  return bounded(updating_instance_of(stochastic_average, averages, weights, noise),
                 (2 + 2 + 2 + 4) * count * side * side + 4 * count, 8 * count * side * side);
}

Instance adam_8bit_case(const Options& o) {
  const int64_t blocks = o.integer("blocks"), count = 256 * blocks;
  Draw draw(o);
  const at::Tensor parameter = draw.normal({count}, at::kBFloat16),
                   gradient = draw.normal({count}, at::kBFloat16);
  const auto codes = [&] { return draw.integers({blocks, 256}, 256, at::kByte); };
  const at::Tensor first = codes(), second = codes();
  const at::Tensor line = at::linspace(-1, 1, 256, at::kFloat),
                   positive = at::linspace(1.0 / 256, 1, 256, at::kFloat);
  return bounded(
      updating_instance_of(adam_8bit, parameter, gradient, first, draw.uniform({blocks, 1}, 0.5, 1),
                           second, draw.uniform({blocks, 1}, 0.5, 1), line * line.abs(),
                           positive.square()),
      (4 + 2 + 2 + 2) * count + 4 * (4 * blocks + 2 * 256), 34 * count);
}

Instance clipped_policy_case(const Options& o) {
  const int64_t tokens = o.integer("tokens"), vocabulary = o.integer("vocabulary");
  Draw draw(o);
  const at::Tensor logits = draw.normal({tokens, vocabulary}, at::kBFloat16);
  const at::Tensor actions = draw.integers({tokens}, vocabulary);
  const at::Tensor now =
      at::log_softmax(wide(logits), -1).gather(1, actions.unsqueeze(1)).squeeze(1);
  const at::Tensor before = now + draw.normal({tokens}) * 0.2;
  return bounded(instance_of(clipped_policy, logits, actions, before, draw.normal({tokens})),
                 2 * 2 * tokens * vocabulary + (8 + 4 + 4) * tokens + 8,
                 (2 * kFunction + 9) * tokens * vocabulary);
}

std::vector<Axis> parameter_list_axes(const char* count, const char* side) {
  return {{"count", count, "3", "parameters"}, {"side", side, "33", "rows and columns of one"}};
}

}  // namespace

std::vector<Workload> model_cases() {
  return {
      {"delta_rule_f32",
       "RWKV-7's mixing by matrices of state, step by step",
       {{"batch", "2", "2", "sequences"},
        {"steps", "24", "5", "of a sequence"},
        {"heads", "8", "3", "heads"},
        {"width", "64", "7", "features of a head"}},
       delta_rule_case,
       kSums},
      {"spline_layer_f32",
       "a Kolmogorov-Arnold layer of cubic splines",
       {{"batch", "2048", "37", "samples"},
        {"inputs", "64", "11", "features"},
        {"outputs", "64", "7", "results"}},
       spline_layer_case,
       kSums},
      {"diagonal_kernel_f32",
       "S4D's convolution kernel",
       {{"features", "64", "5", "features"},
        {"states", "32", "7", "complex states of a feature"},
        {"length", "1024", "37", "of the kernel"}},
       diagonal_kernel_case,
       kSums},
      {"schedule_free_adamw_f32", "schedule-free AdamW by foreach operators, in place",
       parameter_list_axes("6", "640"), schedule_free_case},
      {"ctc_forward_f32",
       "the loss of unaligned labels, forward in time",
       {{"steps", "48", "19", "of a sequence"},
        {"batch", "256", "5", "sequences"},
        {"classes", "96", "11", "labels there are, and the blank"},
        {"labels", "20", "4", "of a sequence"}},
       ctc_forward_case,
       kSums},
      {"contrastive_f32",
       "CLIP's loss with its gradients",
       {{"batch", "768", "37", "pairs"}, {"width", "256", "19", "of an embedding"}},
       contrastive_case,
       kSums},
      {"awq_search_f32",
       "AWQ's search for scales before quantisation",
       {{"rows", "512", "13", "rows"},
        {"groups", "16", "3", "groups of 64 columns"},
        {"tries", "6", "3", "exponents"}},
       awq_search_case,
       kSums},
      {"adaptive_norm_bf16",
       "a diffusion transformer's gate, norm and modulation",
       {{"batch", "8", "3", "images"},
        {"tokens", "256", "13", "of an image"},
        {"width", "1152", "37", "features"}},
       adaptive_norm_case,
       kRounded},
      {"capped_window_bf16",
       "Gemma 2's attention in a window, scores capped",
       {{"heads", "8", "3", "heads"},
        {"tokens", "512", "37", "tokens"},
        {"width", "64", "11", "features of a head"},
        {"window", "128", "5", "tokens that one sees"}},
       capped_window_case,
       kRounded},
      {"combine_experts_bf16",
       "experts' results back to their tokens",
       {{"tokens", "2048", "37", "tokens"},
        {"width", "1024", "19", "features"},
        {"experts", "8", "5", "experts"}},
       combine_experts_case,
       kSums},
      {"mxfp4_quantise_bf16",
       "activations to FP4 with a power of two for each block",
       {{"rows", "1024", "13", "rows"}, {"blocks", "64", "3", "blocks of 32 columns"}},
       mxfp4_quantise_case},
      {"stochastic_average_bf16", "weights' moving average, rounded at random, in place",
       parameter_list_axes("4", "768"), stochastic_average_case},
      {"adam_8bit_bf16",
       "Adam with moments of 8 bits, in place",
       {{"blocks", "2048", "13", "blocks of 256"}},
       adam_8bit_case},
      {"clipped_policy_bf16",
       "PPO's clipped loss with its gradient",
       {{"tokens", "512", "37", "tokens"}, {"vocabulary", "4096", "211", "tokens there are"}},
       clipped_policy_case,
       kRounded},
  };
}

}  // namespace graft::workloads::wild
