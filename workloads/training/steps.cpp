#include "workloads/training/steps.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>

namespace graft::workloads {

using at::Tensor;
using Tensors = std::vector<Tensor>;

namespace {

/// One layer: `w` holds norm, QKV, output, norm, up and down, each followed by its bias.
Tensor gpt_layer(const Tensor& x, const Tensor* w, int64_t heads) {
  const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
  const double scale = 1 / std::sqrt(static_cast<double>(width / heads));
  const Tensor qkv = at::linear(at::layer_norm(x, {width}, w[0], w[1]), w[2], w[3]);
  const auto parts =
      qkv.view({batch, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4}).unbind(0);
  const Tensor later = at::ones({length, length}, at::kBool).triu(1);
  const Tensor scores = at::matmul(parts[0], parts[1].transpose(-1, -2)) * scale;
  const Tensor weights =
      at::softmax(scores.masked_fill(later, -std::numeric_limits<double>::infinity()), -1);
  const Tensor mixed =
      at::matmul(weights, parts[2]).transpose(1, 2).reshape({batch, length, width});
  const Tensor h = x + at::linear(mixed, w[4], w[5]);
  const Tensor up = at::linear(at::layer_norm(h, {width}, w[6], w[7]), w[8], w[9]);
  return h + at::linear(at::gelu(up, "tanh"), w[10], w[11]);
}

}  // namespace

at::Tensor Gpt::loss(const Tensors& parameters, const Tensor& tokens, const Tensor& next) const {
  constexpr size_t kOfBlock = 12;
  const Tensor &table = parameters[0], &last = parameters[parameters.size() - 2],
               &bias = parameters.back();
  Tensor x = at::embedding(table, tokens) + parameters[1];
  for (size_t at = 2; at + kOfBlock <= parameters.size() - 2; at += kOfBlock)
    x = gpt_layer(x, parameters.data() + at, heads);
  const Tensor logits = at::linear(at::layer_norm(x, {table.size(1)}, last, bias), table);
  return at::cross_entropy_loss(logits.flatten(0, 1), next.flatten());
}

void AdamW::update(const Tensors& parameters, const Tensors& gradients, const Tensors& first,
                   const Tensors& second, const Tensor& steps) const {
  const at::NoGradGuard no_grad;
  steps.add_(1);
  const Tensor size = rate / (1 - at::pow(beta1, steps)),
               scale = (1 - at::pow(beta2, steps)).rsqrt();
  for (size_t k = 0; k < parameters.size(); ++k) {
    const Tensor &p = parameters[k], &g = gradients[k];
    p.mul_(1 - rate * decay);
    first[k].lerp_(g, 1 - beta1);
    second[k].mul_(beta2).addcmul_(g, g, 1 - beta2);
    p.sub_(first[k] * size / (second[k].sqrt() * scale + eps));
  }
}

void AdamW::step(const Tensors& parameters, const Tensors& first, const Tensors& second,
                 const Tensor& steps) const {
  Tensors gradients;
  for (const Tensor& p : parameters) gradients.push_back(p.grad());
  update(parameters, gradients, first, second, steps);
  gradients.clear();
  for (const Tensor& p : parameters) p.mutable_grad().reset();
}

}  // namespace graft::workloads
