#include <ATen/ATen.h>

#include "oracle/recipes.h"

namespace graft::test {

namespace {

using T = at::Tensor;

/// As fp32 or fp64: LAPACK has no others.
T number(const T& x) {
  return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
}
/// Where LAPACK's routines of every size are as exact as in any order of rounding.
T well_conditioned(const T& x) {
  const T small = number(x).nan_to_num(0.5, 1, -1).clamp(-2, 2);
  return small + 4 * x.size(-1) * at::eye(x.size(-1), small.options());
}
T positive_definite(const T& x) {
  const T a = well_conditioned(x);
  return a + a.mT();
}

}  // namespace

std::vector<Recipe> linalg_recipes() {
  std::vector<Recipe> all;
  auto add = [&](std::string label, std::vector<Input> inputs, Function f) {
    all.push_back({std::move(label),
                   std::move(inputs),
                   std::move(f),
                   Recipe::Types::Floating,
                   {"graft::linalg_inv_ex", "graft::_linalg_solve_ex", "graft::_linalg_det",
                    "graft::_linalg_slogdet", "graft::linalg_cholesky_ex",
                    "graft::linalg_solve_triangular", "graft::_linalg_check_errors"},
                   /*must_fuse=*/false});
  };
  for (int64_t n : {1, 2, 3, 4, 7, 8, 13}) {
    const std::string of = " n=" + std::to_string(n);
    const std::vector<Input> matrices{values({3, 11, n, n})};
    const std::vector<Input> both{values({19, n, n}), values({19, n, 3})};
    add("aten::linalg_inv_ex" + of, matrices, [](const Tensors& t) -> Tensors {
      const T inverse = at::linalg_inv(well_conditioned(t[0]));
      return {inverse, at::linalg_inv(well_conditioned(t[0]).mT()) + 1};
    });
    add("aten::_linalg_check_errors" + of, matrices,
        [](const Tensors& t) -> Tensors { return {at::linalg_inv(well_conditioned(t[0])) * 2}; });
    add("aten::_linalg_solve_ex" + of, both, [](const Tensors& t) -> Tensors {
      const T a = well_conditioned(t[0]), b = number(t[1]);
      return {at::linalg_solve(a, b), at::linalg_solve(a, b.select(2, 1)) * 2,
              at::linalg_solve(a.mT(), b, /*left=*/true)};
    });
    add("aten::_linalg_det" + of, matrices, [](const Tensors& t) -> Tensors {
      return {at::linalg_det(well_conditioned(t[0])) / 3, at::linalg_det(number(t[0]))};
    });
    add("aten::_linalg_slogdet" + of, matrices, [](const Tensors& t) -> Tensors {
      auto [sign, logarithm] = at::linalg_slogdet(well_conditioned(t[0]));
      return {sign, logarithm};
    });
    add("aten::linalg_cholesky_ex" + of, matrices,
        [](const Tensors& t) -> Tensors { return {at::linalg_cholesky(positive_definite(t[0]))}; });
    add("aten::linalg_solve_triangular" + of, both, [](const Tensors& t) -> Tensors {
      const T a = well_conditioned(t[0]), b = number(t[1]);
      return {at::linalg_solve_triangular(a, b, /*upper=*/true),
              at::linalg_solve_triangular(a, b.mT(), /*upper=*/false, /*left=*/false),
              at::linalg_solve_triangular(a.mT(), b, false, true, /*unitriangular=*/true)};
    });
  }
  return all;
}

}  // namespace graft::test
