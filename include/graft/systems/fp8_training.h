// Linear layers in FP8 for training: E4M3 forward, E5M2 for gradients, delayed scaling.
//
//     Fp8Linear up;                                    // one for each layer: it keeps histories
//     at::Tensor y = up(x, weight, bias);              // differentiable in all three
//
// *Emulated*: no CPU multiplies FP8. Values are rounded to codes with their scales, and products
// are computed in fp32 of what the codes stand for, as an FP8 tensor core with fp32 sums does
// (which rounds its sums elsewhere). So losses are FP8's, times are not. What is kept for the
// backward pass are the codes: a byte a value, a quarter of fp32.
//
//     y  = Q(x) Q(W)^T + b          Q: E4M3
//     dx = R(dy) Q(W)               R: E5M2
//     dW = R(dy)^T Q(x)
//     db = sum of dy
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "graft/export.h"
#include "graft/systems/numbers.h"

namespace graft::systems {

struct Fp8Options {
  int history = 16;  ///< tensors whose amax makes the next scale
  int margin = 0;    ///< scales are 2^margin times as large
  Rounding gradient_rounding = Rounding::NearestEven;
  /// Of stochastic rounding. Layers with one seed round by the same stream of chance: give each its
  /// own, as its number.
  uint64_t seed = 0;
};

/// Differentiable once: a backward with create_graph throws. Copies share the histories. Not
/// thread-safe; nor may a backward pass run beside a forward pass of the same layer.
class GRAFT_API Fp8Linear {
 public:
  explicit Fp8Linear(const Fp8Options& options = {});

  /// x [..., in], weight [out, in], bias [out] or undefined: all fp32 or bf16. Gives fp32
  /// [..., out]. Throws c10::ValueError where sizes or dtypes do not fit.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& weight,
                        const at::Tensor& bias = {}) const;

  /// The scales that the next tensors get; 0: their own.
  float input_scale() const;
  float weight_scale() const;
  float gradient_scale() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace graft::systems
