// Do two lists of tensors hold the same results?
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace graft::lab {

struct Comparison {
  /// Both lists have as many tensors, of equal dtypes and sizes. If not, the rest means nothing.
  bool same_form = true;
  bool bitwise = true;  ///< equal bits everywhere, all NaNs counted equal; -0 and +0 differ
  /// Over values that are finite on both sides; infinity if anywhere only one side is finite or
  /// NaN.
  double max_abs_diff = 0;
  std::string text() const;  ///< "bitwise", "max 1.2e-07", "different form"
};
Comparison compare(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b);

/// The largest |value - reference| / max|reference| over the tensors, in double; for comparing the
/// errors of two sides. NaN when the forms differ.
double relative_error(const std::vector<at::Tensor>& values,
                      const std::vector<at::Tensor>& reference);

}  // namespace graft::lab
