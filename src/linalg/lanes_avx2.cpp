#include <immintrin.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "linalg/lanes.h"

namespace graft::lanes {
namespace {

/// A number of each matrix. Operators work by lane; comparisons give all ones, or zeros.
template <class T>
using Lanes __attribute__((vector_size(32))) = T;
template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

template <class T>
Lanes<T> magnitude(Lanes<T> x) {
  const Lanes<Bits<T>> no_sign = Lanes<Bits<T>>{} + std::numeric_limits<Bits<T>>::max();
  return (Lanes<T>)((Lanes<Bits<T>>)x & no_sign);
}
Lanes<float> root(Lanes<float> x) {
  return (Lanes<float>)_mm256_sqrt_ps((__m256)x);
}
Lanes<double> root(Lanes<double> x) {
  return (Lanes<double>)_mm256_sqrt_pd((__m256d)x);
}
template <class T>
Lanes<Bits<T>> is_finite(Lanes<T> x) {
  return x * Lanes<T>{} == Lanes<T>{};
}
Mask mask_of(Lanes<int32_t> is) {
  return static_cast<Mask>(_mm256_movemask_ps((__m256)is));
}
Mask mask_of(Lanes<int64_t> is) {
  return static_cast<Mask>(_mm256_movemask_pd((__m256d)is));
}
/// Exchanges two numbers in the lanes where `is`.
template <class T>
void exchange_where(Lanes<Bits<T>> is, Lanes<T>& x, Lanes<T>& y) {
  const Lanes<T> old = x;
  x = is ? y : x;
  y = is ? old : y;
}
template <class T>
Lanes<T>* vectors(T* numbers) {
  return reinterpret_cast<Lanes<T>*>(numbers);
}
template <class T>
const Lanes<T>* vectors(const T* numbers) {
  return reinterpret_cast<const Lanes<T>*>(numbers);
}

/// Of kCount vectors.
void transpose(Lanes<float>* v) {
  constexpr size_t kCount = 8;
  Lanes<float> pairs[kCount], fours[kCount];
  for (size_t k = 0; k < kCount; k += 2) {
    pairs[k] = (Lanes<float>)_mm256_unpacklo_ps((__m256)v[k], (__m256)v[k + 1]);
    pairs[k + 1] = (Lanes<float>)_mm256_unpackhi_ps((__m256)v[k], (__m256)v[k + 1]);
  }
  for (size_t k = 0; k < kCount; k += 4)
    for (size_t half = 0; half < 2; ++half) {
      const __m256 low = (__m256)pairs[k + half], high = (__m256)pairs[k + half + 2];
      fours[k + 2 * half] = (Lanes<float>)_mm256_shuffle_ps(low, high, 0x44);
      fours[k + 2 * half + 1] = (Lanes<float>)_mm256_shuffle_ps(low, high, 0xEE);
    }
  for (size_t k = 0; k < kCount / 2; ++k) {
    const __m256 low = (__m256)fours[k], high = (__m256)fours[k + 4];
    v[k] = (Lanes<float>)_mm256_permute2f128_ps(low, high, 0x20);
    v[k + 4] = (Lanes<float>)_mm256_permute2f128_ps(low, high, 0x31);
  }
}
void transpose(Lanes<double>* v) {
  __m256d pairs[4];
  for (size_t k = 0; k < 4; k += 2) {
    pairs[k] = _mm256_unpacklo_pd((__m256d)v[k], (__m256d)v[k + 1]);
    pairs[k + 1] = _mm256_unpackhi_pd((__m256d)v[k], (__m256d)v[k + 1]);
  }
  for (size_t k = 0; k < 2; ++k) {
    v[k] = (Lanes<double>)_mm256_permute2f128_pd(pairs[k], pairs[k + 2], 0x20);
    v[k + 2] = (Lanes<double>)_mm256_permute2f128_pd(pairs[k], pairs[k + 2], 0x31);
  }
}

/// work(first) of squares of kCount elements; the last may overlap the one before.
template <class T, class Work>
void by_squares(size_t elements, const Work& work) {
  size_t first = 0;
  for (; first + kCount<T> <= elements; first += kCount<T>) work(first);
  if (first < elements) work(elements - kCount<T>);
}
/// N: the rows, where the compiler is to know them.
template <size_t N, class T>
Mask factor_of(T* numbers, T* places, size_t rows, Rounding rounding) {
  const size_t n = N == 0 ? rows : N;
  Lanes<T>*const a = vectors(numbers), *const pivots = vectors(places);
  const Lanes<T> zero = {}, one = zero + T(1);
  // LAPACK takes no reciprocal of less.
  const Lanes<T> tiny = zero + std::numeric_limits<T>::min();
  Lanes<Bits<T>> wrong = {};
  for (size_t k = 0; k < n * n; ++k) wrong |= ~is_finite<T>(a[k]);
  for (size_t j = 0; j < n; ++j) {
    Lanes<T>* const column = a + j * n;
    Lanes<T> largest = magnitude<T>(column[j]), pivot = zero + static_cast<T>(j);
    for (size_t i = j + 1; i < n; ++i) {
      const Lanes<T> here = magnitude<T>(column[i]);
      pivot = here > largest ? zero + static_cast<T>(i) : pivot;
      largest = here > largest ? here : largest;
    }
    pivots[j] = pivot;
    wrong |= ~(largest >= tiny) | ~is_finite<T>(largest);
    for (size_t i = j + 1; i < n; ++i) {
      const Lanes<Bits<T>> is = pivot == zero + static_cast<T>(i);
      for (size_t k = 0; k < n; ++k) exchange_where<T>(is, a[k * n + j], a[k * n + i]);
    }
    const Lanes<T> reciprocal = one / column[j];
    const bool divides = rounding.divides_last && j + 2 == n;
    for (size_t i = j + 1; i < n; ++i)
      column[i] = divides ? column[i] / column[j] : column[i] * reciprocal;
    for (size_t k = j + 1; k < n; ++k)
      for (size_t i = j + 1; i < n; ++i) a[k * n + i] -= column[i] * a[k * n + j];
  }
  return mask_of(wrong);
}

template <size_t N, class T>
void exchange_of(const T* places, T* numbers, size_t rows, size_t columns) {
  const size_t n = N == 0 ? rows : N;
  const Lanes<T> zero = {};
  const Lanes<T>* const pivots = vectors(places);
  for (size_t j = 0; j + 1 < n; ++j)
    for (size_t i = j + 1; i < n; ++i) {
      const Lanes<Bits<T>> is = pivots[j] == zero + static_cast<T>(i);
      for (size_t c = 0; c < columns; ++c) {
        Lanes<T>* const b = vectors(numbers) + c * n;
        exchange_where<T>(is, b[j], b[i]);
      }
    }
}

template <size_t N, class T>
Mask solve_of(const T* triangle, T* numbers, size_t rows, size_t columns, Triangle kind,
              Rounding rounding) {
  const size_t n = N == 0 ? rows : N;
  const Lanes<T> zero = {}, one = zero + T(1);
  const Lanes<T> least = zero + std::numeric_limits<T>::min();
  const Lanes<T>* const a = vectors(triangle);
  Lanes<Bits<T>> wrong = {};
  for (size_t done = 0; done < n; ++done) {
    const size_t i = kind.upper ? n - 1 - done : done;
    const Lanes<T> diagonal = a[i * n + i], reciprocal = one / diagonal;
    wrong |= ~(magnitude<T>(diagonal) >= least) | ~(magnitude<T>(reciprocal) >= least);
    for (size_t c = 0; c < columns; ++c) {
      Lanes<T>* const b = vectors(numbers) + c * n;
      Lanes<T> x = b[i], sum = zero;
      for (size_t q = 0; q < done; ++q) {
        const size_t k = kind.upper ? n - 1 - q : q;
        const Lanes<T> product = a[k * n + i] * b[k];
        if (rounding.sums)
          sum += product;
        else
          x -= product;
      }
      if (rounding.sums) x -= sum;
      if (!kind.unit) x = rounding.divides ? x / diagonal : x * reciprocal;
      b[i] = x;
    }
  }
  return kind.unit ? 0 : mask_of(wrong);
}

template <size_t N, class T>
Mask cholesky_of(T* numbers, size_t rows, Rounding rounding) {
  const size_t n = N == 0 ? rows : N;
  const Lanes<T> zero = {}, one = zero + T(1);
  Lanes<T>* const a = vectors(numbers);
  Lanes<Bits<T>> wrong = {};
  // Where so little of a number is left, rounding may decide whether it is more than nothing.
  const T rest = static_cast<T>(n) * std::sqrt(std::numeric_limits<T>::epsilon());
  for (size_t j = 0; j < n; ++j) {
    const Lanes<T> given = a[j * n + j];
    for (size_t i = 0; i < j; ++i) a[j * n + i] = zero;
    for (size_t k = 0; k < j; ++k)
      for (size_t i = j; i < n; ++i) a[j * n + i] -= a[k * n + i] * a[k * n + j];
    const Lanes<T> square = a[j * n + j], diagonal = root(square), reciprocal = one / diagonal;
    wrong |= ~(square > given * rest) | ~(square > zero) | ~is_finite<T>(square);
    a[j * n + j] = diagonal;
    for (size_t i = j + 1; i < n; ++i)
      a[j * n + i] = rounding.divides ? a[j * n + i] / diagonal : a[j * n + i] * reciprocal;
  }
  return mask_of(wrong);
}

/// call(N): with the number of rows as a constant for the smallest.
template <class Call>
auto by_rows(size_t n, const Call& call) {
  switch (n) {
    case 2:
      return call(std::integral_constant<size_t, 2>{});
    case 3:
      return call(std::integral_constant<size_t, 3>{});
    case 4:
      return call(std::integral_constant<size_t, 4>{});
    default:
      return call(std::integral_constant<size_t, 0>{});
  }
}

}  // namespace

template <class T>
void take(const T* from, size_t step, size_t elements, const size_t* places, T* to) {
  by_squares<T>(elements, [&](size_t first) {
    Lanes<T> square[kCount<T>];
    for (size_t k = 0; k < kCount<T>; ++k)
      __builtin_memcpy(square + k, from + k * step + first, sizeof square[k]);
    transpose(square);
    for (size_t k = 0; k < kCount<T>; ++k) vectors(to)[places[first + k]] = square[k];
  });
}
template <class T>
void give(const T* from, const size_t* places, size_t elements, size_t step, T* to) {
  by_squares<T>(elements, [&](size_t first) {
    Lanes<T> square[kCount<T>];
    for (size_t k = 0; k < kCount<T>; ++k) square[k] = vectors(from)[places[first + k]];
    transpose(square);
    for (size_t k = 0; k < kCount<T>; ++k)
      __builtin_memcpy(to + k * step + first, square + k, sizeof square[k]);
  });
}

template <class T>
Mask factor(T* a, T* pivots, size_t n, Rounding rounding) {
  return by_rows(n, [&](auto rows) { return factor_of<rows()>(a, pivots, n, rounding); });
}
template <class T>
void exchange(const T* pivots, T* b, size_t n, size_t columns) {
  by_rows(n, [&](auto rows) { exchange_of<rows()>(pivots, b, n, columns); });
}
template <class T>
Mask solve(const T* a, T* b, size_t n, size_t columns, Triangle kind, Rounding rounding) {
  return by_rows(n, [&](auto rows) { return solve_of<rows()>(a, b, n, columns, kind, rounding); });
}
template <class T>
Mask cholesky(T* a, size_t n, Rounding rounding) {
  return by_rows(n, [&](auto rows) { return cholesky_of<rows()>(a, n, rounding); });
}

template void take(const float*, size_t, size_t, const size_t*, float*);
template void give(const float*, const size_t*, size_t, size_t, float*);
template Mask factor(float*, float*, size_t, Rounding);
template void exchange(const float*, float*, size_t, size_t);
template Mask solve(const float*, float*, size_t, size_t, Triangle, Rounding);
template Mask cholesky(float*, size_t, Rounding);
template void take(const double*, size_t, size_t, const size_t*, double*);
template void give(const double*, const size_t*, size_t, size_t, double*);
template Mask factor(double*, double*, size_t, Rounding);
template void exchange(const double*, double*, size_t, size_t);
template Mask solve(const double*, double*, size_t, size_t, Triangle, Rounding);
template Mask cholesky(double*, size_t, Rounding);

}  // namespace graft::lanes
