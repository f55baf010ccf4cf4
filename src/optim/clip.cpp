// torch::nn::utils::clip_grad_norm_, operator by operator, without its read on the host.
#include <ATen/ops/clamp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/max.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <optional>
#include <vector>

#include "graft/optim.h"

namespace graft {

at::Tensor clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm,
                           double norm_type) {
  std::vector<at::Tensor> gradients, norms;
  for (const at::Tensor& parameter : parameters)
    if (parameter.grad().defined()) gradients.push_back(parameter.grad().data());
  if (gradients.empty()) return at::zeros({});
  const bool largest = std::isinf(norm_type) && norm_type > 0;
  for (const at::Tensor& gradient : gradients)
    if (norm_type != 0) norms.push_back(largest ? gradient.abs().max() : gradient.norm(norm_type));
  const auto joined = [&] {
    if (norm_type == 0) return at::full({}, static_cast<double>(gradients.size()));
    if (norms.size() == 1) return norms[0];
    const at::Tensor all = at::stack(norms);
    return largest ? at::max(all) : all.norm(norm_type);
  };
  const at::Tensor total = joined();
  const at::Tensor scale = at::clamp(total.add(1e-6).reciprocal().mul(max_norm), std::nullopt, 1.0);
  for (const at::Tensor& gradient : gradients) gradient.mul_(scale);
  return total;
}

}  // namespace graft
