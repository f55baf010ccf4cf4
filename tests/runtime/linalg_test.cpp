// Inverses, solutions and factors of many small matrices: graft:: routines, ATen's results.
#include <limits>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

using at::Tensor;

Tensor matrices(int64_t n, at::ScalarType type, int64_t count = 45) {
  return at::randn({count, n, n}, type) + 2 * at::eye(n, type);
}

/// Of well-conditioned matrices, to roundings; laid out as eager's.
void expect_close(const Tensor& ours, const Tensor& eager, const std::string& what) {
  EXPECT_EQ(ours.strides(), eager.strides()) << what;
  const double few = ours.scalar_type() == at::kDouble ? 1e-9 : 2e-3;
  EXPECT_TRUE(at::allclose(ours, eager, few, few, /*equal_nan=*/true))
      << what << " " << (ours - eager).abs().max();
}

TEST(SmallMatrices, InversesSolutionsAndFactors) {
  auto f = [](const Tensor& a, const Tensor& b) -> Tensors {
    const Tensor inverse = at::linalg_inv(a), square = at::matmul(a, a.mT()) + 1,
                 factor = at::linalg_cholesky(square + 3 * at::eye(a.size(-1), a.options()));
    auto [sign, logarithm] = at::linalg_slogdet(a);
    return {inverse,
            at::linalg_solve(a, b),
            at::linalg_solve(a.mT(), b.select(-1, 0)),
            at::linalg_det(a),
            sign,
            logarithm,
            factor,
            at::linalg_solve_triangular(factor, b, /*upper=*/false),
            at::linalg_solve_triangular(factor, b.mT(), /*upper=*/false, /*left=*/false)};
  };
  at::manual_seed(1);
  for (at::ScalarType type : {at::kFloat, at::kDouble})
    for (int64_t n : {1, 2, 3, 4, 5, 8, 9, 16}) {
      auto compiled = compile(f, at_once());
      for (int call = 0; call < 3; ++call) {
        const Tensor a = matrices(n, type), b = at::randn({45, n, 2}, type);
        const Tensors ours = compiled(a, b), eager = f(a, b);
        for (size_t k = 0; k < eager.size(); ++k)
          expect_close(ours[k], eager[k], std::to_string(n) + " result " + std::to_string(k));
      }
      EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
      for (const char* routine :
           {"graft::linalg_inv_ex", "graft::_linalg_solve_ex", "graft::_linalg_det",
            "graft::_linalg_slogdet", "graft::linalg_cholesky_ex", "graft::linalg_solve_triangular",
            "graft::_linalg_check_errors"})
        EXPECT_NE(compiled.explain().find(routine), std::string::npos) << compiled.explain();
    }
}

/// What is singular, not finite or not positive definite is ATen's, bit for bit; its neighbours are
/// not touched by it.
TEST(SmallMatrices, OddMatricesAreEagers) {
  auto f = [](const Tensor& a) -> Tensors {
    auto [inverse, info] = at::linalg_inv_ex(a);
    auto [factor, defect] = at::linalg_cholesky_ex(a);
    auto [sign, logarithm] = at::linalg_slogdet(a);
    auto [x, lu, pivots, found] = at::_linalg_solve_ex(a, a.mT());
    return {inverse * 2, info, defect, at::linalg_det(a), sign, logarithm, x, lu, pivots, found};
  };
  const float infinity = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  at::manual_seed(2);
  auto compiled = compile(f, at_once());
  for (int call = 0; call < 3; ++call) compiled(matrices(3, at::kFloat));
  for (int64_t row = 0; row < 9; ++row) {
    Tensor a = matrices(3, at::kFloat);
    for (int64_t k = row; k < 45; k += 7) {
      Tensor m = a[k];
      if (row == 0) m.zero_();
      if (row == 1) m[1].copy_(m[0]);
      if (row == 2) m[0][2] = nan;
      if (row == 3) m[2][1] = infinity;
      if (row == 4) m.mul_(1e-38f);
      if (row == 5) m.mul_(1e37f);
      if (row == 6) m.copy_(at::eye(3).flip(0));
      if (row == 7) m.triu_();
      if (row == 8) m.fill_(-0.f);
    }
    const Tensors ours = compiled(a), eager = f(a);
    for (size_t k = 0; k < eager.size(); ++k)
      for (int64_t m = row; m < 45; m += 7)
        EXPECT_TRUE(same(ours[k][m], eager[k][m]))
            << row << " " << k << " " << ours[k][m] << eager[k][m];
    for (size_t k = 0; k < eager.size(); ++k)
      if (eager[k].is_floating_point())
        expect_close(ours[k], eager[k], std::to_string(row) + " result " + std::to_string(k));
  }
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
}

/// Of matrices of few samples what is left of the last pivot is rounding, and decides.
TEST(SmallMatrices, FactorsOfSemidefiniteMatricesAreEagers) {
  auto f = [](const Tensor& a) -> Tensors {
    auto [factor, info] = at::linalg_cholesky_ex(a);
    return {info, a * 2};
  };
  at::manual_seed(7);
  for (at::ScalarType type : {at::kFloat, at::kDouble})
    for (int64_t n : {2, 3, 5, 8, 16}) {
      auto compiled = compile(f, at_once());
      for (int call = 0; call < 3; ++call)
        compiled(matrices(n, type, 500) * at::eye(n, type) + 9 * at::eye(n, type));
      const Tensor samples = at::randn({500, n, n - 1}, type),
                   a = at::matmul(samples, samples.mT());
      EXPECT_TRUE(same(compiled(a)[0], f(a)[0])) << type << " " << n;
      EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
    }
}

/// A diagonal that has no reciprocal, or is none, and what is not looked at.
TEST(SmallMatrices, OddTrianglesAreEagers) {
  auto f = [](const Tensor& a, const Tensor& b) -> Tensors {
    return {at::linalg_solve_triangular(a, b, /*upper=*/true) * 2,
            at::linalg_solve_triangular(a, b, /*upper=*/false),
            at::linalg_solve_triangular(a, b.mT(), /*upper=*/true, /*left=*/false),
            at::linalg_solve_triangular(a, b, /*upper=*/true, true, /*unitriangular=*/true)};
  };
  const double infinity = std::numeric_limits<double>::infinity(),
               nan = std::numeric_limits<double>::quiet_NaN();
  at::manual_seed(6);
  for (at::ScalarType type : {at::kFloat, at::kDouble}) {
    auto compiled = compile(f, at_once());
    const double least = type == at::kFloat ? 1e-39 : 1e-310,
                 most = type == at::kFloat ? 3e38 : 1.7e308;
    for (const double odd : {0.5, 0., -0., least, most, infinity, nan}) {
      Tensor a = matrices(3, type), b = at::randn({45, 3, 3}, type) * 1e-5;
      for (int64_t k = 3; k < 45; k += 5) a[k][k % 3][k % 3] = odd;
      compiled(a, b);
      const Tensors ours = compiled(a, b), eager = f(a, b);
      for (size_t k = 0; k < eager.size(); ++k)
        expect_close(ours[k], eager[k], std::to_string(odd) + " result " + std::to_string(k));
    }
    EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
  }
}

TEST(SmallMatrices, ErrorsAreEagers) {
  auto f = [](const Tensor& a) -> Tensors { return {at::linalg_inv(a) * 2}; };
  at::manual_seed(3);
  auto compiled = compile(f, at_once());
  for (int call = 0; call < 3; ++call) compiled(matrices(2, at::kFloat));
  Tensor a = matrices(2, at::kFloat);
  a[17].fill_(1);
  std::string ours, eager;
  try {
    f(a);
  } catch (const c10::Error& e) {
    eager = e.what_without_backtrace();
  }
  try {
    compiled(a);
  } catch (const c10::Error& e) {
    ours = e.what_without_backtrace();
  }
  EXPECT_EQ(ours, eager);
  EXPECT_NE(eager.find("17"), std::string::npos) << eager;
  const Tensor good = matrices(2, at::kFloat);
  expect_close(compiled(good)[0], f(good)[0], "after an error");
}

TEST(SmallMatrices, SameBitsAtEveryThreadCount) {
  auto f = [](const Tensor& a) -> Tensors { return {at::linalg_inv(a), at::linalg_det(a)}; };
  at::manual_seed(4);
  const Tensor a = matrices(5, at::kFloat, 30011);
  const int before = at::get_num_threads();
  auto compiled = compile(f, at_once());
  for (int call = 0; call < 3; ++call) compiled(a);
  const Tensors whole = compiled(a);
  for (int threads : {1, 2, 7}) {
    at::set_num_threads(threads);
    const Tensors some = compiled(a);
    for (size_t k = 0; k < whole.size(); ++k) EXPECT_TRUE(same(some[k], whole[k])) << threads;
  }
  at::set_num_threads(before);
}

/// Backward passes invert, solve and factor as well.
TEST(SmallMatrices, Gradients) {
  auto f = [](const Tensor& a) -> Tensors {
    const Tensor x = a.detach().requires_grad_();
    const Tensor y = at::linalg_inv(x).sum() + at::logdet(at::matmul(x, x.mT()) + 4).sum();
    return {torch::autograd::grad({y}, {x})[0]};
  };
  at::manual_seed(5);
  auto compiled = compile(f, at_once());
  for (int call = 0; call < 3; ++call) {
    const Tensor a = matrices(3, at::kDouble);
    expect_close(compiled(a)[0], f(a)[0], "gradient");
  }
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
}

}  // namespace
}  // namespace graft::test
