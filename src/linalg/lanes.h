// Small matrices side by side, one in each lane of vectors. Compiled for AVX2 whatever the rest is
// compiled for: call it only where the machine has it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace graft::lanes {

/// As many matrices as a vector has lanes. Element (row, column) of matrix `lane` is
/// a[(column * rows + row) * kCount + lane].
template <class T>
inline constexpr size_t kCount = 32 / sizeof(T);

/// `elements` numbers of each of kCount matrices, `step` numbers apart, become those of vectors:
/// the k-th one of each goes to vector places[k]. There are at least kCount of them.
void take(const float* from, size_t step, size_t elements, const size_t* places, float* to);
void take(const double* from, size_t step, size_t elements, const size_t* places, double* to);
/// The other way round.
void give(const float* from, const size_t* places, size_t elements, size_t step, float* to);
void give(const double* from, const size_t* places, size_t elements, size_t step, double* to);

/// Where LAPACK's routine rounds; it follows from the machine and the size.
struct Rounding {
  bool divides_last = false;  ///< the last column of L is divided by its pivot, all others are
                              ///< multiplied by its reciprocal
  bool divides = false;       ///< of a triangle's solution: by its diagonal, else by reciprocals
  bool sums = true;           ///< what is subtracted from a number is added up before
};

/// Lanes that LAPACK would compute in another way: bit k of a mask.
using Mask = uint32_t;

/// a = P L U of n rows and columns, in its place; pivots[column * kCount + lane] is the row, from
/// 0, that the column's was exchanged with. Returns what is not finite, or (nearly) singular.
Mask factor(float* a, float* pivots, size_t n, Rounding rounding);
Mask factor(double* a, double* pivots, size_t n, Rounding rounding);

/// b = P^T b, of n rows: what the rows of a factored matrix underwent.
void exchange(const float* pivots, float* b, size_t n, size_t columns);
void exchange(const double* pivots, double* b, size_t n, size_t columns);

/// Solves a x = b in b's place, where `a` is a triangle; the rest of its square is not looked at.
/// Returns where the diagonal, unless it is of ones, has no reciprocal.
struct Triangle {
  bool upper = false, unit = false;
};
Mask solve(const float* a, float* b, size_t n, size_t columns, Triangle kind, Rounding rounding);
Mask solve(const double* a, double* b, size_t n, size_t columns, Triangle kind, Rounding rounding);

/// The lower triangle of `a` becomes L of a = L L^T, the upper one 0. Returns what is not finite,
/// or not positive definite but for rounding.
Mask cholesky(float* a, size_t n, Rounding rounding);
Mask cholesky(double* a, size_t n, Rounding rounding);

}  // namespace graft::lanes
