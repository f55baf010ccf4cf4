// Reductions: recorded, lowered and interpreted, against eager.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/lowered.h"
#include "support/samples.h"

namespace graft::test {
namespace {

using at::Tensor;

std::vector<c10::ScalarType> all_types() {
  std::vector<c10::ScalarType> types = kFloats;
  types.insert(types.end(), kIntegers.begin(), kIntegers.end());
  types.push_back(at::kBool);
  return types;
}

/// Tries fn(x, dim) on every layout, for every dimension of it.
void each_dim(const std::vector<c10::ScalarType>& types,
              const std::function<Tensors(const Tensor&, int64_t)>& fn) {
  for (c10::ScalarType type : types)
    for (const Tensor& x : layouts(type))
      for (int64_t dim = 0; dim < std::max<int64_t>(x.dim(), 1); ++dim)
        expect_as_eager([&](Tensors& a) { return fn(a[0], dim); }, {x});
}

void each_layout(const std::vector<c10::ScalarType>& types,
                 const std::function<Tensors(const Tensor&)>& fn) {
  for (c10::ScalarType type : types)
    for (const Tensor& x : layouts(type))
      expect_as_eager([&](Tensors& a) { return fn(a[0]); }, {x});
}

TEST(Reduction, Sum) {
  each_layout(all_types(), [](const Tensor& x) { return Tensors{x.sum()}; });
  each_dim(all_types(),
           [](const Tensor& x, int64_t dim) { return Tensors{x.sum(dim), x.sum(dim, true)}; });
}

TEST(Reduction, SumOverSeveralDimensions) {
  for (c10::ScalarType type : {at::kFloat, at::kBFloat16, at::kInt})
    for (const Tensor& x : layouts(type))
      if (x.dim() == 3)
        expect_as_eager(
            [](Tensors& a) {
              std::vector<int64_t> outer = {0, 2}, inner = {-1, 1}, none;
              return Tensors{a[0].sum(at::IntArrayRef(outer)),
                             a[0].sum(at::IntArrayRef(inner), true),
                             a[0].sum(at::OptionalIntArrayRef()), a[0].sum(at::IntArrayRef(none))};
            },
            {x});
}

TEST(Reduction, DtypeOfTheResult) {
  for (c10::ScalarType from : all_types())
    for (c10::ScalarType to : {at::kFloat, at::kDouble, at::kBFloat16, at::kInt, at::kLong}) {
      Tensor x = sample({6, 11}, from);
      expect_as_eager([&](Tensors& a) { return Tensors{a[0].sum(1, false, to), a[0].sum(to)}; },
                      {x});
      expect_as_eager([&](Tensors& a) { return Tensors{a[0].prod(1, false, to)}; }, {x});
      if (at::isFloatingType(to))
        expect_as_eager([&](Tensors& a) { return Tensors{a[0].mean(1, false, to)}; }, {x});
      expect_as_eager([&](Tensors& a) { return Tensors{a[0].cumsum(1, to), a[0].cumprod(1, to)}; },
                      {x});
    }
}

TEST(Reduction, MeanProdNansum) {
  each_layout(kFloats, [](const Tensor& x) { return Tensors{x.mean(), x.nansum()}; });
  each_dim(kFloats,
           [](const Tensor& x, int64_t dim) { return Tensors{x.mean(dim), x.mean(dim, true)}; });
  each_dim({at::kFloat, at::kDouble, at::kInt, at::kBool},
           [](const Tensor& x, int64_t dim) { return Tensors{x.prod(dim)}; });
  each_layout({at::kFloat, at::kLong}, [](const Tensor& x) { return Tensors{x.prod()}; });
}

TEST(Reduction, NansumSkipsNan) {
  Tensor x = sample({6, 11}, at::kFloat);
  x[2][3] = std::numeric_limits<float>::quiet_NaN();
  expect_as_eager([](Tensors& a) { return Tensors{a[0].nansum(1), a[0].sum(1)}; }, {x});
}

TEST(Reduction, LongRowsAreNoWorseThanEager) {
  for (c10::ScalarType type : kFloats) {
    Tensor x = sample({3, 5000}, type) + 1;
    expect_as_eager([](Tensors& a) { return Tensors{a[0].sum(1), a[0].mean(1), a[0].mean()}; },
                    {x});
    expect_as_eager([](Tensors& a) { return Tensors{a[0].var(1), a[0].std()}; }, {x});
    expect_as_eager([](Tensors& a) { return Tensors{a[0].norm(), a[0].norm(1, 1)}; }, {x});
  }
}

TEST(Reduction, LargestAndSmallest) {
  each_layout(all_types(),
              [](const Tensor& x) { return Tensors{x.max(), x.min(), x.amax(), x.amin()}; });
  each_dim(all_types(), [](const Tensor& x, int64_t dim) {
    auto [most, at_most] = x.max(dim);
    auto [least, at_least] = x.min(dim, true);
    return Tensors{most, at_most, least, at_least, x.amax(dim), x.amin(dim, true)};
  });
  each_layout({at::kFloat, at::kInt}, [](const Tensor& x) {
    auto [least, most] = x.aminmax();
    return Tensors{least, most};
  });
}

TEST(Reduction, PlacesOfTies) {
  std::vector<c10::ScalarType> types = kFloats;
  types.insert(types.end(), kIntegers.begin(), kIntegers.end());
  each_layout(types, [](const Tensor& x) { return Tensors{x.argmax(), x.argmin()}; });
  each_dim(types, [](const Tensor& x, int64_t dim) {
    return Tensors{x.argmax(dim), x.argmin(dim, true)};
  });
}

TEST(Reduction, PlaceAmongAll) {
  expect_as_eager(
      [](Tensors& a) { return Tensors{at::argmax(a[0], std::nullopt, true), at::argmin(a[0])}; },
      {sample({4, 5, 6}, at::kFloat).permute({2, 0, 1})});
}

TEST(Reduction, NanWins) {
  for (c10::ScalarType type : kFloats) {
    Tensor x = sample({6, 40}, type);
    double nan = std::numeric_limits<double>::quiet_NaN(),
           infinity = std::numeric_limits<double>::infinity();
    x[1][3] = nan;
    x[2][17] = nan;
    x[2][5] = nan;
    x[3][0] = infinity;
    x[4][1] = -infinity;
    x.select(0, 5).fill_(-infinity);
    expect_as_eager(
        [](Tensors& a) {
          auto [most, place] = a[0].max(1);
          return Tensors{most,         place,      a[0].argmin(1), a[0].amax(0),
                         a[0].amin(1), a[0].max(), a[0].argmax()};
        },
        {x});
    expect_as_eager(
        [](Tensors& a) { return Tensors{a[0].sum(1), a[0].logsumexp(1), a[0].mean(0)}; }, {x});
    expect_as_eager(
        [](Tensors& a) {
          return Tensors{at::linalg_vector_norm(a[0], std::numeric_limits<double>::infinity(), 1)};
        },
        {x});
    expect_as_eager(
        [](Tensors& a) {
          return Tensors{a[0].any(1), a[0].all(0), a[0].count_nonzero(std::optional<int64_t>(1))};
        },
        {x});
  }
}

TEST(Reduction, AnyAllCount) {
  each_layout(all_types(),
              [](const Tensor& x) { return Tensors{x.any(), x.all(), x.count_nonzero()}; });
  each_dim(all_types(), [](const Tensor& x, int64_t dim) {
    return Tensors{x.any(dim), x.all(dim, true), x.count_nonzero(std::optional<int64_t>(dim))};
  });
  Tensor x = sample({4, 5, 6}, at::kFloat);
  expect_as_eager(
      [](Tensors& a) {
        return Tensors{at::any(a[0], at::IntArrayRef{0, 2}),
                       at::all(a[0], at::IntArrayRef{1, 2}, true)};
      },
      {x});
}

TEST(Reduction, Moments) {
  each_layout(kFloats, [](const Tensor& x) {
    return x.numel() > 1 ? Tensors{x.var(), x.std()} : Tensors{x.var(false)};
  });
  each_dim(kFloats, [](const Tensor& x, int64_t dim) {
    auto [var, mean] = at::var_mean(x, dim, /*correction=*/0.0, true);
    auto [std, mean2] = at::std_mean(x, dim, /*correction=*/0.5);
    return Tensors{var, mean, std, mean2};
  });
  // More corrected away than there is.
  expect_as_eager([](Tensors& a) { return Tensors{at::var(a[0], at::IntArrayRef{1}, 9.0)}; },
                  {sample({4, 5}, at::kFloat)});
  expect_as_eager([](Tensors& a) { return Tensors{a[0].var(1)}; }, {sample({4, 1}, at::kFloat)});
}

TEST(Reduction, MomentsFarFromZero) {
  Tensor x = sample({8, 300}, at::kFloat) + 3000;
  expect_as_eager([](Tensors& a) { return Tensors{a[0].var(1), a[0].std(0), a[0].var()}; }, {x});
}

TEST(Reduction, Norms) {
  double infinity = std::numeric_limits<double>::infinity();
  for (double p : {0.0, 1.0, 2.0, infinity, -infinity})
    each_dim(kFloats, [&](const Tensor& x, int64_t dim) {
      return Tensors{at::linalg_vector_norm(x, p, dim), at::linalg_vector_norm(x, p),
                     at::norm(x, p, dim, true)};
    });
  each_layout(kFloats, [](const Tensor& x) { return Tensors{x.norm(), x.norm(1)}; });
  Tensor x = sample({5, 6}, at::kBFloat16);
  expect_as_eager(
      [](Tensors& a) { return Tensors{at::linalg_vector_norm(a[0], 2, 1, false, at::kFloat)}; },
      {x});
  LoweredRun run =
      lower_run([](Tensors& a) { return Tensors{at::linalg_vector_norm(a[0] + 1, 3)}; }, {x});
  EXPECT_EQ(fate(run.lowered, "aten::linalg_vector_norm"), "extern: a norm of an unusual order");
}

TEST(Reduction, Logsumexp) {
  each_dim(kFloats, [](const Tensor& x, int64_t dim) {
    return Tensors{x.logsumexp(dim), x.logsumexp(dim, true)};
  });
}

TEST(Reduction, CumulativeIsBitwise) {
  each_dim(all_types(),
           [](const Tensor& x, int64_t dim) { return Tensors{x.cumsum(dim), x.cumprod(dim)}; });
  for (c10::ScalarType type : {at::kFloat, at::kBFloat16, at::kInt}) {
    expect_as_eager([](Tensors& a) { return Tensors{a[0].cumsum_(1)}; }, {sample({4, 30}, type)});
    expect_as_eager([](Tensors& a) { return Tensors{a[0].cumprod_(0)}; },
                    {sample({4, 30}, type).t()});
  }
  LoweredRun run =
      lower_run([](Tensors& a) { return Tensors{a[0].cumsum(0)}; }, {sample({40}, at::kBFloat16)});
  EXPECT_TRUE(run.lowered.exact);
}

TEST(Reduction, NothingToReduce) {
  for (c10::ScalarType type : {at::kFloat, at::kBFloat16, at::kLong, at::kBool}) {
    Tensor x = sample({3, 0, 2}, type);
    expect_as_eager(
        [](Tensors& a) {
          return Tensors{a[0].sum(1),    a[0].sum(0),
                         a[0].prod(1),   a[0].any(1),
                         a[0].all(1),    a[0].sum(),
                         a[0].cumsum(1), a[0].any(),
                         a[0].amax(0),   a[0].count_nonzero(std::optional<int64_t>(1))};
        },
        {x});
    if (at::isFloatingType(type))
      expect_as_eager(
          [](Tensors& a) {
            return Tensors{a[0].mean(1), a[0].var(1), at::linalg_vector_norm(a[0], 2, 1),
                           a[0].logsumexp(1), a[0].softmax(1)};
          },
          {x});
  }
}

TEST(Reduction, OutArguments) {
  Tensor x = sample({4, 9}, at::kFloat);
  expect_as_eager(
      [](Tensors& a) {
        at::sum_out(a[1], a[0], 1);
        at::mean_out(a[2], a[0], 0);
        at::amax_out(a[3], a[0], 1);
        at::cumsum_out(a[4], a[0], 1);
        return Tensors{a[1]};
      },
      {x, sample({4}, at::kFloat), sample({18}, at::kFloat).slice(0, 0, 18, 2),
       sample({4}, at::kFloat), sample({9, 4}, at::kFloat).t()});
}

TEST(Reduction, OutputOverInput) {
  // The result lies in the first row of what is summed.
  expect_as_eager(
      [](Tensors& a) {
        Tensor out = a[0].select(0, 0);
        at::sum_out(out, a[0], 0);
        return Tensors{out};
      },
      {sample({4, 9}, at::kDouble)}, Fates::AnyExtern);
}

}  // namespace
}  // namespace graft::test
