// Small matrices side by side, one in each lane of vectors. Compiled for AVX2 whatever the rest is
// compiled for: call it only where the machine has it. T is float or double.
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
template <class T>
void take(const T* from, size_t step, size_t elements, const size_t* places, T* to);
/// The other way round.
template <class T>
void give(const T* from, const size_t* places, size_t elements, size_t step, T* to);

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
template <class T>
Mask factor(T* a, T* pivots, size_t n, Rounding rounding);

/// b = P^T b, of n rows: what the rows of a factored matrix underwent.
template <class T>
void exchange(const T* pivots, T* b, size_t n, size_t columns);

/// Solves a x = b in b's place, where `a` is a triangle; the rest of its square is not looked at.
/// Returns where the diagonal, unless it is of ones, has no reciprocal.
struct Triangle {
  bool upper = false, unit = false;
};
template <class T>
Mask solve(const T* a, T* b, size_t n, size_t columns, Triangle kind, Rounding rounding);

/// The lower triangle of `a` becomes L of a = L L^T, the upper one 0. Returns what is not finite,
/// or not positive definite but for rounding.
template <class T>
Mask cholesky(T* a, size_t n, Rounding rounding);

}  // namespace graft::lanes
