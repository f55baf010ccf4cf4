// Learners: whole steps of training, each its forward, its backward and the update of what learns.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <numbers>
#include <utility>

#include "workloads/draw.h"
#include "workloads/training/steps.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

using at::Tensor;

/// Adam; `steps` counts.
void adam(const Tensors& parameters, const Tensors& first, const Tensors& second,
          const Tensor& steps, double rate, double decay = 0) {
  const at::NoGradGuard no_grad;
  steps.add_(1);
  const Tensor by_first = 1 - at::pow(0.9, steps), by_second = 1 - at::pow(0.999, steps);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& g = parameters[i].grad();
    first[i].mul_(0.9).add_(g, 0.1);
    second[i].mul_(0.999).addcmul_(g, g, 0.001);
    if (decay > 0) parameters[i].mul_(1 - rate * decay);
    const Tensor root = (second[i] / by_second).sqrt() + 1e-8;
    parameters[i].addcdiv_(first[i] / by_first, root, -rate);
  }
  clear_gradients(parameters);
}

/// Weights and biases in turn, joined by `activation`.
template <class Activation>
Tensor layered(const Tensors& p, Tensor x, const Activation& activation) {
  for (size_t i = 0; i < p.size(); i += 2) {
    x = at::linear(x, p[i], p[i + 1]);
    if (i + 2 < p.size()) x = activation(x);
  }
  return x;
}

/// A variational autoencoder on images (B, P) by given normals (B, Z), with momentum. Layers of the
/// encoder, the mean, the logarithm of the variance, and two of the decoder.
Tensor variational_step(const Tensors& p, const Tensors& velocities, const Tensor& images,
                        const Tensor& noise) {
  return training_step(
      [&] {
        const Tensor hidden = at::relu(at::linear(images, p[0], p[1]));
        const Tensor mean = at::linear(hidden, p[2], p[3]);
        const Tensor log_variance = at::linear(hidden, p[4], p[5]);
        const Tensor code = mean + noise * (0.5 * log_variance).exp();
        const Tensor logits = at::linear(at::relu(at::linear(code, p[6], p[7])), p[8], p[9]);
        const Tensor error =
            at::binary_cross_entropy_with_logits(logits, images, {}, {}, at::Reduction::Sum);
        const Tensor divergence =
            -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum();
        return (error + divergence) / images.size(0);
      },
      [&] {
        const at::NoGradGuard no_grad;
        for (size_t i = 0; i < p.size(); ++i)
          p[i].sub_(velocities[i].mul_(0.9).add_(p[i].grad()), 1e-3);
        clear_gradients(p);
      });
}

/// A Gaussian process's negative log likelihood of values (N) at points (N, D), and a step of its
/// hyperparameters, which are logarithms: lengths (D), scale and noise.
Tensor gaussian_process_step(const Tensor& lengths, const Tensor& scale, const Tensor& noise,
                             const Tensor& points, const Tensor& values) {
  const at::AutoGradMode grad(true);
  const int64_t n = points.size(0);
  const Tensor l = lengths.detach().requires_grad_(), s = scale.detach().requires_grad_(),
               e = noise.detach().requires_grad_();
  const Tensor x = points / l.exp(), squares = x.square().sum(1);
  const Tensor distance = (squares.unsqueeze(1) + squares - 2 * at::mm(x, x.t())).clamp_min(0);
  const Tensor kernel = s.exp() * (-0.5 * distance).exp() + e.exp() * at::eye(n, points.options());
  const Tensor factor = at::linalg_cholesky(kernel);
  const Tensor weights = at::cholesky_solve(values.unsqueeze(1), factor).squeeze(1);
  const Tensor loss = 0.5 * values.dot(weights) + factor.diagonal().log().sum() +
                      0.5 * static_cast<double>(n) * std::log(2 * std::numbers::pi);
  const auto gradients = torch::autograd::grad({loss}, {l, s, e});
  const at::NoGradGuard no_grad;
  lengths.sub_(gradients[0], 1e-3);
  scale.sub_(gradients[1], 1e-3);
  noise.sub_(gradients[2], 1e-3);
  return loss.detach();
}

/// A network that is to solve Burgers's equation: its residual at points (N, 2) of place and time,
/// and what it should be (M, 1) at others (M, 2).
Tensor burgers_step(const Tensors& p, const Tensor& points, const Tensor& known,
                    const Tensor& values) {
  const at::AutoGradMode grad(true);
  const auto network = [&](const Tensor& x) { return layered(p, x, at::tanh); };
  const Tensor x = points.slice(1, 0, 1).detach().requires_grad_();
  const Tensor t = points.slice(1, 1, 2).detach().requires_grad_();
  const Tensor u = network(at::cat({x, t}, 1)), ones = at::ones_like(u);
  const auto first = torch::autograd::grad({u}, {x, t}, {ones}, /*retain_graph=*/true,
                                           /*create_graph=*/true);
  const auto second = torch::autograd::grad({first[0]}, {x}, {ones}, /*retain_graph=*/true,
                                            /*create_graph=*/true);
  const Tensor residual = first[1] + u * first[0] - 0.01 / std::numbers::pi * second[0];
  const Tensor loss = residual.square().mean() + at::mse_loss(network(known), values);
  loss.backward();
  descend(p, 1e-3);
  return loss.detach();
}

/// SimCLR's projection of two views' features (B, F), its loss over all pairs, and LARS.
Tensor two_view_step(const Tensors& p, const Tensors& velocities, const Tensor& one,
                     const Tensor& other) {
  const int64_t n = one.size(0);
  const auto loss_of = [&] {
    const Tensor z = layered(p, at::cat({one, other}), at::relu);
    const Tensor unit = z / z.norm(2, 1, /*keepdim=*/true).clamp_min(1e-12);
    const Tensor same = at::eye(2 * n, at::kBool);
    const Tensor scores = (at::mm(unit, unit.t()) / 0.1).masked_fill(same, -1e9);
    const Tensor partner = at::cat({at::arange(n, 2 * n, at::kLong), at::arange(n, at::kLong)});
    return at::cross_entropy_loss(scores, partner);
  };
  return training_step(loss_of, [&] {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < p.size(); ++i) {
      const Tensor g = p[i].grad() + 1e-6 * p[i];
      const Tensor trust = 0.001 * p[i].norm() / (g.norm() + 1e-9);
      p[i].sub_(velocities[i].mul_(0.9).add_(g * trust), 0.3);
    }
    clear_gradients(p);
  });
}

/// RealNVP on x (B, D): couplings of halves, each by two layers, and Adam.
Tensor coupling_flow_step(const Tensors& p, const Tensors& first, const Tensors& second,
                          const Tensor& steps, const Tensor& x) {
  const auto loss_of = [&] {
    const auto halves = x.chunk(2, 1);
    Tensor kept = halves[0], moved = halves[1], log_det = at::zeros({x.size(0)}, x.options());
    for (size_t i = 0; i < p.size(); i += 4) {
      const Tensor hidden = at::leaky_relu(at::linear(kept, p[i], p[i + 1]));
      const auto made = at::linear(hidden, p[i + 2], p[i + 3]).chunk(2, 1);
      const Tensor scale = at::tanh(made[0]);
      moved = moved * scale.exp() + made[1];
      log_det = log_det + scale.sum(1);
      std::swap(kept, moved);
    }
    const Tensor z = at::cat({kept, moved}, 1);
    const Tensor normal = -0.5 * (z.square() + std::log(2 * std::numbers::pi)).sum(1);
    return -(normal + log_det).mean();
  };
  return training_step(loss_of, [&] { adam(p, first, second, steps, 1e-3); });
}

/// A layer of graph attention over edges of nodes (N, F), and classes of those in `chosen`.
/// Parameters: features (H D, F), both sides' attention (H, D), the classes' layer and its bias.
Tensor citation_step(const Tensors& p, const Tensor& x, const Tensor& source, const Tensor& target,
                     const Tensor& chosen, const Tensor& labels) {
  const at::AutoGradMode grad(true);
  const int64_t n = x.size(0), heads = p[1].size(0);
  const Tensor h = at::linear(x, p[0]).view({n, heads, -1});
  const Tensor score = at::leaky_relu(
      (h * p[1]).sum(-1).index_select(0, source) + (h * p[2]).sum(-1).index_select(0, target), 0.2);
  const Tensor highest =
      at::full({n, heads}, -1e9, x.options())
          .scatter_reduce(0, target.unsqueeze(1).expand_as(score), score.detach(), "amax");
  const Tensor weight = (score - highest.index_select(0, target)).exp();
  const Tensor total = at::zeros({n, heads}, x.options()).index_add(0, target, weight);
  const Tensor alpha = weight / (total.index_select(0, target) + 1e-16);
  const Tensor mixed =
      at::zeros_like(h).index_add(0, target, h.index_select(0, source) * alpha.unsqueeze(-1));
  const Tensor logits = at::linear(at::elu(mixed.flatten(1)), p[3], p[4]);
  const Tensor loss = at::cross_entropy_loss(logits.index_select(0, chosen), labels);
  const auto gradients = torch::autograd::grad({loss}, p);
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < p.size(); ++i) p[i].sub_(gradients[i] + 5e-4 * p[i], 0.05);
  return loss.detach();
}

Tensor gram(const Tensor& features) {
  const Tensor rows = features.flatten(2).squeeze(0);
  return at::mm(rows, rows.t()) / rows.numel();
}

/// Style transfer: an image (1, 3, S, S) goes along the gradient of its distance to Gram matrices
/// of three layers, to the last one's features, and to smoothness. Filters with biases.
Tensor style_step(const Tensor& image, const Tensors& filters, const Tensors& styles,
                  const Tensor& content) {
  const at::AutoGradMode grad(true);
  const Tensor pixels = image.detach().requires_grad_();
  Tensor x = pixels, style = at::zeros({}, image.options());
  for (size_t i = 0; i < styles.size(); ++i) {
    if (i == 2) x = at::avg_pool2d(x, 2);
    x = at::relu(at::conv2d(x, filters[2 * i], filters[2 * i + 1], 1, 1));
    style = style + at::mse_loss(gram(x), styles[i]);
  }
  const Tensor rough = (pixels.slice(2, 1) - pixels.slice(2, 0, -1)).abs().mean() +
                       (pixels.slice(3, 1) - pixels.slice(3, 0, -1)).abs().mean();
  const Tensor loss = 100 * style + at::mse_loss(x, content) + 0.1 * rough;
  loss.backward();
  const at::NoGradGuard no_grad;
  image.sub_(pixels.grad() / pixels.grad().abs().mean(), 0.01).clamp_(0, 1);
  return loss.detach();
}

/// Clicks from categories (B, C), each with its table, and numbers (B, F): batch norms, whose
/// running means and variances move, dropout by given masks (B, W), Nesterov's momentum.
/// Parameters: two layers and norms, the last layer, tables.
Tensor tabular_step(const Tensors& p, const Tensors& velocities, const Tensors& running,
                    const Tensor& categories, const Tensor& numbers, const Tensors& kept,
                    const Tensor& labels) {
  const auto loss_of = [&] {
    Tensors parts{numbers};
    for (int64_t i = 0; i < categories.size(1); ++i)
      parts.push_back(at::embedding(p[static_cast<size_t>(10 + i)], categories.select(1, i)));
    Tensor x = at::cat(parts, 1);
    for (size_t i = 0; i < 2; ++i) {
      x = at::linear(x, p[4 * i], p[4 * i + 1]);
      x = at::batch_norm(x, p[4 * i + 2], p[4 * i + 3], running[2 * i], running[2 * i + 1],
                         /*training=*/true, 0.1, 1e-5, /*cudnn_enabled=*/false);
      x = at::relu(x) * kept[i] / 0.8;
    }
    const Tensor logits = at::linear(x, p[8], p[9]).squeeze(1);
    return at::binary_cross_entropy_with_logits(logits, labels * 0.9 + 0.05);
  };
  return training_step(loss_of, [&] {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < p.size(); ++i) {
      const Tensor g = p[i].grad();
      p[i].sub_(g + 0.9 * velocities[i].mul_(0.9).add_(g), 0.01);
    }
    clear_gradients(p);
  });
}

/// A gated recurrent cell over x (B, T, I), a number foretold from its last state; gradients
/// clipped by their norm, RMSprop. Parameters: the cell's four, the last layer's two.
Tensor gated_recurrent_step(const Tensors& p, const Tensors& squares, const Tensor& x,
                            const Tensor& wanted) {
  const auto loss_of = [&] {
    Tensor h = at::zeros({x.size(0), p[1].size(1)}, x.options());
    for (int64_t t = 0; t < x.size(1); ++t) {
      const auto in = at::linear(x.select(1, t), p[0], p[2]).chunk(3, 1);
      const auto own = at::linear(h, p[1], p[3]).chunk(3, 1);
      const Tensor reset = at::sigmoid(in[0] + own[0]), keep = at::sigmoid(in[1] + own[1]);
      const Tensor fresh = at::tanh(in[2] + reset * own[2]);
      h = (1 - keep) * fresh + keep * h;
    }
    return at::mse_loss(at::linear(h, p[4], p[5]).squeeze(1), wanted);
  };
  return training_step(loss_of, [&] {
    const at::NoGradGuard no_grad;
    Tensors norms;
    for (const Tensor& w : p) norms.push_back(w.grad().norm());
    const Tensor scale = (1 / (at::stack(norms).norm() + 1e-6)).clamp_max(1);
    for (size_t i = 0; i < p.size(); ++i) {
      const Tensor g = p[i].grad() * scale;
      squares[i].mul_(0.99).addcmul_(g, g, 0.01);
      p[i].addcdiv_(g, squares[i].sqrt().add_(1e-8), -1e-3);
    }
    clear_gradients(p);
  });
}

/// Double Q-learning from a replay of weighted transitions, and the targets' network moved towards
/// the learner's: the loss, and new priorities (B).
std::tuple<Tensor, Tensor> double_q_step(const Tensors& p, const Tensors& first,
                                         const Tensors& second, const Tensor& steps,
                                         const Tensors& slow, const Tensor& seen,
                                         const Tensor& action, const Tensor& reward,
                                         const Tensor& next, const Tensor& done,
                                         const Tensor& weight) {
  Tensor wanted;
  {
    const at::NoGradGuard no_grad;
    const Tensor best = layered(p, next, at::relu).argmax(1, /*keepdim=*/true);
    const Tensor later = layered(slow, next, at::relu).gather(1, best).squeeze(1);
    wanted = reward + 0.99 * (1 - done) * later;
  }
  Tensor error;
  const auto loss_of = [&] {
    const Tensor values = layered(p, seen, at::relu);
    const Tensor taken = values.gather(1, action.unsqueeze(1)).squeeze(1);
    error = (taken - wanted).abs().detach();
    return (weight * at::smooth_l1_loss(taken, wanted, at::Reduction::None)).mean();
  };
  const Tensor loss = training_step(loss_of, [&] {
    adam(p, first, second, steps, 3e-4);
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < p.size(); ++i) slow[i].lerp_(p[i], 0.005);
  });
  return {loss, (error + 1e-6).pow(0.6)};
}

/// Low-rank adapters (A, B of up and down) learn beside frozen weights: tokens (T, W), a block's
/// up (M, W) and down (W, M), the head (V, W). AdamW.
Tensor low_rank_step(const Tensors& p, const Tensors& first, const Tensors& second,
                     const Tensor& steps, const Tensors& frozen, const Tensor& x,
                     const Tensor& tokens) {
  const auto adapted = [&](const Tensor& y, const Tensor& w, size_t i) {
    return at::linear(y, w) + at::linear(at::linear(y, p[i]), p[i + 1]) * 2;
  };
  const auto loss_of = [&] {
    const Tensor h = x + adapted(at::gelu(adapted(x, frozen[0], 0)), frozen[1], 2);
    const Tensor normal = h * at::rsqrt(h.square().mean(-1, /*keepdim=*/true) + 1e-6);
    return at::cross_entropy_loss(at::linear(normal, frozen[2]), tokens);
  };
  return training_step(loss_of, [&] { adam(p, first, second, steps, 2e-4, /*decay=*/0.01); });
}

/// RotatE: triples (B, 3), whose relation's phases turn the head, against other tails (B, K), by
/// self-adversarial weights, and Adagrad. Parameters: entities (N, 2 D), relations (R, D).
Tensor rotation_step(const Tensors& p, const Tensors& sums, const Tensor& triples,
                     const Tensor& others) {
  const auto loss_of = [&] {
    const auto parts = triples.unbind(1);
    const auto head = p[0].index_select(0, parts[0]).chunk(2, -1);
    const Tensor phase = p[1].index_select(0, parts[1]) * std::numbers::pi;
    const Tensor cos = phase.cos(), sin = phase.sin();
    const Tensor real = head[0] * cos - head[1] * sin, imaginary = head[0] * sin + head[1] * cos;
    const Tensor tails = at::cat({parts[2].unsqueeze(1), others}, 1);
    const auto tail = at::embedding(p[0], tails).chunk(2, -1);
    const Tensor apart =
        at::stack({real.unsqueeze(1) - tail[0], imaginary.unsqueeze(1) - tail[1]}, 0);
    const Tensor score = 12 - apart.norm(2, 0).sum(-1);
    const Tensor wrong = score.slice(1, 1);
    const Tensor weight = at::softmax(wrong, 1).detach();
    const Tensor by_wrong = (weight * at::log_sigmoid(-wrong)).sum(1).mean();
    return -(at::log_sigmoid(score.select(1, 0)).mean() + by_wrong) / 2;
  };
  return training_step(loss_of, [&] {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < p.size(); ++i) {
      const Tensor& g = p[i].grad();
      sums[i].addcmul_(g, g);
      p[i].addcdiv_(g, sums[i].sqrt() + 1e-10, -0.05);
    }
    clear_gradients(p);
  });
}

int64_t count_of(const Tensors& all) {
  int64_t sum = 0;
  for (const Tensor& t : all) sum += t.numel();
  return sum;
}

/// Weights (out, in) between layers of these sizes, and biases: leaves.
Tensors layers_of(Draw& draw, const std::vector<int64_t>& sizes) {
  Tensors made;
  for (size_t i = 1; i < sizes.size(); ++i) {
    const double scale = 1 / std::sqrt(static_cast<double>(sizes[i - 1]));
    made.push_back(draw.normal({sizes[i], sizes[i - 1]}).mul_(scale).requires_grad_());
    made.push_back(draw.normal({sizes[i]}).mul_(0.1).requires_grad_());
  }
  return made;
}

Tensors joined(Tensors one, const Tensors& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

/// Like the parameters: normals of `size`, or with `positive` squares of such.
Tensors moments_of(Draw& draw, const Tensors& parameters, double size, bool positive = false) {
  Tensors made;
  for (const Tensor& p : parameters)
    made.push_back(positive ? draw.uniform(p.sizes(), 0.1 * size * size, size * size)
                            : draw.normal(p.sizes()).mul_(size));
  return made;
}

/// Bounds of a step: its inputs, `written` numbers, and three times the forward's FLOPs.
Instance learner(Instance made, int64_t written, int64_t forward) {
  const int64_t bytes = made.input_bytes + 4 * written;
  return bounded(std::move(made), bytes, 3 * forward);
}

Instance variational_case(const Options& o) {
  const int64_t batch = o.integer("batch"), pixels = o.integer("pixels"),
                width = o.integer("width"), code = 20;
  Draw draw(o);
  Tensors p = layers_of(draw, {pixels, width, code});
  p = joined(joined(p, layers_of(draw, {width, code})), layers_of(draw, {code, width, pixels}));
  return learner(updating_instance_of(variational_step, p, moments_of(draw, p, 0.01),
                                      draw.uniform({batch, pixels}), draw.normal({batch, code})),
                 2 * count_of(p), batch * (2 * count_of(p) + 3 * kFunction * pixels));
}

Instance gaussian_process_case(const Options& o) {
  const int64_t n = o.integer("points"), width = o.integer("width");
  Draw draw(o);
  const Tensor points = draw.uniform({n, width}, -2, 2).to(at::kDouble);
  const Tensor values = points.sin().sum(1) + 0.1 * draw.normal({n}).to(at::kDouble);
  const auto number = [](double x) { return at::full({}, x, at::kDouble); };
  return learner(updating_instance_of(gaussian_process_step, at::zeros({width}, at::kDouble),
                                      number(0.5), number(-3), points, values),
                 2 * (width + 2), n * n * (2 * width + kFunction + 6) + n * n * n / 3);
}

Instance burgers_case(const Options& o) {
  const int64_t n = o.integer("points"), known = n / 8, width = o.integer("width");
  Draw draw(o);
  const Tensors p = layers_of(draw, {2, width, width, width, width, 1});
  return learner(updating_instance_of(burgers_step, p, draw.uniform({n, 2}),
                                      draw.uniform({known, 2}), draw.uniform({known, 1}, -1, 1)),
                 count_of(p), (5 * n + known) * (2 * count_of(p) + 4 * kFunction * width));
}

Instance two_view_case(const Options& o) {
  const int64_t batch = o.integer("batch"), features = o.integer("features"), width = 128;
  Draw draw(o);
  const Tensors p = layers_of(draw, {features, features, width});
  const Tensor one = draw.normal({batch, features}),
               other = one + 0.5 * draw.normal({batch, features});
  return learner(updating_instance_of(two_view_step, p, moments_of(draw, p, 1e-4), one, other),
                 2 * count_of(p),
                 4 * batch * count_of(p) + 4 * batch * batch * (2 * width + kFunction));
}

Instance coupling_flow_case(const Options& o) {
  const int64_t batch = o.integer("batch"), half = 4, width = o.integer("width");
  Draw draw(o);
  Tensors p;
  for (int i = 0; i < 6; ++i) p = joined(p, layers_of(draw, {half, width, 2 * half}));
  return learner(updating_instance_of(coupling_flow_step, p, moments_of(draw, p, 0.01),
                                      moments_of(draw, p, 0.1, /*positive=*/true),
                                      at::full({}, 100.0), draw.normal({batch, 2 * half})),
                 3 * count_of(p), 2 * batch * count_of(p));
}

Instance citation_case(const Options& o) {
  const int64_t nodes = o.integer("nodes"), edges = o.integer("edges"), features = 128, heads = 4,
                width = 16, classes = 7;
  Draw draw(o);
  Tensors p{draw.normal({heads * width, features}).mul_(0.1), draw.normal({heads, width}),
            draw.normal({heads, width})};
  for (const Tensor& t : p) t.requires_grad_();
  p = joined(p, layers_of(draw, {heads * width, classes}));
  const Tensor chosen = at::arange(0, nodes, 10, at::kLong);
  return learner(updating_instance_of(citation_step, p, draw.normal({nodes, features}),
                                      draw.integers({edges}, nodes), draw.integers({edges}, nodes),
                                      chosen, draw.integers({chosen.size(0)}, classes)),
                 count_of(p),
                 2 * nodes * count_of(p) + edges * heads * (2 * width + kFunction + 6));
}

Instance style_case(const Options& o) {
  const int64_t side = 2 * o.integer("half"), width = o.integer("width");
  Draw draw(o);
  Tensors filters, styles;
  for (const auto& [in, out] :
       {std::pair<int64_t, int64_t>{3, width}, {width, width}, {width, 2 * width}}) {
    const double scale = std::sqrt(2 / (9 * static_cast<double>(in)));
    filters.push_back(draw.normal({out, in, 3, 3}).mul_(scale));
    filters.push_back(draw.normal({out}).mul_(0.1));
    styles.push_back(draw.uniform({out, out}, 0, 0.1));
  }
  const int64_t fine = 2 * side * side * 9 * (3 * width + width * width),
                coarse = side * side / 2 * 9 * 2 * width * width;
  return learner(updating_instance_of(style_step, draw.uniform({1, 3, side, side}), filters, styles,
                                      draw.uniform({1, 2 * width, side / 2, side / 2})),
                 3 * side * side, fine + coarse + 6 * side * side * width * width);
}

Instance tabular_case(const Options& o) {
  const int64_t batch = o.integer("batch"), categories = 8, numbers = 13,
                width = o.integer("width"), rows = 500, each = 8;
  Draw draw(o);
  Tensors p, running, kept;
  int64_t in = numbers + categories * each;
  for (int layer = 0; layer < 2; ++layer, in = width) {
    p = joined(p, layers_of(draw, {in, width}));
    p.push_back(draw.uniform({width}, 0.5, 1.5).requires_grad_());
    p.push_back(draw.normal({width}).requires_grad_());
    running = joined(running, {at::zeros({width}), at::ones({width})});
    kept.push_back((draw.uniform({batch, width}) < 0.8).to(at::kFloat));
  }
  p = joined(p, layers_of(draw, {width, 1}));
  const int64_t dense = count_of(p);
  for (int64_t i = 0; i < categories; ++i) p.push_back(draw.normal({rows, each}).requires_grad_());
  const Tensor labels = (draw.uniform({batch}) < 0.3).to(at::kFloat);
  return learner(updating_instance_of(tabular_step, p, moments_of(draw, p, 1e-3), running,
                                      draw.integers({batch, categories}, rows),
                                      draw.normal({batch, numbers}), kept, labels),
                 2 * count_of(p) + 4 * width, batch * (2 * dense + 20 * width));
}

Instance gated_recurrent_case(const Options& o) {
  const int64_t batch = o.integer("batch"), steps = o.integer("steps"), inputs = 16,
                width = o.integer("width");
  Draw draw(o);
  const Tensors in = layers_of(draw, {inputs, 3 * width}),
                own = layers_of(draw, {width, 3 * width});
  const Tensors p = joined({in[0], own[0], in[1], own[1]}, layers_of(draw, {width, 1}));
  return learner(
      updating_instance_of(gated_recurrent_step, p, moments_of(draw, p, 0.05, /*positive=*/true),
                           draw.normal({batch, steps, inputs}), draw.normal({batch})),
      2 * count_of(p), batch * steps * (2 * count_of(p) + 3 * kFunction * width));
}

Instance double_q_case(const Options& o) {
  const int64_t batch = o.integer("batch"), seen = 64, width = o.integer("width"), actions = 8;
  Draw draw(o);
  const Tensors p = layers_of(draw, {seen, width, width, actions});
  Tensors slow;
  for (const Tensor& t : p) slow.push_back(t.detach() + 0.01 * draw.normal(t.sizes()));
  const Tensor done = (draw.uniform({batch}) < 0.1).to(at::kFloat);
  return learner(
      updating_instance_of(
          double_q_step, p, moments_of(draw, p, 1e-3), moments_of(draw, p, 0.01, /*positive=*/true),
          at::full({}, 100.0), slow, draw.normal({batch, seen}), draw.integers({batch}, actions),
          draw.normal({batch}), draw.normal({batch, seen}), done, draw.uniform({batch}, 0.2, 1)),
      4 * count_of(p) + batch, 10 * batch * count_of(p) / 3);
}

Instance low_rank_case(const Options& o) {
  const int64_t count = o.integer("tokens"), width = o.integer("width"), middle = 8 * width / 3,
                words = 2 * width, rank = 8;
  Draw draw(o);
  const auto matrix = [&](int64_t out, int64_t in) {
    return draw.normal({out, in}).mul_(1 / std::sqrt(static_cast<double>(in)));
  };
  const Tensors frozen{matrix(middle, width), matrix(width, middle), matrix(words, width)};
  const Tensors p{matrix(rank, width), matrix(middle, rank).mul_(0.1), matrix(rank, middle),
                  matrix(width, rank).mul_(0.1)};
  for (const Tensor& t : p) t.requires_grad_();
  return learner(
      updating_instance_of(low_rank_step, p, moments_of(draw, p, 1e-3),
                           moments_of(draw, p, 0.01, /*positive=*/true), at::full({}, 100.0),
                           frozen, draw.normal({count, width}), draw.integers({count}, words)),
      3 * count_of(p),
      2 * count * (count_of(p) + 2 * count_of(frozen) / 3) + count * kFunction * (middle + words));
}

Instance rotation_case(const Options& o) {
  const int64_t batch = o.integer("batch"), entities = o.integer("entities"), others = 32,
                width = 64, relations = 32;
  Draw draw(o);
  const Tensors p{draw.uniform({entities, 2 * width}, -0.2, 0.2).requires_grad_(),
                  draw.uniform({relations, width}, -1, 1).requires_grad_()};
  const Tensor triples = draw.integers({batch, 3}, entities);
  triples.select(1, 1).remainder_(relations);
  return learner(
      updating_instance_of(rotation_step, p, moments_of(draw, p, 0.01, /*positive=*/true), triples,
                           draw.integers({batch, others}, entities)),
      2 * count_of(p), batch * width * (2 * kFunction + 6 + 8 * (others + 1)));
}

}  // namespace

std::vector<Workload> learner_cases() {
  const auto samples = [](const char* count) { return Axis{"batch", count, "19", "samples"}; };
  const auto width = [](auto count, auto small) { return Axis{"width", count, small, "hidden"}; };
  const auto step = [](const char* name, const char* summary, const std::vector<Axis>& axes,
                       Instance (*build)(const Options&), double tolerance = kSums) {
    return Workload{name, summary, axes, build, tolerance};
  };
  return {
      step("variational_step_f32", "a variational autoencoder's step, with momentum",
           {samples("128"), {"pixels", "784", "45", "of an image"}, width("400", "21")},
           variational_case),
      step("gaussian_process_step_f64", "a Gaussian process's likelihood and hyperparameters",
           {{"points", "256", "37", "where values are known"}, {"width", "4", "3", "of a point"}},
           gaussian_process_case),
      step("burgers_step_f32", "a network that solves an equation, by derivatives of its inputs",
           {{"points", "1024", "41", "of the equation"}, width("20", "7")}, burgers_case),
      step("two_view_step_f32", "SimCLR's projection and loss of two views, and LARS",
           {samples("192"), {"features", "512", "45", "of a view"}}, two_view_case),
      step("coupling_flow_step_f32", "RealNVP's couplings, their likelihood, and Adam",
           {samples("512"), width("64", "13")}, coupling_flow_case),
      step("citation_step_f32", "a step of graph attention over citations",
           {{"nodes", "2708", "67", "papers"}, {"edges", "10556", "203", "citations"}},
           citation_case),
      step("style_step_f32", "an image moved towards a style's Gram matrices",
           {{"half", "48", "9", "half of the rows and columns"}, {"width", "24", "5", "features"}},
           style_case),
      step("tabular_step_f32", "categories and numbers by batch norms, Nesterov's momentum",
           {samples("1024"), width("128", "21")}, tabular_case, 10 * kSums),
      step("gated_recurrent_step_f32", "a recurrent cell unrolled, gradients clipped, RMSprop",
           {samples("64"), {"steps", "16", "5", "of a sequence"}, width("128", "21")},
           gated_recurrent_case),
      step("double_q_step_f32", "double Q-learning from a weighted replay, targets moved slowly",
           {samples("128"), width("256", "21")}, double_q_case),
      step("low_rank_step_f32", "low-rank adapters beside frozen weights, and AdamW",
           {{"tokens", "128", "19", "of the sequences"}, width("512", "21")}, low_rank_case),
      step("rotation_step_f32", "RotatE against other tails, and Adagrad",
           {samples("128"), {"entities", "4096", "67", "of the graph"}}, rotation_case),
  };
}

}  // namespace graft::workloads::wild
