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
#include <compare>
#include <span>

#include "linalg/batch.h"
#include "runtime/process/kept.h"

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

constexpr std::array<Rounding, 2> kFactors = {{{.divides_last = false}, {.divides_last = true}}},
                                  kCholesky = {{{.divides = false}, {.divides = true}}};
constexpr std::array<Rounding, 4> kSolutions = {
    {{false, false, true}, {false, true, false}, {false, false, false}, {false, true, true}}};

/// The first that gives the same bits.
template <class Same>
Rounding first_of(std::span<const Rounding> known, const Same& same) {
  for (const Rounding& rounding : known)
    if (same(rounding)) return rounding;
  return known.front();
}

/// Whose rounding is asked for.
struct Question {
  enum class Routine : uint8_t { Factors, Triangles, Cholesky } routine;
  bool is_double;
  size_t n;
  bool one_column = false, upper = false, unit = false;

  auto operator<=>(const Question&) const = default;
};

/// By find(), when it is first asked.
template <class Find>
Rounding answer_to(const Question& question, const Find& find) {
  // Threads may outlive static objects.
  static auto* const known = new runtime::Kept<Question, Rounding>;
  if (const auto found = known->find(question)) return *found;
  const Rounding rounding = find();
  known->add(question, rounding);
  return rounding;
}

template <class T>
constexpr bool kIsDouble = sizeof(T) == sizeof(double);

}  // namespace

template <class T>
Rounding rounding_of_factors(size_t n) {
  return answer_to({Question::Routine::Factors, kIsDouble<T>, n}, [&] {
    const auto rows = static_cast<int64_t>(n);
    const Tensor a = numbers<T>(rows, rows), b = numbers<T>(rows, 3);
    const auto [lu, places, info] = at::linalg_lu_factor_ex(a);
    Numbers<T> pivots(n);
    const Rounding factors = first_of(kFactors, [&, lu = lu](Rounding r) {
      return at::equal(lu, computed<T>(a, b, /*in_a=*/true, [&](T* numbers, T*) {
                         factor(numbers, pivots.data(), n, r);
                       }));
    });
    const Tensor x = at::linalg_lu_solve(lu, places, b);
    Rounding both = first_of(kSolutions, [&](Rounding r) {
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
  const Question question{
      Question::Routine::Triangles, kIsDouble<T>, n, one_column, kind.upper, kind.unit};
  return answer_to(question, [&] {
    const auto rows = static_cast<int64_t>(n);
    const int64_t columns = one_column ? 1 : 3;
    const Tensor a = numbers<T>(rows, rows) + at::eye(rows, c10::CppTypeToScalarType<T>::value),
                 b = numbers<T>(rows, columns);
    const Tensor x = at::linalg_solve_triangular(a, b, kind.upper, /*left=*/true, kind.unit);
    return first_of(kSolutions, [&](Rounding r) {
      return at::equal(x, computed<T>(a, b, /*in_a=*/false, [&](T* numbers, T* of_b) {
                         solve(numbers, of_b, n, static_cast<size_t>(columns), kind, r);
                       }));
    });
  });
}

template <class T>
Rounding rounding_of_cholesky(size_t n) {
  return answer_to({Question::Routine::Cholesky, kIsDouble<T>, n}, [&] {
    const auto rows = static_cast<int64_t>(n);
    const Tensor a = numbers<T>(rows, rows),
                 square = a + a.mT() + 2 * rows * at::eye(rows, c10::CppTypeToScalarType<T>::value);
    const Tensor l = std::get<0>(at::linalg_cholesky_ex(square));
    return first_of(kCholesky, [&](Rounding r) {
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
