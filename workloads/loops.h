// Programs that loop over the parts of a tensor and update it in place, as users write them. Graft
// rerolls such loops.
#pragma once

#include <ATen/core/Tensor.h>

namespace graft::workloads {

/// A diagonal linear recurrence, the state update of an SSM or LRU: h = a * h + b * x[:, t] for
/// each step t. x (B, T, D), a and b (D); gives all states (B, T, D).
at::Tensor recurrence(const at::Tensor& x, const at::Tensor& a, const at::Tensor& b);

/// The lower Cholesky factor of each matrix of a batch (B, N, N), computed column by column, in
/// place on a copy; zero above the diagonal.
at::Tensor cholesky(const at::Tensor& matrices);

/// Quantises each column of W (R, C) to the nearest entry of that column's codebook (C, K), and
/// adds `carry` times its error to the next column.
at::Tensor codebook(const at::Tensor& W, const at::Tensor& codes, double carry);

}  // namespace graft::workloads
