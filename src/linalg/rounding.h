// In what order LAPACK's routines round, found by asking them: once for each size in a process.
// Where none of the known orders gives their bits, the usual one. Thread-safe.
#pragma once

#include <cstddef>

#include "linalg/lanes.h"

namespace graft::lanes {

/// Of at::linalg_lu_factor_ex, and at::linalg_lu_solve with it.
template <class T>
Rounding rounding_of_factors(size_t n);
/// Of at::linalg_solve_triangular, from the left; one column may be another routine's.
template <class T>
Rounding rounding_of_triangles(size_t n, bool one_column, Triangle kind);
/// Of at::linalg_cholesky_ex.
template <class T>
Rounding rounding_of_cholesky(size_t n);

}  // namespace graft::lanes
