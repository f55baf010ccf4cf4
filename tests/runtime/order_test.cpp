// Sorted rows and the few largest elements: what is equal is eager's to order.
#include <cmath>
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

/// A plan that gives up again and again gives way to one that leaves them to a routine.
TEST(Order, WhereElementsAreAlwaysEqual) {
  auto compiled = compile(top_and_weights, at_once());
  for (int call = 0; call < 12; ++call) {
    const Tensor x = at::randint(0, 3, {4, 40}).to(at::kFloat);
    EXPECT_TRUE(same(compiled(x)[1], top_and_weights(x)[1]));
  }
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
  EXPECT_NE(compiled.explain().find("graft::topk"), std::string::npos) << compiled.explain();
}

/// The same where the first calls had none: experts' scores, of a training that goes on.
TEST(Order, WhereElementsBecomeEqual) {
  auto f = compiled_on_noise(top_and_weights, 8, 40);
  EXPECT_EQ(f.explain().find("graft::topk"), std::string::npos) << f.explain();
  for (int call = 0; call < 60; ++call) {
    const Tensor x = at::randint(0, 3, {8, 40}).to(at::kFloat);
    const Tensors ours = f(x), eager = top_and_weights(x);
    for (size_t k = 0; k < eager.size(); ++k) ASSERT_TRUE(same(ours[k], eager[k])) << call;
  }
  EXPECT_TRUE(was_compiled(f.report())) << f.explain();
  EXPECT_NE(f.explain().find("graft::topk"), std::string::npos) << f.explain();
}

/// More than a few of the largest are graft::topk's, whatever is equal.
TEST(Order, ManyOfTheLargest) {
  auto best = [](const Tensor& x) -> Tensors {
    auto [most, places] = at::topk(x, 20, 1);
    auto [least, others] = at::topk(x.t().contiguous(), 12, 0, /*largest=*/false);
    return {most * 2, places, least, others, std::get<0>(at::topk(x, 30, 1)) + 1};
  };
  at::manual_seed(9);
  for (at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kLong, at::kByte})
    for (int64_t count : {30, 100, 1000, 3000}) {
      auto f = compile(best, at_once());
      for (int draw = 0; draw < 6; ++draw) {
        Tensor x = draw % 2 == 0 ? at::randint(0, draw == 0 ? 4 : 1000, {3, count}).to(type)
                                 : at::randn({3, count}).mul(100).to(type);
        if (at::isFloatingType(type) && draw > 3) {
          x.masked_fill_(at::rand(x.sizes()) < 0.01, std::numeric_limits<double>::quiet_NaN());
          x.masked_fill_(at::rand(x.sizes()) < 0.1, 0.);
          x.masked_fill_(at::rand(x.sizes()) < 0.1, -0.);
        }
        const Tensors ours = f(x), eager = best(x);
        for (size_t k = 0; k < eager.size(); ++k)
          ASSERT_TRUE(same(ours[k], eager[k])) << type << " " << count << " " << draw << " " << k;
      }
      EXPECT_NE(f.explain().find("graft::topk"), std::string::npos) << f.explain();
    }
}

/// Elements of long rows by their rank, with and without their places, whatever is equal.
TEST(Order, MediansAndRanks) {
  auto selected = [](const Tensor& x) -> Tensors {
    auto [third, its_place] = at::kthvalue(x, 3, 1);
    auto [middle, its_places] = at::median(x, 1);
    auto [others, their_places] = at::nanmedian(x.t().contiguous(), 0, /*keepdim=*/true);
    return {third + 1,
            its_place,
            middle + 1,
            its_places,
            others,
            their_places,
            std::get<0>(at::kthvalue(x, x.size(1) - 2, 1, /*keepdim=*/true)) + 1,
            std::get<0>(at::median(x, 1)) + 1,
            std::get<0>(at::nanmedian(x, 1)) + 1,
            at::median(x) + 1,
            at::nanmedian(x) + 1,
            at::median(x.t()),
            at::nanmedian(x.t().unsqueeze(0))};
  };
  at::manual_seed(9);
  for (at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kLong, at::kByte})
    for (int64_t count : {5, 30, 65, 1000, 3001}) {
      auto f = compile(selected, at_once());
      for (int draw = 0; draw < 7; ++draw) {
        Tensor x = draw % 2 == 0 ? at::randint(0, draw == 0 ? 4 : 1000, {3, count}).to(type)
                                 : at::randn({3, count}).mul(100).to(type);
        if (draw == 6) x = std::get<0>(x.sort(1, /*descending=*/true));
        if (at::isFloatingType(type) && draw > 3) {
          x.masked_fill_(at::rand(x.sizes()) < 0.3, 0.);
          x.masked_fill_(at::rand(x.sizes()) < 0.3, -0.);
          if (draw == 5) x[0].fill_(std::numeric_limits<double>::quiet_NaN());
          if (draw == 5) x[1][count / 2] = std::numeric_limits<double>::quiet_NaN();
        }
        const Tensors ours = f(x), eager = selected(x);
        for (size_t k = 0; k < eager.size(); ++k)
          ASSERT_TRUE(same(ours[k], eager[k])) << type << " " << count << " " << draw << " " << k;
      }
      for (const char* routine : {"graft::kthvalue", "graft::median", "graft::nanmedian"})
        EXPECT_NE(f.explain().find(routine), std::string::npos) << f.explain();
    }
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
  for (int64_t count : {9, 16, 17, 24, 32}) {
    auto f = compiled_on_noise(sorted, 20, count);
    EXPECT_EQ(f.explain().find("aten::sort extern"), std::string::npos) << f.explain();
    for (int call = 0; call < 3; ++call) {
      const Tensor x = at::randint(0, 5, {20, count}).to(at::kFloat);
      const Tensors ours = f(x), eager = sorted(x);
      for (size_t k = 0; k < eager.size(); ++k) EXPECT_TRUE(same(ours[k], eager[k])) << count;
    }
  }
  // Values alone show equal zeros and NaN only.
  auto values = [](const Tensor& x) -> Tensors { return {std::get<0>(at::sort(x, 0)) * 2}; };
  auto f = compiled_on_noise(values, 20, 30);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (float odd : {1.f, 0.f, -0.f, nan}) {
    Tensor x = at::randn({20, 30});
    x.index_put_({at::arange(0, 20, 3)}, at::scalar_tensor(odd));
    x[0][0] = 0;
    EXPECT_TRUE(same(f(x)[0], values(x)[0])) << odd;
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

TEST(Order, MiddlesOfShortRows) {
  at::manual_seed(3);
  auto middle = [](const Tensor& x) -> Tensors {
    return {std::get<0>(at::median(x, 1)), std::get<0>(at::kthvalue(x, 3, 1, true))};
  };
  auto f = compiled_on_noise(middle, 40, 9);
  EXPECT_EQ(f.explain().find(" extern"), std::string::npos) << f.explain();
  Tensor x = at::randn({40, 9});
  x[7] = at::zeros({9});
  x[7].slice(0, 0, 9, 2).fill_(-0.0);  // either zero is right
  x[8][4] = std::numeric_limits<double>::quiet_NaN();
  x[9].fill_(-std::numeric_limits<double>::infinity());
  const Tensors ours = f(x), eager = middle(x);
  for (size_t k = 0; k < eager.size(); ++k)
    EXPECT_TRUE(at::allclose(ours[k], eager[k], 0, 0, /*equal_nan=*/true));
}

/// Few of long rows are a heap's where equal ones are among them, or NaN: around the blocks that
/// are looked at together, and with most of the row equal.
TEST(Order, TheBestOfLongRowsWithEqualOnesAreEagers) {
  auto best = [](const Tensor& x) -> Tensors {
    auto [most, places] = at::topk(x, 20, -1);
    auto [least, others] = at::topk(x, 20, -1, /*largest=*/false);
    return {most, places, least, others, most * 2};
  };
  at::manual_seed(9);
  for (at::ScalarType type : {at::kFloat, at::kDouble})
    for (int64_t count : {2048, 2049, 2111, 5000}) {
      auto f = compile(best, at_once());
      for (int draw = 0; draw < 6; ++draw) {
        Tensor x = at::randn({3, count}, type);
        if (draw == 1) x = at::randint(0, 50, {3, count}).to(type);
        if (draw == 2) x = at::where(x < 2, at::zeros({}, type), x);
        if (draw == 3) x.masked_fill_(at::rand(x.sizes()) < 0.02, std::nan(""));
        if (draw == 4) x = x.sign() * 0;
        if (draw == 5)
          x.masked_fill_(at::rand(x.sizes()) < 0.99, -std::numeric_limits<double>::infinity());
        f(x);
        const Tensors ours = f(x), eager = best(x);
        for (size_t k = 0; k < eager.size(); ++k)
          ASSERT_TRUE(same(ours[k], eager[k])) << type << " " << count << " " << draw << " " << k;
      }
      EXPECT_TRUE(was_compiled(f.report())) << f.explain();
      EXPECT_NE(f.explain().find("graft::topk"), std::string::npos) << f.explain();
    }
}

/// Long rows are graft::sort's, equal elements in eager's order: few distinct ones, NaN, zeros of
/// both signs, every length around those where another way of sorting begins.
TEST(Order, LongRowsAreSortedAsInEager) {
  auto ordered = [](const Tensor& x) -> Tensors {
    auto [up, places] = at::sort(x, /*stable=*/false, 1, /*descending=*/false);
    auto [down, others] = at::sort(x, /*stable=*/false, 1, /*descending=*/true);
    auto [kept, stable] = at::sort(x, /*stable=*/true, 1, /*descending=*/true);
    const Tensor values = std::get<0>(at::sort(x.neg(), 1));
    return {up + 1, places, down, others, kept, stable, values * 2};
  };
  at::manual_seed(7);
  for (at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong,
                              at::kInt, at::kChar, at::kByte})
    for (int64_t count : {17, 32, 33, 96, 97, 255, 256, 8191, 8192}) {
      const int64_t rows = count < 1000 ? 5 : 2;
      auto f = compile(ordered, at_once());
      for (int draw = 0; draw < 5; ++draw) {
        Tensor x = draw % 2 == 0 ? at::randint(0, draw == 0 ? 4 : 101, {rows, count}).to(type)
                                 : at::randn({rows, count}).mul(100).to(type);
        if (at::isFloatingType(type) && draw > 1) {
          x.masked_fill_(at::rand(x.sizes()) < 0.1, std::numeric_limits<double>::quiet_NaN());
          x.masked_fill_(at::rand(x.sizes()) < 0.1, 0.);
          x.masked_fill_(at::rand(x.sizes()) < 0.1, -0.);
        }
        const Tensors ours = f(x), eager = ordered(x);
        for (size_t k = 0; k < eager.size(); ++k)
          ASSERT_TRUE(same(ours[k], eager[k])) << type << " " << count << " " << draw << " " << k;
      }
      EXPECT_TRUE(was_compiled(f.report())) << type << count << f.explain();
      if (count > 32) {
        EXPECT_NE(f.explain().find("graft::sort"), std::string::npos) << f.explain();
      }
    }
}

/// Numbers that 32 bits do not hold, rows that are columns, and what stays ATen's.
TEST(Order, OtherRowsAreSortedAsInEager) {
  auto columns = [](const Tensor& x) -> Tensors {
    auto [values, places] = at::sort(x, 0, /*descending=*/true);
    auto [cut, found] = at::sort(x.slice(1, 1), 1);
    return {values + values, places, cut, found, x.argsort(1, false).argsort(1, false)};
  };
  at::manual_seed(8);
  for (at::ScalarType type : {at::kFloat, at::kLong, at::kDouble}) {
    auto f = compile(columns, at_once());
    for (int call = 0; call < 5; ++call) {
      Tensor x = at::randint(-1000, 1000, {200, 60}).to(type);
      if (call % 2 == 1) x = x * (type == at::kLong ? int64_t{1} << 40 : 1);
      const Tensors ours = f(x), eager = columns(x);
      for (size_t k = 0; k < eager.size(); ++k)
        ASSERT_TRUE(same(ours[k], eager[k])) << type << " " << call << " " << k;
    }
  }
}

/// A family whose plans give up again and again goes, and its layouts are recorded anew.
TEST(Order, AFamilyThatMeetsTies) {
  Options options = at_once();
  options.sizes = graft::Sizes::Family;
  auto f = compile(top_and_weights, options);
  at::manual_seed(10);
  for (int64_t rows = 17; rows < 31; ++rows) {
    const Tensor x = at::randn({rows, 40});
    EXPECT_TRUE(same(f(x)[2], top_and_weights(x)[2]));
    f.wait();
  }
  EXPECT_GT(f.report().family_calls, 0) << f.explain();
  for (int call = 0; call < 60; ++call) {
    const Tensor x = at::randint(0, 3, {17 + call % 14, 40}).to(at::kFloat);
    const Tensors ours = f(x), eager = top_and_weights(x);
    for (size_t k = 0; k < eager.size(); ++k) ASSERT_TRUE(same(ours[k], eager[k])) << call;
    f.wait();
  }
  EXPECT_NE(f.explain().find("graft::topk"), std::string::npos) << f.explain();
  const auto before = f.report().plan_hits;
  const Tensor x = at::randint(0, 3, {20, 40}).to(at::kFloat);
  EXPECT_TRUE(same(f(x)[2], top_and_weights(x)[2]));
  EXPECT_EQ(f.report().plan_hits, before + 1) << f.explain();
}

}  // namespace
}  // namespace graft::test
