// Small matrices, many at a time, as operators: with the arguments, results and layouts of ATen's,
// which calls LAPACK once for each matrix. A program calls them where a function called theirs
// (ops/linalg.cpp). Each takes what ATen's takes, and computes with fp32 and fp64 matrices of up to
// kMostOfSmall rows, in the order that LAPACK's routine rounds in where it is known; what is
// singular, not finite or larger is ATen's. They use ATen's threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace graft {

inline constexpr int64_t kMostOfSmall = 16;

inline constexpr std::string_view kInverses = "graft::linalg_inv_ex",
                                  kSolutions = "graft::_linalg_solve_ex",
                                  kDeterminants = "graft::_linalg_det",
                                  kLogDeterminants = "graft::_linalg_slogdet",
                                  kCholeskyFactors = "graft::linalg_cholesky_ex",
                                  kTriangularSolutions = "graft::linalg_solve_triangular",
                                  kChecks = "graft::_linalg_check_errors";

/// Is it one whose results depend on how LAPACK rounds?
constexpr bool rounds_as_lapack(std::string_view routine) {
  for (std::string_view one : {kInverses, kSolutions, kDeterminants, kLogDeterminants,
                               kCholeskyFactors, kTriangularSolutions})
    if (routine == one) return true;
  return false;
}

/// The layout of LAPACK's results: of the last two dimensions column by column.
inline std::vector<int64_t> column_major_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0; stride *= std::max<int64_t>(sizes[d], 1))
    strides[d] = stride;
  if (sizes.size() >= 2) {
    const size_t rows = sizes.size() - 2;
    strides[rows] = 1, strides[rows + 1] = std::max<int64_t>(sizes[rows], 1);
  }
  return strides;
}

}  // namespace graft
