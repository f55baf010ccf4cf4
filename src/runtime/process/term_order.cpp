#include "runtime/process/term_order.h"

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cmath>

#include "runtime/process/kept.h"
#include "runtime/process/with_threads.h"

namespace graft::runtime {

namespace {

using at::Tensor;

/// More rows, columns and matrices change nothing.
constexpr int64_t kMostAsked = 256, kAskedBatch = 3;
/// Sums that are looked at.
constexpr int64_t kAskedSums = 256;

/// Numbers whose products are not exact.
Tensor numbers(at::IntArrayRef sizes, at::ScalarType dtype, int64_t seed) {
  const Tensor out = at::empty(sizes, dtype);
  AT_DISPATCH_FLOATING_TYPES(dtype, "order_of_terms", [&] {
    auto* const to = out.mutable_data_ptr<scalar_t>();
    for (int64_t k = 0; k < out.numel(); ++k)
      to[k] = static_cast<scalar_t>((k * 7919 + seed) % 10007 - 5003) / scalar_t(1237);
  });
  return out;
}

/// [batch, rows, columns]
Tensor matrices(int64_t batch, int64_t rows, int64_t columns, bool turned, at::ScalarType dtype,
                int64_t seed) {
  return turned ? numbers({batch, columns, rows}, dtype, seed).transpose(1, 2)
                : numbers({batch, rows, columns}, dtype, seed);
}

template <class T>
T add_up(const T* left, const T* right, int64_t terms, ir::TermOrder order, const T* added) {
  const bool first = !order.from_added;
  T sum = first ? left[0] * right[0] : *added;
  for (int64_t k = first ? 1 : 0; k < terms; ++k)
    sum = order.fused ? std::fma(left[k], right[k], sum) : sum + left[k] * right[k];
  return first && added != nullptr ? sum + *added : sum;
}

ir::TermOrder ask(const ir::FewTerms& p) {
  const WithThreads one(1);  // others would stay about
  const at::DisableRecordFunctionGuard unseen;
  const c10::NoGradGuard no_grad;
  const at::AutoDispatchBelowAutograd below;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const int64_t batch = p.batched ? kAskedBatch : 1, rows = p.rows, columns = p.columns;
  const Tensor left = matrices(batch, rows, p.terms, p.left_turned, p.dtype, 1),
               right = matrices(batch, p.terms, columns, p.right_turned, p.dtype, 2);
  Tensor added, sums;
  if (p.adds) {
    added = numbers({batch, rows, columns}, p.dtype, 3);
    sums = p.batched ? at::baddbmm(added, left, right) : at::addmm(added[0], left[0], right[0]);
  } else {
    sums = p.batched ? at::bmm(left, right) : at::mm(left[0], right[0]);
  }
  const Tensor by_row = left.contiguous(), by_column = right.transpose(1, 2).contiguous();
  sums = sums.contiguous();
  ir::TermOrder best;
  AT_DISPATCH_FLOATING_TYPES(p.dtype, "order_of_terms", [&] {
    int64_t least = kAskedSums + 1;
    const int64_t all = batch * rows * columns, step = all / kAskedSums | 1;
    for (const bool from_added : {false, true})
      for (const bool fused : {true, false}) {
        if (from_added && !p.adds) continue;
        const ir::TermOrder order{fused, from_added};
        int64_t unlike = 0;
        for (int64_t at = 0; at < all && at / step < kAskedSums; at += step) {
          const int64_t row = at / columns, column = row / rows * columns + at % columns;
          const scalar_t sum =
              add_up(by_row.const_data_ptr<scalar_t>() + row * p.terms,
                     by_column.const_data_ptr<scalar_t>() + column * p.terms, p.terms, order,
                     p.adds ? added.const_data_ptr<scalar_t>() + at : nullptr);
          unlike += sum != sums.const_data_ptr<scalar_t>()[at] ? 1 : 0;
        }
        if (unlike < least) best = order, least = unlike;
      }
  });
  return best;
}

}  // namespace

ir::TermOrder order_of_terms(const ir::FewTerms& product) {
  // The worker may outlive static objects.
  static auto* const known = new Kept<ir::FewTerms, ir::TermOrder>;
  ir::FewTerms asked = product;
  asked.rows = std::min(asked.rows, kMostAsked),
  asked.columns = std::min(asked.columns, kMostAsked);
  if (const auto order = known->find(asked)) return *order;
  const ir::TermOrder order = ask(asked);
  known->add(asked, order);
  return order;
}

}  // namespace graft::runtime
