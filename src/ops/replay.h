// A trace as a program that calls each operator as it was recorded, and so gives eager's own bits;
// and the same with the operators whose rounding is in question called on doubles.
#pragma once

#include <vector>

#include "ops/lower.h"

namespace graft::ops {

/// Views vanish as in lower(); every other operator is an extern call. `operators` is left empty.
Lowered lower_as_called(const record::Trace& trace);

/// `called`: lower_as_called()'s program. The operators of `which` get copies of their floating
/// tensors as double, and what they give is rounded once, to the dtype recorded. All others are
/// called as they were.
///
///     %1 = aten::norm.Scalar(%0)     →     %2 = aten::_to_copy(%0, double)
///                                          %3 = aten::norm.Scalar(%2)
///                                          aten::copy_(%1, %3)
///
/// Throws std::runtime_error naming the operator that cannot be called so.
ir::Program in_double(ir::Program called, const record::Trace& trace,
                      const std::vector<Approximation>& which);

}  // namespace graft::ops
