#include "linalg/rounding.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/linalg_lu_factor_ex.h>
#include <ATen/ops/linalg_lu_solve.h>
#include <ATen/ops/linalg_solve_triangular.h>

#include <array>
#include <mutex>
#include <optional>
#include <vector>

#include "linalg/batch.h"
#include "tensor/linalg.h"

namespace graft::lanes {

namespace {

using at::Tensor;

constexpr int64_t kAsked = 32;  ///< matrices of which LAPACK is asked

/// Numbers between -1 and 1, without ATen's random ones, whose order is the user's.
template <class T>
Tensor numbers(int64_t rows, int64_t columns) {
  const Tensor places = at::arange(kAsked * rows * columns, at::kDouble);
  return (places * places * 0.7391 + places)
      .sin()
      .to(c10::CppTypeToScalarType<T>::value)
      .view({kAsked, rows, columns});
}

/// What work(lanes, lanes of `b`) makes of the numbers of `a` and `b`, in `b`'s place, or in `a`'s.
template <class T, class Work>
Tensor computed(const Tensor& a, const Tensor& b, bool in_a, const Work& work) {
  const Tensor result = (in_a ? a : b).contiguous().clone();
  const Matrices<const T> from(a), other(b);
  const Matrices<T> to(result);
  Numbers<T> numbers(from.rows() * from.columns()), others(other.rows() * other.columns());
  for (size_t first = 0; first < static_cast<size_t>(kAsked); first += kCount<T>) {
    const Group group{first, kCount<T>};
    from.take(group, numbers.data());
    other.take(group, others.data());
    work(numbers.data(), others.data());
    to.give(in_a ? numbers.data() : others.data(), group);
  }
  return result;
}

/// The first that gives the same bits.
template <class Same>
Rounding first_of(const std::vector<Rounding>& known, const Same& same) {
  for (const Rounding& rounding : known)
    if (same(rounding)) return rounding;
  return known.front();
}

const std::vector<Rounding>& known_solutions() {
  static const std::vector<Rounding> known = {
      {false, false, true}, {false, true, false}, {false, false, false}, {false, true, true}};
  return known;
}

/// Found when it is first needed, for each number of rows.
class BySize {
 public:
  template <class Find>
  Rounding get(size_t n, const Find& find) {
    const std::lock_guard lock(mutex_);
    std::optional<Rounding>& found = found_.at(n);
    if (!found) found = find();
    return *found;
  }

 private:
  std::mutex mutex_;
  std::array<std::optional<Rounding>, kMostOfSmall + 1> found_;
};

}  // namespace

template <class T>
Rounding rounding_of_factors(size_t n) {
  static BySize known;
  return known.get(n, [&] {
    const auto rows = static_cast<int64_t>(n);
    const Tensor a = numbers<T>(rows, rows), b = numbers<T>(rows, 3);
    const auto [lu, places, info] = at::linalg_lu_factor_ex(a);
    Numbers<T> pivots(n);
    const Rounding factors =
        first_of({{.divides_last = false}, {.divides_last = true}}, [&, lu = lu](Rounding r) {
          return at::equal(lu, computed<T>(a, b, /*in_a=*/true, [&](T* numbers, T*) {
                             factor(numbers, pivots.data(), n, r);
                           }));
        });
    const Tensor x = at::linalg_lu_solve(lu, places, b);
    Rounding both = first_of(known_solutions(), [&](Rounding r) {
      return at::equal(x, computed<T>(a, b, /*in_a=*/false, [&](T* numbers, T* of_b) {
                         factor(numbers, pivots.data(), n, factors);
                         exchange(pivots.data(), of_b, n, 3);
                         solve(numbers, of_b, n, 3, {.upper = false, .unit = true}, r);
                         solve(numbers, of_b, n, 3, {.upper = true}, r);
                       }));
    });
    both.divides_last = factors.divides_last;
    return both;
  });
}

template <class T>
Rounding rounding_of_triangles(size_t n, bool one_column, Triangle kind) {
  static std::array<BySize, 8> known;
  const size_t which = (one_column ? 4 : 0) + (kind.upper ? 2 : 0) + (kind.unit ? 1 : 0);
  return known.at(which).get(n, [&] {
    const auto rows = static_cast<int64_t>(n);
    const int64_t columns = one_column ? 1 : 3;
    const Tensor a = numbers<T>(rows, rows) + at::eye(rows, c10::CppTypeToScalarType<T>::value),
                 b = numbers<T>(rows, columns);
    const Tensor x = at::linalg_solve_triangular(a, b, kind.upper, /*left=*/true, kind.unit);
    return first_of(known_solutions(), [&](Rounding r) {
      return at::equal(x, computed<T>(a, b, /*in_a=*/false, [&](T* numbers, T* of_b) {
                         solve(numbers, of_b, n, static_cast<size_t>(columns), kind, r);
                       }));
    });
  });
}

template <class T>
Rounding rounding_of_cholesky(size_t n) {
  static BySize known;
  return known.get(n, [&] {
    const auto rows = static_cast<int64_t>(n);
    const Tensor a = numbers<T>(rows, rows),
                 square = a + a.mT() + 2 * rows * at::eye(rows, c10::CppTypeToScalarType<T>::value);
    const Tensor l = std::get<0>(at::linalg_cholesky_ex(square));
    return first_of({{.divides = false}, {.divides = true}}, [&](Rounding r) {
      return at::equal(l, computed<T>(square, a, /*in_a=*/true,
                                      [&](T* numbers, T*) { cholesky(numbers, n, r); }));
    });
  });
}

template Rounding rounding_of_factors<float>(size_t);
template Rounding rounding_of_factors<double>(size_t);
template Rounding rounding_of_triangles<float>(size_t, bool, Triangle);
template Rounding rounding_of_triangles<double>(size_t, bool, Triangle);
template Rounding rounding_of_cholesky<float>(size_t);
template Rounding rounding_of_cholesky<double>(size_t);

}  // namespace graft::lanes
