// Strangers: steps that learn, unlike those of other files, and experts that choose.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

#include "workloads/draw.h"
#include "workloads/training/steps.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

using at::Tensor;

/// DPO on B preferred answers and B rejected ones: the last layer's inputs (2 B, T, W), their
/// tokens (2 B, T), -100 where none counts, and a reference's log-probabilities (2 B); RMSprop.
/// Parameters: an adapter's two matrices, the head.
Tensor preference_step(const Tensors& p, const Tensors& squares, const Tensor& hidden,
                       const Tensor& tokens, const Tensor& reference) {
  const auto loss_of = [&] {
    const Tensor adapted = hidden + at::linear(at::silu(at::linear(hidden, p[0])), p[1]);
    const Tensor logits = at::linear(adapted, p[2]).slice(1, 0, -1);
    const Tensor labels = tokens.slice(1, 1).clone();
    const Tensor counts = labels != -100;
    labels.masked_fill_(counts.logical_not(), 0);
    const Tensor each = at::log_softmax(logits, -1).gather(2, labels.unsqueeze(2)).squeeze(2);
    const auto policy = (each * counts).sum(-1).chunk(2), given = reference.chunk(2);
    const Tensor margin = 0.1 * ((policy[0] - policy[1]) - (given[0] - given[1]));
    return -(0.9 * at::log_sigmoid(margin) + 0.1 * at::log_sigmoid(-margin)).mean();
  };
  return training_step(loss_of, [&] {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < p.size(); ++i) {
      const Tensor& g = p[i].grad();
      squares[i].mul_(0.99).addcmul_(g, g, 0.01);
      p[i].addcdiv_(g, squares[i].sqrt() + 1e-8, -1e-4);
    }
    clear_gradients(p);
  });
}

/// Muon's five steps of Newton and Schulz: the gradient with singular values near 1.
Tensor orthogonalised(const Tensor& gradient) {
  const bool tall = gradient.size(0) > gradient.size(1);
  Tensor x = gradient / (gradient.norm() + 1e-7);
  if (tall) x = x.t();
  for (int step = 0; step < 5; ++step) {
    const Tensor a = at::mm(x, x.t());
    const Tensor b = -4.7750 * a + 2.0315 * at::mm(a, a);
    x = 3.4445 * x + at::mm(b, x);
  }
  return tall ? x.t() : x;
}

/// Classes of x (B, F) by a block with a dynamic tanh in place of its norm, a squared ReLU and
/// capped logits; Muon for its two matrices, momentum for the rest: the tanh's alpha (1), weight
/// and bias, and the head.
Tensor orthogonal_step(const Tensors& p, const Tensors& buffers, const Tensor& x,
                       const Tensor& labels) {
  const auto loss_of = [&] {
    const Tensor h = at::linear(x, p[0]);
    const Tensor normal = p[3] * at::tanh(p[2] * h) + p[4];
    const Tensor mixed = h + at::linear(at::relu(normal).square(), p[1]);
    const Tensor logits = 15 * at::tanh(at::linear(mixed, p[5]) / 15);
    return at::cross_entropy_loss(logits, labels, {}, at::Reduction::Mean, /*ignore_index=*/-100,
                                  /*label_smoothing=*/0.1);
  };
  return training_step(loss_of, [&] {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < p.size(); ++i) {
      const Tensor& g = p[i].grad();
      buffers[i].lerp_(g, 0.05);
      if (i >= 2) {
        p[i].sub_(buffers[i], 0.01);
        continue;
      }
      const double ratio = static_cast<double>(g.size(0)) / static_cast<double>(g.size(1));
      const Tensor update = orthogonalised(g.lerp(buffers[i], 0.95));
      p[i].mul_(1 - 0.02 * 0.01).sub_(update, 0.02 * std::sqrt(std::max(1.0, ratio)));
    }
    clear_gradients(p);
  });
}

/// A masked autoencoder on images (B, 3, S, S) in patches of 8 x 8, of which a quarter is seen, by
/// given noise (B, N); places' vectors (N, W). SGD, and slow weights that follow. Parameters: the
/// patches' layer, a norm, layers of q, k, v and after attention, the blank, two decoding layers.
Tensor masked_patches_step(const Tensors& p, const Tensors& slow, const Tensor& images,
                           const Tensor& places, const Tensor& noise) {
  const int64_t batch = images.size(0), side = images.size(2) / 8, count = side * side,
                kept = count / 4, width = places.size(1);
  const auto loss_of = [&] {
    const Tensor patches = images.reshape({batch, 3, side, 8, side, 8})
                               .permute({0, 2, 4, 3, 5, 1})
                               .reshape({batch, count, -1});
    const Tensor shuffle = noise.argsort(1, /*descending=*/false),
                 restore = shuffle.argsort(1, /*descending=*/false);
    const Tensor chosen = shuffle.slice(1, 0, kept).unsqueeze(-1).expand({batch, kept, width});
    const Tensor seen = (at::linear(patches, p[0], p[1]) + places).gather(1, chosen);
    const auto qkv = at::linear(at::layer_norm(seen, {width}, p[2], p[3]), p[4], p[5]).chunk(3, -1);
    const Tensor scores =
        at::matmul(qkv[0], qkv[1].transpose(1, 2)) / std::sqrt(static_cast<double>(width));
    const Tensor encoded =
        seen + at::linear(at::matmul(at::softmax(scores, -1), qkv[2]), p[6], p[7]);
    const Tensor blanks = p[8].expand({batch, count - kept, width});
    const Tensor back = restore.unsqueeze(-1).expand({batch, count, width});
    const Tensor all = at::cat({encoded, blanks}, 1).gather(1, back) + places;
    const Tensor made = at::linear(at::gelu(at::linear(all, p[9], p[10])), p[11], p[12]);
    const Tensor mean = patches.mean(-1, /*keepdim=*/true);
    const Tensor variance = (patches - mean).square().mean(-1, /*keepdim=*/true);
    const Tensor error = (made - (patches - mean) / (variance + 1e-6).sqrt()).square().mean(-1);
    Tensor hidden = at::ones({batch, count}, images.options());
    hidden.slice(1, 0, kept).fill_(0);
    hidden = hidden.gather(1, restore);
    return (error * hidden).sum() / hidden.sum();
  };
  return training_step(loss_of, [&] {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < p.size(); ++i) {
      p[i].mul_(1 - 0.05 * 0.05).sub_(p[i].grad(), 0.05);
      slow[i].mul_(0.996).add_(p[i], 0.004);
    }
    clear_gradients(p);
  });
}

/// Classes by three convolutions of images (B, 3, S, S) and a layer of their means.
Tensor three_convolutions(const Tensors& p, const Tensor& images) {
  Tensor x = at::relu(at::conv2d(images, p[0], p[1], 1, 1));
  x = at::relu(at::conv2d(x, p[2], p[3], 2, 1));
  x = at::relu(at::conv2d(x, p[4], p[5], 2, 1));
  return at::linear(x.mean({2, 3}), p[6], p[7]);
}

/// Sharpness-aware minimisation of a small convolutional network on mixed-up images (B, 3, S, S):
/// uphill by the first gradient, and from there down by the second, with momentum.
Tensor sharpness_step(const Tensors& p, const Tensors& velocities, const Tensor& images,
                      const Tensor& labels, const Tensor& share) {
  const Tensor mixed = share * images + (1 - share) * images.flip({0});
  const auto loss_of = [&] {
    const Tensor logits = three_convolutions(p, mixed);
    return share * at::cross_entropy_loss(logits, labels) +
           (1 - share) * at::cross_entropy_loss(logits, labels.flip({0}));
  };
  Tensors climbed;
  const Tensor loss = training_step(loss_of, [&] {
    const at::NoGradGuard no_grad;
    Tensors norms;
    for (const Tensor& w : p) norms.push_back(w.grad().norm());
    const Tensor scale = 0.05 / (at::stack(norms).norm() + 1e-12);
    for (const Tensor& w : p) {
      climbed.push_back(w.grad() * scale);
      w.add_(climbed.back());
    }
    clear_gradients(p);
  });
  training_step(loss_of, [&] {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < p.size(); ++i) {
      p[i].sub_(climbed[i]);
      const Tensor g = p[i].grad() + 5e-4 * p[i];
      p[i].sub_(velocities[i].mul_(0.9).add_(g), 0.05);
    }
    clear_gradients(p);
  });
  return loss;
}

/// How a neural ODE's state x (B, D) moves at a time.
Tensor neural_field(const Tensors& p, const Tensor& x, double time) {
  const Tensor now = at::full({x.size(0), 1}, time, x.options());
  const Tensor h = at::tanh(at::linear(at::cat({x, now}, 1), p[0], p[1]));
  return at::linear(at::tanh(at::linear(h, p[2], p[3])), p[4], p[5]);
}

/// A neural ODE taken from x (B, D) to `wanted` by eight steps of Runge and Kutta, through which
/// its gradients go; its motion costs. Adam with the highest second moments (AMSGrad).
Tensor neural_ode_step(const Tensors& p, const Tensors& first, const Tensors& second,
                       const Tensors& highest, const Tensor& steps, const Tensor& x,
                       const Tensor& wanted) {
  const auto loss_of = [&] {
    constexpr double kTime = 1.0 / 8;
    Tensor y = x, energy = at::zeros({}, x.options());
    for (int i = 0; i < 8; ++i) {
      const double t = i * kTime;
      const Tensor k1 = neural_field(p, y, t);
      const Tensor k2 = neural_field(p, y + kTime / 2 * k1, t + kTime / 2);
      const Tensor k3 = neural_field(p, y + kTime / 2 * k2, t + kTime / 2);
      const Tensor k4 = neural_field(p, y + kTime * k3, t + kTime);
      energy = energy + kTime * k1.square().sum(1).mean();
      y = y + kTime / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
    }
    return at::mse_loss(y, wanted) + 0.01 * energy;
  };
  return training_step(loss_of, [&] {
    const at::NoGradGuard no_grad;
    steps.add_(1);
    const Tensor by_first = 1 - at::pow(0.9, steps), by_second = 1 - at::pow(0.999, steps);
    for (size_t i = 0; i < p.size(); ++i) {
      const Tensor& g = p[i].grad();
      first[i].lerp_(g, 0.1);
      second[i].mul_(0.999).addcmul_(g, g, 0.001);
      highest[i].copy_(at::maximum(highest[i], second[i]));
      const Tensor root = (highest[i] / by_second).sqrt() + 1e-8;
      p[i].sub_(1e-3 * (first[i] / by_first) / root);
    }
    clear_gradients(p);
  });
}

/// Volatilities of series of returns (S, T) by GJR-GARCH, each with its four parameters (S), by
/// maximum likelihood and Rprop: steps grow where gradients keep their signs.
Tensor garch_step(const Tensors& p, const Tensors& steps, const Tensors& before,
                  const Tensor& returns) {
  const auto loss_of = [&] {
    const Tensor base = at::softplus(p[0]), shock = 0.2 * at::sigmoid(p[1]),
                 leverage = 0.2 * at::sigmoid(p[2]), memory = 0.7 * at::sigmoid(p[3]);
    Tensor variance = returns.square().mean(1), sum = at::zeros_like(variance);
    for (int64_t t = 0; t < returns.size(1); ++t) {
      const Tensor r = returns.select(1, t), square = r.square();
      sum = sum + variance.log() + square / variance;
      variance = base + at::where(r < 0, shock + leverage, shock) * square + memory * variance;
    }
    return 0.5 * (sum / returns.size(1) + std::log(2 * std::numbers::pi)).mean();
  };
  return training_step(loss_of, [&] {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < p.size(); ++i) {
      const Tensor& g = p[i].grad();
      const Tensor agreed = g * before[i];
      const Tensor shorter = at::where(agreed < 0, steps[i] * 0.5, steps[i]);
      steps[i].copy_(at::where(agreed > 0, steps[i] * 1.2, shorter).clamp(1e-6, 50));
      const Tensor kept = g.masked_fill(agreed < 0, 0);
      p[i].sub_(kept.sign() * steps[i]);
      before[i].copy_(kept);
    }
    clear_gradients(p);
  });
}

Tensor even_places(const Tensor& x) {
  return x.slice(-1, 0, std::nullopt, 2);
}
Tensor odd_places(const Tensor& x) {
  return x.slice(-1, 1, std::nullopt, 2);
}

/// Rosenbrock's function of each row.
Tensor rosenbrock(const Tensor& x) {
  const Tensor a = even_places(x), b = odd_places(x);
  return (100 * (b - a.square()).square() + (1 - a).square()).sum(-1);
}

Tensor rosenbrock_slope(const Tensor& x) {
  const Tensor a = even_places(x), b = odd_places(x), out = at::empty_like(x);
  even_places(out).copy_(-400 * a * (b - a.square()) - 2 * (1 - a));
  odd_places(out).copy_(200 * (b - a.square()));
  return out;
}

/// A step of L-BFGS on Rosenbrock's function of x (N), the best of given rates: the last x and
/// gradient, the last moves and the gradient's changes (M, N), all go on in place.
Tensor limited_memory_step(const Tensor& x, const Tensor& last_x, const Tensor& last_gradient,
                           const Tensor& moves, const Tensor& changes, const Tensor& rates) {
  const int64_t count = moves.size(0);
  const Tensor gradient = rosenbrock_slope(x);
  moves.copy_(at::roll(moves, {-1}, {0}));
  changes.copy_(at::roll(changes, {-1}, {0}));
  moves.select(0, -1).copy_(x - last_x);
  changes.select(0, -1).copy_(gradient - last_gradient);
  last_x.copy_(x);
  last_gradient.copy_(gradient);
  const Tensor curved = (moves * changes).sum(1);
  const Tensor rho = at::where(curved > 1e-10, curved.reciprocal(), 0);
  Tensor direction = gradient;
  Tensors alphas(static_cast<size_t>(count));
  for (int64_t i = count - 1; i >= 0; --i) {
    const Tensor alpha = rho.select(0, i) * moves.select(0, i).dot(direction);
    direction = direction - alpha * changes.select(0, i);
    alphas[static_cast<size_t>(i)] = alpha;
  }
  const Tensor newest = changes.select(0, -1), curve = curved.select(0, -1);
  direction = direction * at::where(curve > 1e-10, curve / newest.dot(newest), 1);
  for (int64_t i = 0; i < count; ++i) {
    const Tensor beta = rho.select(0, i) * changes.select(0, i).dot(direction);
    direction = direction + (alphas[static_cast<size_t>(i)] - beta) * moves.select(0, i);
  }
  const Tensor candidates = x - rates.unsqueeze(1) * direction;
  const Tensor values = rosenbrock(candidates);
  x.copy_(candidates.index_select(0, values.argmin(0, /*keepdim=*/true)).squeeze(0));
  return values.amin(0);
}

/// A layer of experts that choose their tokens x (T, W): gates (E, W), gated matrices up
/// (E, W, 2 M) and down (E, M, W). Also by how many experts each token was chosen.
std::tuple<Tensor, Tensor> expert_choice(const Tensor& x, const Tensor& gate, const Tensor& up,
                                         const Tensor& down, int64_t capacity) {
  const int64_t experts = gate.size(0), width = x.size(1);
  const Tensor affinity = at::softmax(at::mm(wide(x), wide(gate).t()), -1);
  const auto [weights, chosen] = affinity.t().topk(capacity, -1);
  const Tensor tokens = chosen.reshape(-1);
  const Tensor picked = x.index_select(0, tokens).view({experts, capacity, width});
  const auto halves = at::bmm(picked, up).chunk(2, -1);
  const Tensor made = at::bmm(at::silu(halves[0]) * halves[1], down);
  const Tensor weighted = made * weights.unsqueeze(-1).to(made.scalar_type());
  const Tensor count = at::zeros({x.size(0)}, at::kLong);
  count.scatter_add_(0, tokens, at::ones_like(tokens));
  return {at::zeros_like(x).index_add_(0, tokens, weighted.view({-1, width})), count};
}

int64_t numbers_in(const Tensors& all) {
  int64_t sum = 0;
  for (const Tensor& t : all) sum += t.numel();
  return sum;
}

/// A leaf: weights of `in` inputs each.
Tensor drawn_leaf(Draw& draw, at::IntArrayRef sizes, int64_t in) {
  return draw.normal(sizes).mul_(1 / std::sqrt(static_cast<double>(in))).requires_grad_();
}

/// Like the parameters: normals of `size`.
Tensors small_like(Draw& draw, const Tensors& parameters, double size) {
  Tensors made;
  for (const Tensor& p : parameters) made.push_back(draw.normal(p.sizes()).mul_(size));
  return made;
}
/// Like the parameters: squares of `size` at most.
Tensors squares_like(Draw& draw, const Tensors& parameters, double size) {
  Tensors made;
  for (const Tensor& p : parameters)
    made.push_back(draw.uniform(p.sizes(), 0.1 * size * size, size * size));
  return made;
}

/// Bounds of a step: its inputs, `written` numbers, and three times the forward's FLOPs.
Instance stepping(Instance made, int64_t written, int64_t forward) {
  const int64_t bytes = made.input_bytes + 4 * written;
  return bounded(std::move(made), bytes, 3 * forward);
}

Instance preference_case(const Options& o) {
  const int64_t pairs = o.integer("pairs"), length = o.integer("length"),
                width = o.integer("width"), words = 16 * width, rank = 8;
  Draw draw(o);
  const Tensors p{drawn_leaf(draw, {rank, width}, width), drawn_leaf(draw, {width, rank}, rank),
                  drawn_leaf(draw, {words, width}, width)};
  const Tensor tokens = draw.integers({2 * pairs, length}, words);
  const Tensor place = at::arange(length, at::kLong);
  const Tensor ends = length / 2 + 1 + draw.integers({2 * pairs, 1}, length / 2);
  tokens.masked_fill_((place < length / 3).logical_or(place >= ends), -100);
  const Tensor answers = (tokens != -100).sum(1);
  const Tensor reference =
      draw.normal({2 * pairs}) - std::log(static_cast<double>(words)) * answers.to(at::kFloat);
  const int64_t rows = 2 * pairs * length;
  return stepping(updating_instance_of(preference_step, p, squares_like(draw, p, 1e-3),
                                       draw.normal({2 * pairs, length, width}), tokens, reference),
                  2 * numbers_in(p), rows * (2 * numbers_in(p) + kFunction * words));
}

Instance orthogonal_case(const Options& o) {
  const int64_t batch = o.integer("batch"), features = o.integer("features"),
                width = o.integer("width"), classes = 10;
  Draw draw(o);
  const Tensors p{drawn_leaf(draw, {width, features}, features),
                  drawn_leaf(draw, {width, width}, width),
                  at::full({1}, 0.5).requires_grad_(),
                  draw.uniform({width}, 0.5, 1.5).requires_grad_(),
                  drawn_leaf(draw, {width}, 100),
                  drawn_leaf(draw, {classes, width}, width)};
  const auto schulz = [](int64_t rows, int64_t columns) {
    const int64_t few = std::min(rows, columns), many = std::max(rows, columns);
    return 5 * 2 * few * few * (2 * many + few);
  };
  return stepping(
      updating_instance_of(orthogonal_step, p, small_like(draw, p, 1e-3),
                           draw.normal({batch, features}), draw.integers({batch}, classes)),
      2 * numbers_in(p),
      batch * (2 * numbers_in(p) + kFunction * width) +
          (schulz(width, features) + schulz(width, width)) / 3);
}

Instance masked_patches_case(const Options& o) {
  const int64_t batch = o.integer("batch"), side = o.integer("side"), count = side * side,
                width = o.integer("width"), pixels = 3 * 8 * 8, kept = count / 4;
  Draw draw(o);
  const Tensors p{drawn_leaf(draw, {width, pixels}, pixels),
                  drawn_leaf(draw, {width}, 100),
                  draw.uniform({width}, 0.5, 1.5).requires_grad_(),
                  drawn_leaf(draw, {width}, 100),
                  drawn_leaf(draw, {3 * width, width}, width),
                  drawn_leaf(draw, {3 * width}, 100),
                  drawn_leaf(draw, {width, width}, width),
                  drawn_leaf(draw, {width}, 100),
                  drawn_leaf(draw, {1, 1, width}, 100),
                  drawn_leaf(draw, {2 * width, width}, width),
                  drawn_leaf(draw, {2 * width}, 100),
                  drawn_leaf(draw, {pixels, 2 * width}, 2 * width),
                  drawn_leaf(draw, {pixels}, 100)};
  const Tensor images = draw.uniform({batch, 3, 8 * side, 8 * side});
  const int64_t seen = kept * (width * (2 * pixels + 8 * width) + kept * (4 * width + kFunction));
  return stepping(
      updating_instance_of(masked_patches_step, p, small_like(draw, p, 0.1), images,
                           draw.normal({count, width}).mul_(0.1), draw.uniform({batch, count})),
      2 * numbers_in(p), batch * (seen + count * 2 * width * (2 * width + 2 * pixels + kFunction)));
}

Instance sharpness_case(const Options& o) {
  const int64_t batch = o.integer("batch"), side = o.integer("side"), width = o.integer("width"),
                classes = 10;
  Draw draw(o);
  Tensors p;
  for (const auto& [in, out] :
       {std::pair<int64_t, int64_t>{3, width}, {width, 2 * width}, {2 * width, 4 * width}}) {
    p.push_back(drawn_leaf(draw, {out, in, 3, 3}, 4 * in));
    p.push_back(drawn_leaf(draw, {out}, 100));
  }
  p.push_back(drawn_leaf(draw, {classes, 4 * width}, 4 * width));
  p.push_back(drawn_leaf(draw, {classes}, 100));
  const int64_t half = (side + 1) / 2, quarter = (half + 1) / 2;
  const int64_t forward =
      2 * 9 * width * (3 * side * side + 2 * width * half * half + 8 * width * quarter * quarter);
  return stepping(updating_instance_of(sharpness_step, p, small_like(draw, p, 1e-2),
                                       draw.normal({batch, 3, side, side}),
                                       draw.integers({batch}, classes), at::full({}, 0.7)),
                  2 * numbers_in(p), 2 * batch * forward);
}

Instance neural_ode_case(const Options& o) {
  const int64_t batch = o.integer("batch"), dimensions = 4, width = o.integer("width");
  Draw draw(o);
  const Tensors p{drawn_leaf(draw, {width, dimensions + 1}, dimensions),
                  drawn_leaf(draw, {width}, 100),
                  drawn_leaf(draw, {width, width}, width),
                  drawn_leaf(draw, {width}, 100),
                  drawn_leaf(draw, {dimensions, width}, width),
                  drawn_leaf(draw, {dimensions}, 100)};
  const Tensors first = small_like(draw, p, 0.01), second = squares_like(draw, p, 0.1),
                highest = squares_like(draw, p, 0.1);
  return stepping(
      updating_instance_of(neural_ode_step, p, first, second, highest, at::full({}, 100.0),
                           draw.normal({batch, dimensions}), draw.normal({batch, dimensions})),
      4 * numbers_in(p), 32 * batch * (2 * numbers_in(p) + 2 * kFunction * width));
}

Instance garch_case(const Options& o) {
  const int64_t series = o.integer("series"), days = o.integer("days");
  Draw draw(o);
  Tensors p, steps;
  for (int i = 0; i < 4; ++i) {
    p.push_back(drawn_leaf(draw, {series}, 4));
    steps.push_back(draw.uniform({series}, 0.005, 0.02));
  }
  const Tensors before = small_like(draw, p, 1e-3);
  return stepping(updating_instance_of(garch_step, p, steps, before, draw.normal({series, days})),
                  3 * numbers_in(p), series * (days * (kFunction + 11) + 4 * kFunction));
}

Instance limited_memory_case(const Options& o) {
  const int64_t size = 2 * o.integer("pairs"), count = o.integer("memory");
  Draw draw(o);
  const Tensor x = draw.normal({size}), last = x - 0.01 * draw.normal({size});
  const Tensor moves = 0.01 * draw.normal({count, size}),
               changes = moves * draw.uniform({count, size}, 100, 300);
  const Tensor rates = at::pow(0.25, at::arange(5, at::kFloat));
  rates.select(0, -1).fill_(0);  // so that no step goes up
  Instance made = updating_instance_of(limited_memory_step, x, last, rosenbrock_slope(last), moves,
                                       changes, rates);
  const int64_t bytes = made.input_bytes + 4 * size * (2 * count + 3);
  return bounded(std::move(made), bytes, size * (10 * count + 5 * 6 + 12));
}

Instance expert_choice_case(const Options& o) {
  const int64_t tokens = o.integer("tokens"), width = o.integer("width"),
                experts = o.integer("experts"), middle = o.integer("middle"),
                capacity = 3 * tokens / (2 * experts);
  Draw draw(o);
  const auto made = [&](at::IntArrayRef sizes, int64_t in) {
    return (draw.normal(sizes) / std::sqrt(static_cast<double>(in))).to(at::kBFloat16);
  };
  const Tensor x = made({tokens, width}, 1), gate = made({experts, width}, width),
               up = made({experts, width, 2 * middle}, width),
               down = made({experts, middle, width}, middle);
  return bounded(instance_of(expert_choice, x, gate, up, down, capacity),
                 2 * (2 * x.numel() + gate.numel() + up.numel() + down.numel()) + 8 * tokens,
                 2 * tokens * experts * (width + kFunction / 2) +
                     experts * capacity * (6 * width * middle + kFunction * middle));
}

}  // namespace

std::vector<Workload> stranger_cases() {
  const auto samples = [](const char* count) { return Axis{"batch", count, "13", "samples"}; };
  const auto width = [](const char* count, const char* small) {
    return Axis{"width", count, small, "hidden"};
  };
  return {
      {"preference_step_f32",
       "DPO's loss of preferred and rejected answers, and RMSprop",
       {{"pairs", "4", "3", "of answers"},
        {"length", "48", "11", "tokens of an answer"},
        width("128", "11")},
       preference_case,
       10 * kSums},
      {"orthogonal_step_f32",
       "a block with a dynamic tanh, and Muon",
       {samples("128"), {"features", "256", "37", "of a sample"}, width("192", "21")},
       orthogonal_case,
       10 * kSums},
      {"masked_patches_step_f32",
       "a masked autoencoder's step, and slow weights that follow",
       {samples("16"), {"side", "8", "3", "patches of a side"}, width("128", "21")},
       masked_patches_case,
       10 * kSums},
      {"sharpness_step_f32",
       "sharpness-aware minimisation of mixed-up images' loss",
       {samples("16"), {"side", "32", "9", "rows and columns"}, width("16", "5")},
       sharpness_case,
       10 * kSums},
      {"neural_ode_step_f32",
       "a neural ODE through steps of Runge and Kutta, and AMSGrad",
       {samples("256"), width("64", "11")},
       neural_ode_case,
       10 * kSums},
      {"garch_step_f32",
       "volatilities' likelihood over time, and Rprop",
       {{"series", "8192", "37", "series"}, {"days", "64", "9", "returns of a series"}},
       garch_case,
       10 * kSums},
      {"limited_memory_step_f32",
       "L-BFGS on Rosenbrock's function, the best of five rates",
       {{"pairs", "131072", "101", "of variables"}, {"memory", "6", "3", "moves that it knows"}},
       limited_memory_case,
       10 * kSums},
      {"expert_choice_bf16",
       "a layer of experts that choose their tokens",
       {{"tokens", "512", "38", "tokens"},
        {"width", "256", "21", "of a token"},
        {"experts", "8", "3", "experts"},
        {"middle", "256", "13", "an expert's hidden"}},
       expert_choice_case,
       kRounded},
  };
}

}  // namespace graft::workloads::wild
