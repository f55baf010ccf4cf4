// Products of a loop's steps that become one call: the same results, in any order of the steps.
#include "passes/merge_products.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

#include "runtime/helpers.h"
#include "support/lowered.h"

namespace graft::test {
namespace {

using at::Tensor;

/// Calls left when all that could be merged are.
size_t calls_after(const Function& fn, const Tensors& args) {
  LoweredRun run = lower_run(fn, args);
  const auto groups = passes::products_to_merge(run.lowered.program);
  const ir::Program merged = passes::merge_products(run.lowered.program, groups);
  EXPECT_EQ(ir::verify(merged), "");
  return static_cast<size_t>(
      std::count_if(merged.items.begin(), merged.items.end(),
                    [](const ir::Item& item) { return std::holds_alternative<ir::Extern>(item); }));
}

Tensors rows_of_a_cube(Tensors& t) {
  Tensor sum = t[2];
  for (int64_t i = 0; i < t[0].size(0); ++i) sum = at::tanh(at::mm(t[0][i], t[1])) + sum * 0.5;
  return {sum};
}
Tensors columns_of_a_cube(Tensors& t) {
  Tensor sum = t[2];
  for (int64_t i = 0; i < t[0].size(1); ++i)
    sum = at::relu(at::addmm(t[2][0], t[0].select(1, i), t[1])) - sum * 0.5;
  return {sum};
}
Tensors backwards(Tensors& t) {
  Tensor sum = t[2];
  for (int64_t i = t[0].size(0); i-- > 0;) sum = at::mm(t[0][i], t[1]) * sum;
  return {sum};
}
Tensors pairs(Tensors& t) {
  Tensor sum = t[2];
  for (int64_t i = 0; i < t[0].size(0); ++i) sum = at::mm(t[0][i], t[0][i].t().matmul(sum)) * 0.1;
  return {sum};
}
Tensors of_what_is_written(Tensors& t) {
  Tensor x = t[0].clone(), sum = t[2];
  for (int64_t i = 0; i < x.size(0); ++i) {
    sum = at::mm(x[i], t[1]) + sum;
    x.mul_(0.5);
  }
  return {sum};
}

TEST(MergeProducts, WhichBecomeOne) {
  const Tensor weights = at::randn({40, 24}), start = at::randn({16, 24});
  EXPECT_EQ(calls_after(rows_of_a_cube, {at::randn({9, 16, 40}), weights, start}), 1u);
  EXPECT_EQ(calls_after(columns_of_a_cube, {at::randn({16, 9, 40}), weights, start}), 1u);
  EXPECT_EQ(calls_after(backwards, {at::randn({9, 16, 40}), weights, start}), 1u);
  EXPECT_EQ(calls_after(of_what_is_written, {at::randn({9, 16, 40}), weights, start}), 9u);
  EXPECT_EQ(calls_after(rows_of_a_cube, {at::randn({3, 16, 40}), weights, start}), 3u);  // too few
  EXPECT_EQ(calls_after(pairs, {at::randn({5, 40, 40}), weights, at::randn({40, 40})}), 10u);
}

/// Whether they are merged is the machine's answer; the results are eager's either way.
TEST(MergeProducts, ResultsAreEagers) {
  const Tensor weights = at::randn({40, 24}), start = at::randn({16, 24});
  const Tensor by_rows = at::randn({9, 16, 40}), by_columns = at::randn({16, 9, 40});
  const std::vector<std::pair<Function, Tensor>> all{{rows_of_a_cube, by_rows},
                                                     {columns_of_a_cube, by_columns},
                                                     {backwards, by_rows},
                                                     {of_what_is_written, by_rows}};
  for (const auto& [fn, x] : all) {
    auto step = [fn = fn](const Tensor& a, const Tensor& b, const Tensor& c) {
      Tensors arguments{a, b, c};
      return fn(arguments);
    };
    auto compiled = compile(step, at_once());
    for (int call = 0; call < 5; ++call) {
      const Tensor eager = step(x, weights, start)[0], ours = compiled(x, weights, start)[0];
      EXPECT_LT((ours - eager).abs().max().item<float>(), 1e-5F * eager.abs().max().item<float>());
    }
    EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
  }
}

}  // namespace
}  // namespace graft::test
