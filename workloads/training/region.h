// Regions of a model, forward and backward, as workloads.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <memory>
#include <tuple>

#include "graft/workload.h"

namespace graft::workloads {

/// f's result, and the gradients of its first `count` inputs in a direction.
template <class F>
Tensors forward_backward(F f, Tensors inputs, size_t count, const at::Tensor& direction) {
  const at::AutoGradMode grad(true);
  for (size_t k = 0; k < count; ++k) inputs[k] = inputs[k].detach().requires_grad_();
  const at::Tensor result = f(inputs);
  const Tensors leaves(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(count));
  Tensors all = torch::autograd::grad({result}, leaves, {direction});
  all.insert(all.begin(), result.detach());
  return all;
}

/// Such a region as a workload: f is what is compiled, as a part of somebody's model. With its
/// lower bound: inputs, result and gradients once each, and `flops` per element of the first input.
template <class F>
Instance region_of(F f, const Tensors& inputs, size_t count, const at::Tensor& direction,
                   double flops) {
  using Args = std::tuple<Tensors, at::Tensor>;
  const auto differentiated = [count](const auto& g) {
    return [g, count](const Tensors& given, const at::Tensor& along) {
      return forward_backward(g, given, count, along);
    };
  };
  const auto args = std::make_shared<Args>(inputs, direction);
  Instance made = detail::instance_with(
      f, args, [=](const auto& g) { return detail::call_of(differentiated(g), args); },
      [=](const Args& given) { return detail::outputs_of(differentiated(f), given); });
  made.bytes = static_cast<double>(made.input_bytes);
  made.bytes += static_cast<double>(direction.nbytes());
  for (size_t k = 0; k < count; ++k) made.bytes += static_cast<double>(inputs[k].nbytes());
  made.flops = flops * static_cast<double>(inputs[0].numel());
  return made;
}

}  // namespace graft::workloads
