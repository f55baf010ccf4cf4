// The second moments of a linear layer's inputs, which GPTQ weighs errors by.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace graft::quantizer {

/// Accumulates H = 2/n * sum of x x^T over calibration inputs x. Not thread-safe. Memory: one
/// matrix [columns, columns].
class Hessian {
 public:
  /// `precision`: kFloat or kDouble, for the sum and for its factorisation in quantize_layer.
  /// Throws GptqError for any other, or for fewer than one column.
  explicit Hessian(int64_t columns, at::ScalarType precision = at::kFloat);

  /// Adds inputs [..., columns] of any floating type: each vector is one sample. Throws GptqError
  /// for another shape or type. NaN and Inf are accepted here and reported by quantize_layer, which
  /// knows the layer's name.
  void add(const at::Tensor& inputs);

  /// A new tensor with H [columns, columns] in that precision; all zero before the first sample.
  at::Tensor matrix() const;
  at::Tensor diagonal() const;                  ///< of H
  int64_t samples() const { return samples_; }  ///< vectors seen
  int64_t columns() const { return sum_.size(0); }

  /// The factor that quantize_layer computes. It is kept until more inputs are added, since layers
  /// with the same inputs (query, key and value) share it: another matrix [columns, columns] in
  /// fp32.
  struct Factor {
    at::Tensor upper;      ///< fp32 [columns, columns]: upper^T upper = H^-1
    double dampening = 0;  ///< the one that was needed
  };
  /// Null if no factor is kept for these settings.
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

}  // namespace graft::quantizer
