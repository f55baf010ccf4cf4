#include "workloads/training/steps.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>

#include "workloads/regions.h"
#include "workloads/training/autocast.h"

namespace graft::workloads {

using at::Tensor;
using Tensors = std::vector<Tensor>;

namespace {

/// One layer: `w` holds norm, QKV, output, norm, up and down, each followed by its bias.
Tensor gpt_layer(const Tensor& x, const Tensor* w, int64_t heads) {
  const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
  const double scale = 1 / std::sqrt(static_cast<double>(width / heads));
  const Tensor qkv = at::linear(at::layer_norm(x, {width}, w[0], w[1]), w[2], w[3]);
  const auto attend = [&] {
    RECORD_USER_SCOPE("attention");
    const auto parts =
        qkv.view({batch, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4}).unbind(0);
    const Tensor later = at::ones({length, length}, at::kBool).triu(1);
    const Tensor scores = at::matmul(parts[0], parts[1].transpose(-1, -2)) * scale;
    const Tensor weights =
        at::softmax(scores.masked_fill(later, -std::numeric_limits<double>::infinity()), -1);
    return at::matmul(weights, parts[2]).transpose(1, 2).reshape({batch, length, width});
  };
  const Tensor mixed = attend();
  const Tensor h = x + at::linear(mixed, w[4], w[5]);
  const Tensor up = at::linear(at::layer_norm(h, {width}, w[6], w[7]), w[8], w[9]);
  return h + at::linear(at::gelu(up, "tanh"), w[10], w[11]);
}

/// One layer: `w` and `masks` as ComponentLlama::loss says.
Tensor component_layer(const Tensor& x, const Tensor* w, const Tensor* masks, const Tensor& cos,
                       const Tensor& sin, int64_t heads) {
  const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
  const auto linear = [&](const Tensor& y, size_t k) {
    return component(y, w[2 + 2 * k], masks[k], w[3 + 2 * k]);
  };
  const auto projected = [&](const Tensor& y, size_t k) {
    return linear(y, k).view({batch, length, heads, width / heads}).transpose(1, 2);
  };
  const Tensor y = rmsnorm(x, w[0]);
  const auto [q, k] = rope(projected(y, 0), projected(y, 1), cos, sin);
  const Tensor mixed = at::scaled_dot_product_attention(q, k, projected(y, 2), {}, /*dropout_p=*/0,
                                                        /*is_causal=*/true);
  const Tensor h = x + linear(mixed.transpose(1, 2).reshape({batch, length, width}), 3);
  const Tensor z = rmsnorm(h, w[1]);
  return h + linear(swiglu(linear(z, 4), linear(z, 5)), 6);
}

/// `rate`: a number, or a tensor that holds one.
template <class Rate>
void adamw_update(const AdamW& o, const Rate& rate, const Tensors& parameters,
                  const Tensors& gradients, const Tensors& first, const Tensors& second,
                  const Tensor& steps) {
  const at::NoGradGuard no_grad;
  steps.add_(1);
  const Tensor size = rate / (1 - at::pow(o.beta1, steps)),
               scale = (1 - at::pow(o.beta2, steps)).rsqrt();
  for (size_t k = 0; k < parameters.size(); ++k) {
    const Tensor &p = parameters[k], &g = gradients[k];
    p.mul_(1 - rate * o.decay);
    first[k].lerp_(g, 1 - o.beta1);
    second[k].mul_(o.beta2).addcmul_(g, g, 1 - o.beta2);
    p.sub_(first[k] * size / (second[k].sqrt() * scale + o.eps));
  }
}

}  // namespace

at::Tensor Gpt::embed(const Tensors& parameters, const Tensor& tokens) {
  return at::embedding(parameters[0], tokens) + parameters[1];
}

at::Tensor Gpt::layer(const Tensor& x, const Tensors& weights) const {
  return gpt_layer(x, weights.data(), heads);
}

at::Tensor Gpt::head_loss(const Tensor& x, const Tensors& weights, const Tensor& next) {
  const Tensor& table = weights[2];
  const Tensor logits =
      at::linear(at::layer_norm(x, {table.size(1)}, weights[0], weights[1]), table);
  return at::cross_entropy_loss(logits.flatten(0, 1), next.flatten());
}

at::Tensor Gpt::loss(const Tensors& parameters, const Tensor& tokens, const Tensor& next) const {
  return loss(
      parameters, tokens, next,
      [this](const Tensor& x, const Tensors& weights) { return layer(x, weights); }, head_loss);
}

Tensor perceptron_loss(const Tensors& parameters, const Tensor& rows, const Tensor& classes) {
  const Autocast autocast(at::kBFloat16);
  Tensor x = rows;
  for (size_t at = 0; at < parameters.size(); at += 2) {
    x = at::linear(x, parameters[at], parameters[at + 1]);
    if (at + 2 < parameters.size()) x = at::relu(x);
  }
  return at::cross_entropy_loss(x, classes);
}

Tensor ComponentLlama::loss(const Tensors& parameters, const Tensor& x, const Tensors& masks,
                            const Tensor& target, const Tensor& cos, const Tensor& sin) const {
  Tensor hidden = x;
  for (size_t layer = 0; layer < parameters.size() / kOfLayer; ++layer)
    hidden = component_layer(hidden, parameters.data() + layer * kOfLayer,
                             masks.data() + layer * kLinears, cos, sin, heads);
  return at::mse_loss(hidden, target);
}

void descend(const Tensors& parameters, double rate) {
  const at::NoGradGuard no_grad;
  for (const Tensor& p : parameters) p.sub_(p.grad(), rate);
  clear_gradients(parameters);
}

void AdamW::update(const Tensors& parameters, const Tensors& gradients, const Tensors& first,
                   const Tensors& second, const Tensor& steps) const {
  adamw_update(*this, rate, parameters, gradients, first, second, steps);
}

void AdamW::update_at(const Tensor& changing_rate, const Tensors& parameters,
                      const Tensors& gradients, const Tensors& first, const Tensors& second,
                      const Tensor& steps) const {
  adamw_update(*this, changing_rate, parameters, gradients, first, second, steps);
}

}  // namespace graft::workloads
