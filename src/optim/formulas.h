// What torch::optim's optimizers do to a parameter, with all numbers that change from step to step
// as arguments. The operators and their order, and so every rounding, are libtorch's.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <vector>

#include "graft/number.h"

namespace graft::optim {

using Tensors = std::vector<at::Tensor>;

enum class Kind { Unknown, SGD, Adam, AdamW, RMSprop, Adagrad };

/// Options that hold for long: another value is another program.
struct Constants {
  Kind kind = Kind::Unknown;
  double weight_decay = 0, momentum = 0, dampening = 0;
  double beta1 = 0, beta2 = 0;  ///< RMSprop's alpha is beta1
  double eps = 0;
  bool nesterov = false, amsgrad = false, centered = false;

  bool operator==(const Constants&) const = default;
};

/// State tensors of a parameter, each in a list over parameters; those that a kind lacks are empty.
///     SGD: momentum. Adam, AdamW: first, second moment, its maximum.
///     RMSprop: square average, momentum, average. Adagrad: sum of squares.
using States = std::array<Tensors, 3>;

/// Numbers of one step.
///     SGD: -lr. Adam, AdamW: 1 - lr * decay, sqrt(1 - beta2^n), -lr / (1 - beta1^n).
///     RMSprop: -lr. Adagrad: -lr / (1 + (n - 1) * decay).
using Numbers = std::vector<Number>;

/// Takes the gradients from the parameters, but for SGD, whose step writes data(), which has none.
/// All are dense.
void update(const Constants& constants, const Tensors& parameters, const Tensors& gradients,
            const States& states, const Numbers& numbers);

}  // namespace graft::optim
