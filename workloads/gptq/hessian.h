// What GPTQ knows of a linear layer's inputs: their second moments.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace graft::workloads::gptq {

/// Accumulates H = 2/n * sum of x x^T over calibration inputs x. Not thread-safe. Memory: one
/// matrix [columns, columns].
class Hessian {
 public:
  /// `precision`: kFloat or kDouble, of the sum and of what quantize_layer does with it. Throws
  /// GptqError for another one, or fewer than one column.
  explicit Hessian(int64_t columns, at::ScalarType precision = at::kFloat);

  /// Adds inputs [..., columns] of any floating type: each vector is one sample. Throws GptqError
  /// for another shape or type. NaN and Inf pass here and are found by quantize_layer, which knows
  /// the layer's name.
  void add(const at::Tensor& inputs);

  /// H [columns, columns] of that precision, a tensor of its own. All zero before the first sample.
  at::Tensor matrix() const;
  at::Tensor diagonal() const;                  ///< of H
  int64_t samples() const { return samples_; }  ///< vectors seen
  int64_t columns() const { return sum_.size(0); }

 private:
  double factor() const;  ///< from the sum to H

  at::Tensor sum_;  ///< sum of x x^T
  int64_t samples_ = 0;
};

}  // namespace graft::workloads::gptq
