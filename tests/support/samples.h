// Tensors of many layouts to try an operator on.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace graft::test {

/// Values around zero; small whole numbers for integer types. Some equal each other. The same on
/// every run.
at::Tensor sample(at::IntArrayRef sizes, c10::ScalarType type);
/// Contiguous, permuted, sliced, with an offset, expanded, of size 1, and of no dimension; at most
/// three dimensions, all of them non-empty.
std::vector<at::Tensor> layouts(c10::ScalarType type);

inline const std::vector<c10::ScalarType> kFloats = {at::kFloat, at::kDouble, at::kBFloat16,
                                                     at::kHalf};
inline const std::vector<c10::ScalarType> kIntegers = {at::kByte, at::kChar, at::kShort, at::kInt,
                                                       at::kLong};

}  // namespace graft::test
