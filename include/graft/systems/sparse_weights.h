// 2:4 structured sparsity: of four neighbouring weights of a row, two are zero.
//
//     at::Tensor pruned = prune_24(weight, input_hessian(calibration_inputs));
//     Sparse24 packed = pack_24(pruned);
//     at::Tensor y = sparse_linear(x, packed, bias);        // as at::linear(x, pruned, bias)
//
// Packed, a weight takes 17/32 of its bytes in fp32 and 9/16 in bf16 and fp16: half the values, and
// two bits for each.
//
// Weights are (out features, in features), as at::linear's, dense on the CPU; in features are a
// multiple of 32. Errors: c10::ValueError for shapes, dtypes and numbers that do not fit.
// Thread-safety: all functions may run at once on tensors that nobody changes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "graft/export.h"

namespace graft::systems {

/// A weight of which at most two of each four neighbours are not zero.
struct GRAFT_API Sparse24 {
  /// (out features, in features / 2), contiguous, fp32, bf16 or fp16: two of each group of four, in
  /// order.
  at::Tensor values;
  /// Int (out features, in features / 32), contiguous: where the 16 values of 32 columns stand in
  /// their groups. Value i has bits 2i and 2i + 1.
  at::Tensor places;

  int64_t out_features() const { return values.size(0); }
  int64_t in_features() const { return 2 * values.size(1); }
  int64_t bytes() const { return static_cast<int64_t>(values.nbytes() + places.nbytes()); }
};

/// Of each four neighbours, the two of least magnitude become zero; of equal ones, the later.
GRAFT_API at::Tensor prune_24(const at::Tensor& weight);

/// 2 / n X^T X of a layer's inputs (…, in features), n of them, in fp64: (in features, in
/// features). The second derivative of the squared error of the layer's output, of each row.
GRAFT_API at::Tensor input_hessian(const at::Tensor& inputs);

struct HessianPruning {
  double damping = 0.01;  ///< share of the diagonal's mean that is added to it
  int64_t block = 128;    ///< columns whose effect on later ones is applied at once
};
/// SparseGPT (Frantar, Alistarh 2023): from the first column to the last, each four neighbours lose
/// the two whose loss costs least, w^2 / d^2, and the columns behind them are changed to make up
/// for it (d, and how to change them: rows of the Cholesky factor of the inverse Hessian). Columns
/// whose input was always zero become zero. `hessian`: (in features, in features), symmetric.
GRAFT_API at::Tensor prune_24(const at::Tensor& weight, const at::Tensor& hessian,
                              const HessianPruning& how = {});

/// Throws c10::ValueError where more than two of four neighbours are not zero.
GRAFT_API Sparse24 pack_24(const at::Tensor& pruned);
GRAFT_API at::Tensor unpack_24(const Sparse24& weight);

/// x weight^T + bias. `x`: (…, in features), of the weight's dtype; `bias`: (out features), or
/// undefined. Sums are fp32. Not differentiable: throws where `x` or `bias` would get a gradient.
///
/// Up to 8 rows read the packed weight as it lies, which pays where memory is what takes the time.
/// More rows of fp32 multiply kept weights only. More rows of 16 bits unpack some rows of the
/// weight at a time for a dense product, since ATen's 16-bit routines are faster than fp32 sums.
GRAFT_API at::Tensor sparse_linear(const at::Tensor& x, const Sparse24& weight,
                                   const at::Tensor& bias = {});

}  // namespace graft::systems
