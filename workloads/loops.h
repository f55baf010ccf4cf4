// Programs that loop over the parts of a tensor and update it in place, as users write them: what
// Graft rerolls.
#pragma once

#include <ATen/core/Tensor.h>

namespace graft::workloads {

/// A diagonal linear recurrence, the state update of an SSM or LRU: h = a * h + b * x[:, t] for
/// each step t. x (B, T, D), a and b (D); gives all states (B, T, D).
at::Tensor recurrence(const at::Tensor& x, const at::Tensor& a, const at::Tensor& b);

/// The lower Cholesky factor of each matrix of a batch (B, N, N), column by column, in place on a
/// copy; what lies above the diagonal is zero.
at::Tensor cholesky(const at::Tensor& matrices);

/// Quantises each column of W (R, C) to the nearest entry of that column's codebook (C, K), and
/// passes a part of its error on to the next column.
at::Tensor codebook(const at::Tensor& W, const at::Tensor& codes, double carry);

}  // namespace graft::workloads
