#include <ATen/core/Tensor.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/_linalg_det.h>
#include <ATen/ops/_linalg_slogdet.h>
#include <ATen/ops/_linalg_solve_ex.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/linalg_inv_ex.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "linalg/batch.h"
#include "linalg/rounding.h"
#include "runtime/process/library.h"
#include "tensor/linalg.h"

namespace graft {

namespace {

using at::Tensor;
using lanes::Group, lanes::Mask, lanes::Matrices, lanes::Numbers, lanes::Rounding;
using Index = std::vector<int64_t>;

bool have_lanes() {
  static const bool have = __builtin_cpu_supports("avx2") > 0;
  return have;
}

/// Square matrices with numbers that are computed here.
bool are_small(const Tensor& t) {
  return have_lanes() && (t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble) &&
         t.device().is_cpu() && t.dim() >= 2 && t.size(-1) == t.size(-2) && t.size(-1) > 0 &&
         t.size(-1) <= kMostOfSmall && t.numel() > 0;
}

bool is_beside(const Tensor& b, const Tensor& a) {
  return b.scalar_type() == a.scalar_type() && b.device() == a.device();
}

Tensor column_major(at::IntArrayRef sizes, const Tensor& like) {
  return at::empty_strided(sizes, column_major_strides(sizes.vec()), like.options());
}

/// As [matrices, rows, columns], of memory that lies together; what lies apart is copied.
Tensor flat(const Tensor& t) {
  const bool lies_together = t.is_contiguous() || t.mT().is_contiguous();
  return (lies_together ? t : t.contiguous()).view({-1, t.size(-2), t.size(-1)});
}

/// What shape says of the batch.
at::IntArrayRef batch_of(const Tensor& t) {
  return t.sizes().slice(0, static_cast<size_t>(t.dim()) - 2);
}

/// Places from 1, of LAPACK's pivots.
Tensor pivots_for(const Tensor& self) {
  return at::empty(self.sizes().slice(0, static_cast<size_t>(self.dim()) - 1),
                   self.options().dtype(at::kInt));
}

/// What is wanted of factored matrices [matrices, n, n]; undefined: nothing.
struct Wanted {
  Tensor lu, places;
  Tensor determinants, signs, diagonals;  ///< a number, its sign, or n magnitudes for each
  Tensor right, solution;  ///< of lu x = right; undefined with a solution: the unit matrix

  size_t columns() const { return solution.defined() ? static_cast<size_t>(solution.size(2)) : 0; }
};

/// Factors each of `a`, one group after the other.
template <class T>
class Factoring {
 public:
  Factoring(const Tensor& a, const Wanted& wanted, Rounding rounding)
      : wanted_(wanted),
        n_(static_cast<size_t>(a.size(1))),
        columns_(wanted.columns()),
        rounding_(rounding),
        from_(a),
        matrix_(n_ * n_),
        pivots_(n_),
        other_(n_ * columns_) {
    if (wanted_.lu.defined()) lu_.emplace(wanted_.lu);
    if (wanted_.right.defined()) right_.emplace(wanted_.right);
    if (wanted_.solution.defined()) solution_.emplace(wanted_.solution);
  }

  Mask operator()(Group group) {
    from_.take(group, matrix_.data());
    const Mask left = lanes::factor(matrix_.data(), pivots_.data(), n_, rounding_);
    if (lu_) lu_->give(matrix_.data(), group);
    if (wanted_.places.defined()) give_places(group);
    if (wanted_.determinants.defined()) give_determinants(group);
    if (wanted_.signs.defined()) give_signs(group);
    if (solution_) solve(group);
    return left;
  }

 private:
  static constexpr size_t kLanes = lanes::kCount<T>;

  void give_places(Group group) {
    auto* const to = wanted_.places.mutable_data_ptr<int32_t>();
    for (size_t lane = 0; lane < group.here; ++lane)
      for (size_t j = 0; j < n_; ++j)
        to[(group.first + lane) * n_ + j] =
            static_cast<int32_t>(pivots_.data()[j * kLanes + lane]) + 1;
  }
  T on_diagonal(size_t j, size_t lane) { return matrix_.data()[(j * n_ + j) * kLanes + lane]; }
  T sign_of_exchanges(size_t lane) {
    T sign = 1;
    for (size_t j = 0; j < n_; ++j)
      if (pivots_.data()[j * kLanes + lane] != static_cast<T>(j)) sign = -sign;
    return sign;
  }
  void give_determinants(Group group) {
    T* const to = wanted_.determinants.mutable_data_ptr<T>();
    for (size_t lane = 0; lane < group.here; ++lane) {
      T product = 1;
      for (size_t j = 0; j < n_; ++j) product *= on_diagonal(j, lane);
      to[group.first + lane] = product * sign_of_exchanges(lane);
    }
  }
  void give_signs(Group group) {
    T* const signs = wanted_.signs.mutable_data_ptr<T>();
    T* const diagonals = wanted_.diagonals.mutable_data_ptr<T>();
    for (size_t lane = 0; lane < group.here; ++lane) {
      T sign = sign_of_exchanges(lane);
      for (size_t j = 0; j < n_; ++j) {
        const T number = on_diagonal(j, lane);
        if (number < 0) sign = -sign;
        diagonals[(group.first + lane) * n_ + j] = std::abs(number);
      }
      signs[group.first + lane] = sign;
    }
  }
  void solve(Group group) {
    T* const b = other_.data();
    if (right_) {
      right_->take(group, b);
    } else {
      std::fill_n(b, n_ * columns_ * kLanes, T(0));
      for (size_t j = 0; j < n_; ++j) std::fill_n(b + (j * n_ + j) * kLanes, kLanes, T(1));
    }
    lanes::exchange(pivots_.data(), b, n_, columns_);
    lanes::solve(matrix_.data(), b, n_, columns_, {.upper = false, .unit = true}, rounding_);
    lanes::solve(matrix_.data(), b, n_, columns_, {.upper = true, .unit = false}, rounding_);
    solution_->give(b, group);
  }

  const Wanted& wanted_;
  const size_t n_, columns_;
  const Rounding rounding_;
  const Matrices<const T> from_;
  std::optional<Matrices<const T>> right_;
  std::optional<Matrices<T>> lu_, solution_;
  Numbers<T> matrix_, pivots_, other_;
};

/// work.template operator()<T>() of the tensor's numbers.
template <class Work>
auto by_type(const Tensor& t, const Work& work) {
  return t.scalar_type() == at::kFloat ? work.template operator()<float>()
                                       : work.template operator()<double>();
}

/// Returns the matrices that are ATen's.
Index factor(const Tensor& a, const Wanted& wanted) {
  return by_type(a, [&]<class T>() {
    const auto n = static_cast<size_t>(a.size(1));
    const Rounding rounding = lanes::rounding_of_factors<T>(n);
    return lanes::for_groups<T>(static_cast<size_t>(a.size(0)), n * n * (n + wanted.columns()),
                                [&] { return Factoring<T>(a, wanted, rounding); });
  });
}

/// Those of `t`, as [matrices, ...], in the layout that they have there.
Tensor picked(const Tensor& t, const Tensor& which) {
  const bool by_rows = t.dim() < 3 || t.is_contiguous();
  return by_rows ? t.index_select(0, which) : t.mT().index_select(0, which).mT();
}
/// The matrices `left` by call(those of `a`), which gives results in the order of `to`.
template <class Call>
void leave_to_aten(const Index& left, const Tensor& a, const std::vector<Tensor>& to,
                   const Call& call) {
  if (left.empty()) return;
  const Tensor which = at::tensor(left);
  std::apply(
      [&](const auto&... results) {
        size_t k = 0;
        (to[k++].index_copy_(0, which, results), ...);
      },
      call(picked(a, which), which));
}

/// The batch's results as [matrices, ...].
Tensor numbers_of(const Tensor& t) {
  return t.view({-1});
}

std::tuple<Tensor, Tensor> invert(const Tensor& self, bool check_errors) {
  if (check_errors || !are_small(self)) return at::linalg_inv_ex(self, check_errors);
  const Tensor a = flat(self), result = column_major(self.sizes(), self),
               info = at::zeros(batch_of(self), self.options().dtype(at::kInt));
  Wanted wanted;
  wanted.solution = flat(result);
  leave_to_aten(factor(a, wanted), a, {wanted.solution, numbers_of(info)},
                [](const Tensor& some, const Tensor&) { return at::linalg_inv_ex(some); });
  return {result, info};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> solve(const Tensor& a, const Tensor& b, bool left,
                                                 bool check_errors) {
  const bool is_vector = b.dim() + 1 == a.dim() && b.sizes() == a.sizes().slice(0, b.dim());
  const Tensor right = is_vector ? b.unsqueeze(-1) : b;
  if (check_errors || !left || !are_small(a) || !is_beside(b, a) || right.dim() != a.dim() ||
      batch_of(right) != batch_of(a) || right.size(-2) != a.size(-1) || right.size(-1) == 0)
    return at::_linalg_solve_ex(a, b, left, check_errors);
  const Tensor result = column_major(b.sizes(), b), lu = column_major(a.sizes(), a),
               places = pivots_for(a), info = at::zeros(batch_of(a), a.options().dtype(at::kInt));
  const Tensor from = flat(a), of_right = flat(right);
  Wanted wanted;
  wanted.lu = flat(lu), wanted.places = places, wanted.right = of_right;
  // Vectors of a batch lie as the columns of matrices do.
  wanted.solution = is_vector ? at::empty_like(of_right) : flat(result);
  leave_to_aten(factor(from, wanted), from,
                {wanted.solution, wanted.lu, places.view({-1, a.size(-1)}), numbers_of(info)},
                [&](const Tensor& some, const Tensor& which) {
                  return at::_linalg_solve_ex(some, picked(of_right, which));
                });
  if (is_vector) result.copy_(wanted.solution.view(b.sizes()));
  return {result, lu, places, info};
}

/// Determinants factor the transposed matrices of a contiguous tensor, which lie as LAPACK's do.
Tensor as_determined(const Tensor& self, const Tensor& a) {
  return self.is_contiguous() ? a.mT() : a;
}
/// The same for some of them.
Tensor as_laid_out(const Tensor& self, const Tensor& some) {
  return self.is_contiguous() ? some : some.mT().contiguous().mT();
}

std::tuple<Tensor, Tensor, Tensor> determinant(const Tensor& self) {
  if (!are_small(self)) return at::_linalg_det(self);
  const Tensor a = flat(self), result = at::empty(batch_of(self), self.options()),
               lu = column_major(self.sizes(), self), places = pivots_for(self);
  Wanted wanted;
  wanted.lu = flat(lu), wanted.places = places, wanted.determinants = result;
  leave_to_aten(
      factor(as_determined(self, a), wanted), a,
      {numbers_of(result), wanted.lu, places.view({-1, self.size(-1)})},
      [&](const Tensor& some, const Tensor&) { return at::_linalg_det(as_laid_out(self, some)); });
  return {result, lu, places};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> log_determinant(const Tensor& self) {
  if (!are_small(self)) return at::_linalg_slogdet(self);
  const Tensor a = flat(self), sign = at::empty(batch_of(self), self.options()),
               lu = column_major(self.sizes(), self), places = pivots_for(self);
  Wanted wanted;
  wanted.lu = flat(lu), wanted.places = places, wanted.signs = sign;
  wanted.diagonals = at::empty(places.sizes(), self.options());
  const Index left = factor(as_determined(self, a), wanted);
  const Tensor logarithm = wanted.diagonals.log_().sum(-1);
  leave_to_aten(
      left, a,
      {numbers_of(sign), numbers_of(logarithm), wanted.lu, places.view({-1, self.size(-1)})},
      [&](const Tensor& some, const Tensor&) {
        return at::_linalg_slogdet(as_laid_out(self, some));
      });
  return {sign, logarithm, lu, places};
}

/// A lower triangle in the square's place.
template <class T>
class Cholesky {
 public:
  Cholesky(const Tensor& a, const Tensor& result, Rounding rounding)
      : n_(static_cast<size_t>(a.size(1))),
        rounding_(rounding),
        from_(a),
        to_(result),
        matrix_(n_ * n_) {}
  Mask operator()(Group group) {
    from_.take(group, matrix_.data());
    const Mask left = lanes::cholesky(matrix_.data(), n_, rounding_);
    to_.give(matrix_.data(), group);
    return left;
  }

 private:
  const size_t n_;
  const Rounding rounding_;
  const Matrices<const T> from_;
  const Matrices<T> to_;
  Numbers<T> matrix_;
};

std::tuple<Tensor, Tensor> cholesky(const Tensor& self, bool upper, bool check_errors) {
  if (upper || check_errors || !are_small(self))
    return at::linalg_cholesky_ex(self, upper, check_errors);
  const Tensor a = flat(self), result = column_major(self.sizes(), self), to = flat(result),
               info = at::zeros(batch_of(self), self.options().dtype(at::kInt));
  const Index left = by_type(a, [&]<class T>() {
    const auto n = static_cast<size_t>(a.size(1));
    const Rounding rounding = lanes::rounding_of_cholesky<T>(n);
    return lanes::for_groups<T>(static_cast<size_t>(a.size(0)), n * n * n,
                                [&] { return Cholesky<T>(a, to, rounding); });
  });
  leave_to_aten(left, a, {to, numbers_of(info)},
                [](const Tensor& some, const Tensor&) { return at::linalg_cholesky_ex(some); });
  return {result, info};
}

template <class T>
class Triangular {
 public:
  Triangular(const Tensor& a, const Tensor& b, const Tensor& result, lanes::Triangle kind,
             Rounding rounding)
      : n_(static_cast<size_t>(a.size(1))),
        columns_(static_cast<size_t>(b.size(2))),
        kind_(kind),
        rounding_(rounding),
        from_(a),
        right_(b),
        to_(result),
        matrix_(n_ * n_),
        other_(n_ * columns_) {}
  Mask operator()(Group group) {
    from_.take(group, matrix_.data());
    right_.take(group, other_.data());
    const Mask left = lanes::solve(matrix_.data(), other_.data(), n_, columns_, kind_, rounding_);
    to_.give(other_.data(), group);
    return left;
  }

 private:
  const size_t n_, columns_;
  const lanes::Triangle kind_;
  const Rounding rounding_;
  const Matrices<const T> from_, right_;
  const Matrices<T> to_;
  Numbers<T> matrix_, other_;
};

Tensor solve_triangular(const Tensor& self, const Tensor& b, bool upper, bool left,
                        bool unitriangular) {
  if (!are_small(self) || !is_beside(b, self) || b.dim() != self.dim() ||
      batch_of(b) != batch_of(self) || b.size(left ? -2 : -1) != self.size(-1) || b.numel() == 0)
    return at::linalg_solve_triangular(self, b, upper, left, unitriangular);
  const Tensor result = column_major(b.sizes(), b);
  Tensor a = flat(self), right = flat(b), to = flat(result);
  if (!left) a = a.mT(), right = right.mT(), to = to.mT(), upper = !upper;
  const Index rest = by_type(a, [&]<class T>() {
    const auto n = static_cast<size_t>(a.size(1)), columns = static_cast<size_t>(right.size(2));
    const lanes::Triangle kind{.upper = upper, .unit = unitriangular};
    const Rounding rounding = lanes::rounding_of_triangles<T>(n, columns == 1, kind);
    return lanes::for_groups<T>(static_cast<size_t>(a.size(0)), n * n * columns,
                                [&] { return Triangular<T>(a, right, to, kind, rounding); });
  });
  leave_to_aten(rest, a, {to}, [&](const Tensor& some, const Tensor& which) {
    return std::tuple(at::linalg_solve_triangular(some, picked(right, which), upper,
                                                  /*left=*/true, unitriangular));
  });
  return result;
}

void raise_errors(const Tensor& info, std::string_view api_name, bool is_matrix) {
  const bool is_read =
      info.device().is_cpu() && info.is_contiguous() && info.scalar_type() == at::kInt;
  const int32_t* const first = is_read ? info.const_data_ptr<int32_t>() : nullptr;
  if (first != nullptr &&
      std::all_of(first, first + info.numel(), [](int32_t i) { return i == 0; }))
    return;
  at::_linalg_check_errors(info, api_name, is_matrix);
}

}  // namespace

}  // namespace graft

TORCH_LIBRARY_FRAGMENT(graft, library) {
  const auto add = [&](std::string_view name, const char* arguments, auto function) {
    graft::add_operator(library, name, arguments, function);
  };
  add(graft::kInverses, "(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
      graft::invert);
  add(graft::kSolutions,
      "(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> "
      "(Tensor result, Tensor LU, Tensor pivots, Tensor info)",
      graft::solve);
  add(graft::kDeterminants, "(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)",
      graft::determinant);
  add(graft::kLogDeterminants,
      "(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)",
      graft::log_determinant);
  add(graft::kCholeskyFactors,
      "(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
      graft::cholesky);
  add(graft::kTriangularSolutions,
      "(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor",
      graft::solve_triangular);
  add(graft::kChecks, "(Tensor info, str api_name, *, bool is_matrix) -> ()", graft::raise_errors);
}
