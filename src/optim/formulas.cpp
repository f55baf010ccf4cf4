#include "optim/formulas.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/max.h>

namespace graft::optim {

using at::Tensor;

namespace {

Tensor decayed(const Tensor& gradient, const Tensor& parameter, double decay) {
  return decay == 0 ? gradient : gradient.add(parameter, decay);
}

void sgd(const Constants& c, const Tensor& p, const Tensor& gradient, const Tensor& momentum,
         const Numbers& numbers) {
  Tensor g = decayed(gradient, p, c.weight_decay);
  if (c.momentum != 0) {
    momentum.mul_(c.momentum).add_(g, 1 - c.dampening);
    g = c.nesterov ? g.add(momentum, c.momentum) : momentum;
  }
  p.add_(g, numbers[0]);
}

void adam(const Constants& c, const Tensor& p, const Tensor& first, const Tensor& second,
          const Tensor& most, const Numbers& numbers) {
  const bool decoupled = c.kind == Kind::AdamW;
  if (decoupled && c.weight_decay != 0) p.mul_(numbers[0]);
  const Tensor g = decoupled ? p.grad() : decayed(p.grad(), p, c.weight_decay);
  first.mul_(c.beta1).add_(g, 1 - c.beta1);
  second.mul_(c.beta2).addcmul_(g, g, 1 - c.beta2);
  if (c.amsgrad) most.copy_(at::max(second, most));
  const Tensor denominator = ((c.amsgrad ? most : second).sqrt() / numbers[1]).add_(c.eps);
  p.addcdiv_(first, denominator, numbers[2]);
}

void rmsprop(const Constants& c, const Tensor& p, const Tensor& squares, const Tensor& momentum,
             const Tensor& average, const Numbers& numbers) {
  const Tensor g = decayed(p.grad(), p, c.weight_decay);
  squares.mul_(c.beta1).addcmul_(g, g, 1 - c.beta1);
  Tensor root;
  if (c.centered) {
    average.mul_(c.beta1).add_(g, 1 - c.beta1);
    root = squares.addcmul(average, average, -1).sqrt_().add_(c.eps);
  } else {
    root = squares.sqrt().add_(c.eps);
  }
  if (c.momentum > 0) {
    momentum.mul_(c.momentum).addcdiv_(g, root);
    p.add_(momentum, numbers[0]);
  } else {
    p.addcdiv_(g, root, numbers[0]);
  }
}

void adagrad(const Constants& c, const Tensor& p, const Tensor& sum, const Numbers& numbers) {
  const Tensor g = decayed(p.grad(), p, c.weight_decay);
  sum.addcmul_(g, g, 1.0);
  p.addcdiv_(g, sum.sqrt().add_(c.eps), numbers[0]);
}

}  // namespace

void update(const Constants& c, const Tensors& parameters, const Tensors& gradients,
            const States& states, const Numbers& numbers) {
  const at::NoGradGuard no_grad;
  auto state = [&](size_t which, size_t k) {
    return k < states[which].size() ? states[which][k] : Tensor();
  };
  for (size_t k = 0; k < parameters.size(); ++k) {
    const Tensor& p = parameters[k];
    switch (c.kind) {
      case Kind::SGD:
        sgd(c, p, gradients[k], state(0, k), numbers);
        break;
      case Kind::Adam:
      case Kind::AdamW:
        adam(c, p, state(0, k), state(1, k), state(2, k), numbers);
        break;
      case Kind::RMSprop:
        rmsprop(c, p, state(0, k), state(1, k), state(2, k), numbers);
        break;
      case Kind::Adagrad:
        adagrad(c, p, state(0, k), numbers);
        break;
      case Kind::Unknown:
        break;
    }
  }
}

}  // namespace graft::optim
