#include "runtime/process/term_order.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace graft::test {

namespace {

using at::Tensor;

/// Of how many elements does this order not give ATen's bits?
int64_t unlike(const Tensor& left, const Tensor& right, const Tensor& added, const Tensor& sums,
               ir::TermOrder order) {
  const Tensor a = left.contiguous(), b = right.t().contiguous();
  const auto *x = a.const_data_ptr<float>(), *y = b.const_data_ptr<float>(),
             *plus = added.const_data_ptr<float>(), *sum = sums.const_data_ptr<float>();
  const int64_t terms = a.size(1), columns = b.size(0);
  int64_t count = 0;
  for (int64_t at = 0; at < sums.numel(); ++at) {
    float made = order.from_added ? plus[at] : 0;
    for (int64_t k = 0; k < terms; ++k) {
      const float l = x[at / columns * terms + k], r = y[at % columns * terms + k];
      made = order.fused ? std::fma(l, r, made) : made + l * r;
    }
    count += (order.from_added ? made : made + plus[at]) != sum[at] ? 1 : 0;
  }
  return count;
}

}  // namespace

/// No other order is nearer to what the routine makes of other numbers.
TEST(TermOrder, IsTheRoutines) {
  at::manual_seed(7);
  for (const auto& [rows, terms, columns] :
       {std::array<int64_t, 3>{3000, 3, 3}, {3, 3, 500}, {70, 3, 64}, {64, 8, 100}, {40, 2, 12}})
    for (const bool turned : {false, true})
      for (const bool adds : {false, true}) {
        const Tensor left = at::randn({rows, terms}),
                     right = turned ? at::randn({columns, terms}).t() : at::randn({terms, columns}),
                     added = adds ? at::randn({rows, columns}) : at::zeros({rows, columns}),
                     sums = adds ? at::addmm(added, left, right) : at::mm(left, right);
        const ir::FewTerms product{
            .adds = adds, .rows = rows, .terms = terms, .columns = columns, .right_turned = turned};
        const int64_t ours = unlike(left, right, added, sums, runtime::order_of_terms(product));
        for (const bool fused : {false, true})
          for (const bool from_added : {false, true})
            EXPECT_LE(ours, unlike(left, right, added, sums, {fused, from_added}) + rows / 100)
                << rows << " " << terms << " " << columns << " " << turned << " " << adds << ": "
                << fused << from_added;
      }
}

}  // namespace graft::test
