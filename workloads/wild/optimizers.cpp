// Optimizers' steps and what goes before them. All change their arguments, as the originals do.

#include <ATen/ATen.h>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

/// Lion, the sign of an interpolated momentum.
void lion(const Tensors& parameters, const Tensors& gradients, const Tensors& momenta) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor update = (momenta[i] * 0.9 + gradients[i] * 0.1).sign();
    parameters[i].mul_(1 - 1e-4 * 0.1).add_(update, -1e-4);
    momenta[i].mul_(0.99).add_(gradients[i], 0.01);
  }
}

/// LAMB, Adam's update scaled to each parameter's norm.
void lamb(const Tensors& parameters, const Tensors& gradients, const Tensors& first,
          const Tensors& second) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor &p = parameters[i], &g = gradients[i];
    first[i].mul_(0.9).add_(g, 0.1);
    second[i].mul_(0.999).addcmul_(g, g, 0.001);
    const at::Tensor update = first[i] / (second[i].sqrt() + 1e-6) + 0.01 * p;
    const at::Tensor trust = (p.norm() / update.norm().clamp_min(1e-6)).clamp_max(10);
    p.sub_(update * trust, 1e-3);
  }
}

/// Adafactor without momentum: second moments by row (R) and column (C) of the gradient (R, C), and
/// an update of root mean square 1 at most.
void adafactor(const at::Tensor& parameter, const at::Tensor& gradient, const at::Tensor& rows,
               const at::Tensor& columns) {
  const at::Tensor square = gradient.square() + 1e-30;
  rows.mul_(0.99).add_(square.mean(1), 0.01);
  columns.mul_(0.99).add_(square.mean(0), 0.01);
  const at::Tensor by_row = (rows / rows.mean()).rsqrt().unsqueeze(1);
  const at::Tensor update = gradient * by_row * columns.rsqrt();
  parameter.sub_(update / update.square().mean().sqrt().clamp_min(1), 1e-3);
}

/// Scales gradients to a norm over all of 1 at most, and gives what it was.
at::Tensor clip_gradients(const Tensors& gradients) {
  Tensors norms;
  for (const at::Tensor& g : gradients) norms.push_back(at::linalg_vector_norm(g));
  const at::Tensor total = at::linalg_vector_norm(at::stack(norms));
  const at::Tensor scale = (1 / (total + 1e-6)).clamp_max(1);
  for (const at::Tensor& g : gradients) g.mul_(scale);
  return total;
}

/// SGD in mixed precision: gradients in bf16 under a loss scale (0-dim), parameters in bf16 with
/// masters in fp32. Where any gradient is not finite, nothing moves.
void mixed_precision_sgd(const Tensors& parameters, const Tensors& masters,
                         const Tensors& gradients, const Tensors& momenta,
                         const at::Tensor& loss_scale) {
  at::Tensor finite;
  for (const at::Tensor& g : gradients) {
    const at::Tensor own = g.isfinite().all();
    finite = finite.defined() ? finite.logical_and(own) : own;
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor moved = momenta[i] * 0.9 + wide(gradients[i]) / loss_scale;
    momenta[i].copy_(at::where(finite, moved, momenta[i]));
    masters[i].sub_(at::where(finite, moved, 0), 1e-3);
    parameters[i].copy_(masters[i]);
  }
}

/// SGD with weight decay and Nesterov's momentum over lists, as PyTorch's `foreach`.
void foreach_sgd(const Tensors& parameters, const Tensors& gradients, const Tensors& momenta) {
  const Tensors decayed = at::_foreach_add(gradients, parameters, 1e-4);
  at::_foreach_mul_(momenta, 0.9);
  at::_foreach_add_(momenta, decayed);
  at::_foreach_add_(decayed, momenta, 0.9);
  at::_foreach_add_(parameters, decayed, -1e-2);
}

/// Shampoo's step between its roots' computations: the statistics move on; the gradient (R, C) goes
/// through both roots, is grafted to its own norm, and is applied.
void shampoo(const at::Tensor& parameter, const at::Tensor& gradient, const at::Tensor& left,
             const at::Tensor& right, const at::Tensor& left_root, const at::Tensor& right_root) {
  left.mul_(0.95).add_(at::mm(gradient, gradient.t()), 0.05);
  right.mul_(0.95).add_(at::mm(gradient.t(), gradient), 0.05);
  const at::Tensor direction = at::mm(at::mm(left_root, gradient), right_root);
  parameter.sub_(direction * (gradient.norm() / direction.norm().clamp_min(1e-12)), 1e-3);
}

/// Square tensors of the axes `count` and `side`.
class Lists {
 public:
  explicit Lists(const Options& o)
      : draw_(o), count_(o.integer("count")), side_(o.integer("side")) {}
  Tensors normal(at::ScalarType dtype = at::kFloat) {
    return of([&] { return draw_.normal({side_, side_}, dtype); });
  }
  Tensors positive() {
    return of([&] { return draw_.uniform({side_, side_}, 0.01, 1); });
  }
  int64_t elements() const { return count_ * side_ * side_; }

 private:
  template <class Make>
  Tensors of(const Make& make) const {
    Tensors out;
    for (int64_t i = 0; i < count_; ++i) out.push_back(make());
    return out;
  }

  Draw draw_;
  int64_t count_, side_;
};

Instance lion_case(const Options& o) {
  Lists lists(o);
  const Tensors p = lists.normal(), g = lists.normal(), m = lists.normal();
  return bounded(updating_instance_of(lion, p, g, m), 4 * 5 * lists.elements(),
                 9 * lists.elements());
}

Instance lamb_case(const Options& o) {
  Lists lists(o);
  const Tensors p = lists.normal(), g = lists.normal(), m = lists.normal(), v = lists.positive();
  return bounded(updating_instance_of(lamb, p, g, m, v), 4 * 7 * lists.elements(),
                 18 * lists.elements());
}

Instance adafactor_case(const Options& o) {
  const int64_t rows = o.integer("rows"), columns = o.integer("columns");
  Draw draw(o);
  return bounded(
      updating_instance_of(adafactor, draw.normal({rows, columns}), draw.normal({rows, columns}),
                           draw.uniform({rows}, 0.5, 2), draw.uniform({columns}, 0.5, 2)),
      4 * (3 * rows * columns + 2 * (rows + columns)), 10 * rows * columns);
}

Instance clip_gradients_case(const Options& o) {
  Lists lists(o);
  return bounded(updating_instance_of(clip_gradients, lists.normal()), 4 * 2 * lists.elements() + 4,
                 3 * lists.elements());
}

Instance mixed_precision_sgd_case(const Options& o) {
  Lists lists(o);
  const Tensors masters = lists.normal(), gradients = lists.normal(at::kBFloat16),
                momenta = lists.normal();
  Tensors parameters;
  for (const at::Tensor& t : masters) parameters.push_back(t.to(at::kBFloat16));
  // Gradients are read, parameters written; masters and momenta both.
  return bounded(updating_instance_of(mixed_precision_sgd, parameters, masters, gradients, momenta,
                                      at::full({}, 1024.0, at::kFloat)),
                 (2 + 2 + 8 + 8) * lists.elements() + 4, 5 * lists.elements());
}

Instance foreach_sgd_case(const Options& o) {
  Lists lists(o);
  const Tensors p = lists.normal(), g = lists.normal(), m = lists.normal();
  return bounded(updating_instance_of(foreach_sgd, p, g, m), 4 * 5 * lists.elements(),
                 8 * lists.elements());
}

Instance shampoo_case(const Options& o) {
  const int64_t rows = o.integer("rows"), columns = o.integer("columns");
  Draw draw(o);
  const auto statistics = [&](int64_t side) {
    const at::Tensor x = draw.normal({side, side});
    return at::mm(x, x.t()) / side;
  };
  const auto root = [&](int64_t side) {
    return at::eye(side) + draw.normal({side, side}) * (0.1 / static_cast<double>(side));
  };
  return bounded(
      updating_instance_of(shampoo, draw.normal({rows, columns}), draw.normal({rows, columns}),
                           statistics(rows), statistics(columns), root(rows), root(columns)),
      4 * (3 * rows * columns + 3 * rows * rows + 3 * columns * columns),
      4 * rows * columns * (rows + columns));
}

std::vector<Axis> list_axes(const char* count, const char* side) {
  return {{"count", count, "3", "parameters"}, {"side", side, "33", "rows and columns of one"}};
}

std::vector<Axis> parameter_axes(const char* rows, const char* columns) {
  return {{"rows", rows, "67", "of the parameter"}, {"columns", columns, "45", "likewise"}};
}

}  // namespace

std::vector<Workload> optimizer_cases() {
  return {
      {"lion_f32", "Lion's step over parameters, in place", list_axes("4", "1024"), lion_case},
      {"lamb_f32", "LAMB's step over parameters, in place", list_axes("4", "1024"), lamb_case,
       kSums},
      {"adafactor_f32", "Adafactor's step of one parameter, in place",
       parameter_axes("2048", "2048"), adafactor_case, kSums},
      {"clip_gradients_f32", "gradients clipped by their common norm, in place",
       list_axes("8", "1024"), clip_gradients_case, kSums},
      {"mixed_precision_sgd_bf16", "SGD with fp32 masters and a loss scale, in place",
       list_axes("4", "1024"), mixed_precision_sgd_case},
      {"foreach_sgd_f32", "Nesterov's SGD by foreach operators, in place", list_axes("8", "768"),
       foreach_sgd_case},
      {"shampoo_f32", "Shampoo's step of one parameter, in place", parameter_axes("512", "384"),
       shampoo_case, kSums},
  };
}

}  // namespace graft::workloads::wild
