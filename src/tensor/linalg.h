// Small matrices, many at a time, as operators: with the arguments, results and layouts of ATen's,
// which calls LAPACK once for each matrix. A program calls them where a function called theirs
// (ops/linalg.cpp). Each takes what ATen's takes, and computes with fp32 and fp64 matrices of up to
// kMostOfSmall rows, in the order that LAPACK's routine rounds in where it is known; what is
// singular, not finite or larger is ATen's. They use ATen's threads.
#pragma once

#include <cstdint>
#include <string_view>

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
constexpr bool factors(std::string_view routine) {
  for (std::string_view one : {kInverses, kSolutions, kDeterminants, kLogDeterminants,
                               kCholeskyFactors, kTriangularSolutions})
    if (routine == one) return true;
  return false;
}

}  // namespace graft
