// Training as people write it: forward, backward() and the optimizer in one function.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace graft::workloads {

/// GPT-2's layers on tokens (B, S): the cross-entropy of each next token.
struct Gpt {
  int64_t heads = 12;

  /// Token table (V, W), position table (S, W), of each layer twelve tensors, last norm
  /// and its bias. The head is the token table.
  at::Tensor loss(const std::vector<at::Tensor>& parameters, const at::Tensor& tokens,
                  const at::Tensor& next) const;
};

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
