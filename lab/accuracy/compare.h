// Whether two lists of tensors hold the same results.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace graft::lab {

struct Comparison {
  /// As many tensors, of equal dtypes and sizes; if not, the rest says nothing.
  bool same_form = true;
  bool bitwise = true;  ///< equal bits everywhere, all NaNs counted equal; -0 and +0 differ
  /// Over values finite on both sides; infinity where only one is finite or a NaN.
  double max_abs_diff = 0;
  std::string text() const;  ///< "bitwise", "max 1.2e-07", "different form"
};
Comparison compare(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b);

/// Largest |value - reference| / max|reference| over the tensors, in double: an error to set
/// against another's. NaN when the forms differ.
double relative_error(const std::vector<at::Tensor>& values,
                      const std::vector<at::Tensor>& reference);

}  // namespace graft::lab
