// What GPTQ knows of a linear layer's inputs: their second moments.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>

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

  /// What quantize_layer factors it into. Layers of the same inputs (query, key and value) share
  /// it, so it is kept until more inputs are added: another matrix [columns, columns] in fp32.
  struct Factor {
    at::Tensor upper;      ///< fp32 [columns, columns]: upper^T upper = H^-1
    double dampening = 0;  ///< that was needed
  };
  /// Nothing if it was not kept for these settings.
  const Factor* factor(double dampening, bool act_order) const {
    return kept_ && kept_->dampening == dampening && kept_->act_order == act_order ? &kept_->factor
                                                                                   : nullptr;
  }
  void keep(Factor factor, double dampening, bool act_order) const {
    kept_ = Kept{std::move(factor), dampening, act_order};
  }

 private:
  double scale() const;  ///< from the sum to H

  struct Kept {
    Factor factor;
    double dampening;
    bool act_order;
  };

  at::Tensor sum_;  ///< sum of x x^T
  int64_t samples_ = 0;
  mutable std::optional<Kept> kept_;
};

}  // namespace graft::workloads::gptq
