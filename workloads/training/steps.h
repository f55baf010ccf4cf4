// Training as people write it: forward, backward() and the optimizer in one function.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <cstdint>
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

/// GPT-2's layers on tokens (B, S): the cross-entropy of each next token.
struct Gpt {
  int64_t heads = 12;

  /// Token table (V, W), position table (S, W), of each layer twelve tensors, last norm
  /// and its bias. The head is the token table.
  at::Tensor loss(const std::vector<at::Tensor>& parameters, const at::Tensor& tokens,
                  const at::Tensor& next) const;
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
  /// Takes the gradients from the parameters and clears them.
  void step(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& first,
            const std::vector<at::Tensor>& second, const at::Tensor& steps) const;
};

}  // namespace graft::workloads
