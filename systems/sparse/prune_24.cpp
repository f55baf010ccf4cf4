#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cholesky_inverse.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <tuple>

#include "systems/sparse/sparse_24.h"

namespace graft::systems {
namespace {

using at::Tensor;

/// True where a score is among the two highest of its group of four; of equal ones, the earlier.
Tensor best_two(const Tensor& scores) {
  const Tensor groups = scores.reshape({scores.size(0), -1, 4});
  const Tensor best =
      at::argsort(groups, /*stable=*/true, -1, /*descending=*/true).narrow(-1, 0, 2);
  return at::zeros(groups.sizes(), at::kBool).scatter_(-1, best, true).view(scores.sizes());
}

/// The upper factor U of the inverse, U^T U = H^-1: row j says how later columns make up for j.
Tensor inverse_factor(const Tensor& hessian) {
  const auto [lower, info] = at::linalg_cholesky_ex(hessian);
  TORCH_CHECK_VALUE(info.item<int>() == 0,
                    "prune_24: came a Hessian that is not positive definite "
                    "(its leading minor of order ",
                    info.item<int>(),
                    "); expected X^T X of inputs: "
                    "add more of them, or raise HessianPruning::damping");
  const auto [upper, of_inverse] =
      at::linalg_cholesky_ex(at::cholesky_inverse(lower), false, false);
  TORCH_CHECK_VALUE(of_inverse.item<int>() == 0,
                    "prune_24: came a Hessian whose inverse is not "
                    "positive definite in fp64; raise HessianPruning::damping");
  return upper.t();
}

}  // namespace

void check_weight_24(const char* who, const Tensor& weight) {
  TORCH_CHECK_VALUE(
      weight.defined() && weight.dim() == 2 && weight.is_cpu() &&
          (weight.scalar_type() == at::kFloat || weight.scalar_type() == at::kBFloat16 ||
           weight.scalar_type() == at::kHalf),
      who, ": came ", describe_24(weight),
      "; expected (out features, in features) of Float, BFloat16 or Half on the CPU");
  TORCH_CHECK_VALUE(weight.size(0) > 0 && weight.size(1) > 0 && weight.size(1) % 32 == 0, who,
                    ": came ", describe_24(weight), "; expected in features in multiples of 32");
}

Tensor prune_24(const Tensor& weight) {
  check_weight_24("prune_24", weight);
  const c10::AutoGradMode no_grad(false);
  return weight.masked_fill(~best_two(weight.abs()), 0);
}

Tensor input_hessian(const Tensor& inputs) {
  TORCH_CHECK_VALUE(
      inputs.defined() && inputs.dim() > 0 && inputs.is_floating_point() && inputs.numel() > 0,
      "input_hessian: came ", describe_24(inputs),
      "; expected inputs (…, in features) of a floating dtype");
  const c10::AutoGradMode no_grad(false);
  const Tensor x = inputs.reshape({-1, inputs.size(-1)}).to(at::kDouble);
  return at::matmul(x.t(), x) * (2.0 / static_cast<double>(x.size(0)));
}

Tensor prune_24(const Tensor& weight, const Tensor& hessian, const HessianPruning& how) {
  check_weight_24("prune_24", weight);
  const int64_t columns = weight.size(1);
  TORCH_CHECK_VALUE(hessian.defined() && hessian.dim() == 2 && hessian.is_floating_point() &&
                        hessian.size(0) == columns && hessian.size(1) == columns,
                    "prune_24: came a Hessian ", describe_24(hessian), " for a weight ",
                    describe_24(weight), "; expected (in features, in features)");
  TORCH_CHECK_VALUE(how.damping >= 0 && how.block > 0 && how.block % 4 == 0,
                    "prune_24: came damping ", how.damping, " and blocks of ", how.block,
                    "; expected at least 0, and a positive multiple of 4");
  const c10::AutoGradMode no_grad(false);
  Tensor h = hessian.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
  const Tensor unused = h.diagonal() == 0;
  h.diagonal().masked_fill_(unused, 1);
  h.diagonal().add_(h.diagonal().mean() * how.damping);
  const Tensor factor = inverse_factor(h).to(at::kFloat).contiguous();

  // Columns are what the loop walks over, so they lie together. Always a copy: a transposed fp32
  // weight is what it has to be already, and must stay as it is.
  const Tensor w = weight.to(at::kFloat).t().clone(at::MemoryFormat::Contiguous);
  w.masked_fill_(unused.unsqueeze(1), 0);
  for (int64_t begin = 0; begin < columns; begin += how.block) {
    const int64_t end = std::min(columns, begin + how.block);
    const Tensor errors = at::empty_like(w.slice(0, begin, end));
    Tensor keep;
    for (int64_t j = begin; j < end; ++j) {
      if ((j - begin) % 4 == 0) {
        const Tensor d = factor.diagonal().slice(0, j, j + 4);
        keep = best_two(w.slice(0, j, j + 4).t().div(d).square()).t();
      }
      const Tensor column = w.select(0, j), kept = column * keep.select(0, (j - begin) % 4);
      const Tensor error = errors.select(0, j - begin);
      error.copy_(column - kept).div_(factor[j][j]);
      w.slice(0, j, end).addr_(factor[j].slice(0, j, end), error, 1, -1);
      column.copy_(kept);  // exact zeros
    }
    if (end < columns)
      w.slice(0, end).addmm_(factor.slice(0, begin, end).slice(1, end).t(), errors, 1, -1);
  }
  return w.t().to(weight.scalar_type()).contiguous();
}

}  // namespace graft::systems
