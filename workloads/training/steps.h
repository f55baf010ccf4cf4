// Training as people write it: forward, backward() and the optimizer in one function.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <functional>
#include <tuple>
#include <vector>

namespace graft::workloads {

/// loss_of(), its backward, and update(), which uses the gradients; returns the loss. Each part is
/// named for profilers.
template <class Loss, class Update>
at::Tensor training_step(const Loss& loss_of, const Update& update) {
  const at::AutoGradMode grad(true);
  const at::Tensor loss = [&] {
    RECORD_USER_SCOPE("forward");
    return loss_of();
  }();
  {
    RECORD_USER_SCOPE("backward");
    loss.backward();
  }
  RECORD_USER_SCOPE("optimizer");
  update();
  return loss.detach();
}

inline void clear_gradients(const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& p : parameters) p.mutable_grad().reset();
}

/// A loss, and what its backward leaves in the parameters' gradients, which are cleared.
template <class Loss>
std::tuple<at::Tensor, std::vector<at::Tensor>> loss_and_gradients(
    const Loss& loss_of, const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  const at::Tensor loss = training_step(loss_of, [&] {
    for (const at::Tensor& p : parameters) {
      gradients.push_back(p.grad());
      p.mutable_grad().reset();
    }
  });
  return {loss, gradients};
}

/// GPT-2's layers on tokens (B, S): the cross-entropy of each next token.
struct Gpt {
  int64_t heads = 12;

  static constexpr size_t kOfLayer = 12;  ///< norm, QKV, output, norm, up, down, each with a bias

  /// Token table (V, W), position table (S, W), of each layer kOfLayer tensors, last norm
  /// and its bias. The head is the token table.
  at::Tensor loss(const std::vector<at::Tensor>& parameters, const at::Tensor& tokens,
                  const at::Tensor& next) const;
  /// The same by a caller's functions for layer() and head_loss().
  template <class Layer, class HeadLoss>
  at::Tensor loss(const std::vector<at::Tensor>& parameters, const at::Tensor& tokens,
                  const at::Tensor& next, const Layer& layer, const HeadLoss& head_loss) const {
    const auto weights = [&](size_t from, size_t count) {
      const auto at = parameters.begin() + static_cast<std::ptrdiff_t>(from);
      return std::vector<at::Tensor>(at, at + static_cast<std::ptrdiff_t>(count));
    };
    const size_t end = parameters.size() - 2;
    at::Tensor x = embed(parameters, tokens);
    for (size_t at = 2; at + kOfLayer <= end; at += kOfLayer) x = layer(x, weights(at, kOfLayer));
    return head_loss(x, {parameters[end], parameters[end + 1], parameters[0]}, next);
  }
  static at::Tensor embed(const std::vector<at::Tensor>& parameters, const at::Tensor& tokens);
  /// x (B, S, W) → the same sizes.
  at::Tensor layer(const at::Tensor& x, const std::vector<at::Tensor>& weights) const;
  /// `weights`: last norm, its bias, token table.
  static at::Tensor head_loss(const at::Tensor& x, const std::vector<at::Tensor>& weights,
                              const at::Tensor& next);
};

/// A perceptron on rows (B, in), computed under bf16 autocast: the cross-entropy of their classes.
/// `parameters`: of each layer its weight (out, in) and bias, in fp32. Layers are joined by ReLU.
at::Tensor perceptron_loss(const std::vector<at::Tensor>& parameters, const at::Tensor& rows,
                           const at::Tensor& classes);

/// Llama's layers whose seven linear ones are components ((x V) mask) U: parameter decomposition.
struct ComponentLlama {
  static constexpr size_t kLinears = 7;                 ///< q, k, v, output, gate, up, down
  static constexpr size_t kOfLayer = 2 + 2 * kLinears;  ///< parameters of a layer
  int64_t heads = 8;

  /// The mean squared distance of the layers' results on x (B, S, W) to `target`. `parameters`: of
  /// each layer two norms, then V and U of each linear. `masks`: (B, S, C) of each linear.
  at::Tensor loss(const std::vector<at::Tensor>& parameters, const at::Tensor& x,
                  const std::vector<at::Tensor>& masks, const at::Tensor& target,
                  const at::Tensor& cos, const at::Tensor& sin) const;
};

/// Takes the parameters along their gradients, which it clears.
void descend(const std::vector<at::Tensor>& parameters, double rate);

/// What AdamW keeps: `steps` is a number in a tensor, so that it may change from call to call.
struct AdamW {
  double rate = 1e-3, decay = 0.01, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;

  void update(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
              const std::vector<at::Tensor>& first, const std::vector<at::Tensor>& second,
              const at::Tensor& steps) const;
  /// The same at a rate that changes from call to call, a number in a tensor.
  void update_at(const at::Tensor& changing_rate, const std::vector<at::Tensor>& parameters,
                 const std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& first,
                 const std::vector<at::Tensor>& second, const at::Tensor& steps) const;
  static void step(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& first,
                   const std::vector<at::Tensor>& second, const at::Tensor& steps) {
    step(parameters, first, second, steps, [](const auto&... all) { AdamW().update(all...); });
  }
  /// Takes the gradients from the parameters for `update`, which is update() or a function in its
  /// place, and clears them.
  template <class Update>
  static void step(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& first,
                   const std::vector<at::Tensor>& second, const at::Tensor& steps,
                   const Update& update) {
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& p : parameters) gradients.push_back(p.grad());
    update(parameters, gradients, first, second, steps);
    gradients.clear();
    clear_gradients(parameters);
  }
};

}  // namespace graft::workloads
