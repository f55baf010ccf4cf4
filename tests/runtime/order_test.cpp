// Sorted rows and the few largest elements: what is equal is eager's to order.
#include <limits>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

using at::Tensor;

Tensors top_and_weights(const Tensor& x) {
  auto [best, places] = at::topk(x, 3, -1);
  return {best.abs() + 1, places, x.gather(-1, places) * 2};
}

/// Six calls with elements that differ; gives the compiled function.
template <class F>
auto compiled_on_noise(F f, int64_t rows, int64_t count) {
  auto compiled = compile(f, at_once());
  for (int call = 0; call < 6; ++call) {
    const Tensor x = at::randn({rows, count});
    const Tensors ours = compiled(x), eager = f(x);
    for (size_t k = 0; k < eager.size(); ++k) EXPECT_TRUE(same(ours[k], eager[k])) << call;
  }
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
  return compiled;
}

TEST(Order, TheLargestElementsAreCompiled) {
  at::manual_seed(1);
  auto f = compiled_on_noise(top_and_weights, 40, 300);
  EXPECT_EQ(f.explain().find("aten::topk extern"), std::string::npos) << f.explain();
}

/// One row at a time is odd: every kind of tie must send the call to eager.
TEST(Order, EqualElementsAmongTheLargestAreEagers) {
  at::manual_seed(2);
  const float infinity = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  auto f = compiled_on_noise(top_and_weights, 8, 40);
  const std::vector<std::vector<float>> odd{
      {9, 9, 9, 9},      {9, 8, 7, 7},          {9, 8, 8, 7},
      {nan, 9, 8, 7},    {nan, nan, 8, 7},      {infinity, infinity, 9, 8},
      {0.f, -0.f, 9, 8}, {infinity, 9, nan, 8},
  };
  for (const std::vector<float>& row : odd) {
    Tensor x = at::randn({8, 40});
    for (size_t k = 0; k < row.size(); ++k) x[5][static_cast<int64_t>(7 * k + 2)] = row[k];
    const Tensors ours = f(x), eager = top_and_weights(x);
    for (size_t k = 0; k < eager.size(); ++k)
      EXPECT_TRUE(same(ours[k], eager[k])) << at::tensor(row);
  }
}

/// No plan can be proven by them, and that is no failure.
TEST(Order, WhereElementsAreAlwaysEqual) {
  auto compiled = compile(top_and_weights, at_once());
  for (int call = 0; call < 8; ++call) {
    const Tensor x = at::ones({4, 40});
    EXPECT_TRUE(same(compiled(x)[1], top_and_weights(x)[1]));
  }
  EXPECT_EQ(compiled.report().verdict, Verdict::NotFaster) << compiled.explain();
  EXPECT_NE(compiled.report().reason.find("topk"), std::string::npos);
}

/// Nothing is below minus infinity: a walk that finds nothing new must not be believed.
TEST(Order, RowsOfInfinitiesAreEagers) {
  const float infinity = std::numeric_limits<float>::infinity();
  auto best = [](const Tensor& x) -> Tensors {
    auto [most, places] = at::topk(x, 3, -1);
    auto [least, others] = at::topk(x, 3, -1, false);
    return {most, places, least, others};
  };
  at::manual_seed(3);
  auto f = compiled_on_noise(best, 4, 3);
  for (int odd = 0; odd < 27; ++odd) {
    Tensor x = at::randn({4, 3});
    int digits = odd;
    for (int64_t k = 0; k < 3; ++k, digits /= 3)
      if (digits % 3 != 0) x[2][k] = digits % 3 == 1 ? infinity : -infinity;
    const Tensors ours = f(x), eager = best(x);
    for (size_t k = 0; k < eager.size(); ++k) EXPECT_TRUE(same(ours[k], eager[k])) << odd << x;
  }
}

TEST(Order, SortedRowsOfEqualElements) {
  auto sorted = [](const Tensor& x) -> Tensors {
    auto [values, places] = at::sort(x, -1);
    return {values, places, values.select(-1, x.size(-1) / 2) * 2};
  };
  at::manual_seed(4);
  for (int64_t count : {9, 16}) {
    auto f = compiled_on_noise(sorted, 20, count);
    EXPECT_EQ(f.explain().find("aten::sort extern"), std::string::npos) << f.explain();
    for (int call = 0; call < 3; ++call) {
      const Tensor x = at::randint(0, 5, {20, count}).to(at::kFloat);
      const Tensors ours = f(x), eager = sorted(x);
      for (size_t k = 0; k < eager.size(); ++k) EXPECT_TRUE(same(ours[k], eager[k])) << count;
    }
  }
}

/// Of equal elements any is as good as another where only values are asked for: a threshold, as
/// samplers take it, compiles for rows that are full of them. Zeros of either sign, and NaN, are
/// eager's.
TEST(Order, ValuesAloneMayBeEqual) {
  const float infinity = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  auto thresholds = [](const Tensor& x) -> Tensors {
    const Tensor most = std::get<0>(at::topk(x, 4, -1)),
                 least = std::get<0>(at::topk(x.t(), 3, 0, /*largest=*/false));
    return {most, least, x.masked_fill(x < most.select(-1, 3).unsqueeze(-1), -3)};
  };
  at::manual_seed(6);
  for (at::ScalarType type : {at::kFloat, at::kBFloat16, at::kInt, at::kChar, at::kDouble}) {
    auto f = compile(thresholds, at_once());
    auto check = [&](const Tensor& x, const std::string& what) {
      const Tensors ours = f(x), eager = thresholds(x);
      for (size_t k = 0; k < eager.size(); ++k)
        EXPECT_TRUE(same(ours[k], eager[k])) << type << " " << what << "\n" << x;
    };
    for (int call = 0; call < 8; ++call)
      check(at::randint(1, 5, {6, 9}).to(type), "equal " + std::to_string(call));
    EXPECT_TRUE(was_compiled(f.report())) << type << f.explain();
    EXPECT_EQ(f.explain().find("aten::topk extern"), std::string::npos) << f.explain();
    const auto before = f.report().plan_hits;
    check(at::full({6, 9}, 7, type), "all equal");
    EXPECT_EQ(f.report().plan_hits, before + 1) << type;
    const std::vector<double> odd = {infinity, -infinity, nan, 0., -0., 1};
    for (int draw = 0; draw < 60; ++draw) {
      Tensor x = at::randint(-2, 3, {6, 9}).to(type);
      for (int64_t k = 0; at::isFloatingType(type) && k < 9; ++k)
        if (draw % 3 != 0)
          x[4][k] = odd[static_cast<size_t>(at::randint(0, 6, {1}).item<int64_t>())];
      if (type == at::kChar) x.masked_fill_(x == -2, -128), x.masked_fill_(x == 2, 127);
      check(x, "drawn " + std::to_string(draw));
    }
  }
}

}  // namespace
}  // namespace graft::test
