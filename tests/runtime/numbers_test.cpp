// Tensors of numbers that a function writes down itself, and host reads of what only they make.
#include <ATen/ScalarOps.h>
#include <ATen/TensorIndexing.h>
#include <gtest/gtest.h>

#include "helpers.h"

namespace graft {
namespace {

using test::Tensors;

/// Five calls give eager's bits, the last of them by the plan.
template <class F>
void expect_eager(const F& f, at::ScalarType type = at::kFloat) {
  auto compiled = compile(f, test::at_once());
  for (int call = 0; call < 5; ++call) {
    at::Tensor x = (at::rand({3, 4, 5}) * 40 - 20).to(type), given = x.clone();
    const Tensors expected = f(x), came = compiled(given);
    ASSERT_EQ(expected.size(), came.size());
    for (size_t k = 0; k < came.size(); ++k)
      EXPECT_EQ(test::difference(expected[k], came[k]), "") << "call " << call << ", " << k;
    EXPECT_EQ(test::difference(x, given), "") << "call " << call;
  }
  EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.explain();
}

TEST(Numbers, AreConstants) {
  expect_eager([](const at::Tensor& x) {
    const at::Tensor mean = at::tensor({0.485, 0.456, 0.406}).view({3, 1, 1});
    return Tensors{(x - mean) / at::tensor({0.229, 0.224, 0.225}).view({3, 1, 1})};
  });
  expect_eager([](const at::Tensor& x) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    return Tensors{x * at::tensor({1.5, -0.0, nan, 1.0 / 3, -1e300}, at::kDouble)};
  });
}

TEST(Numbers, OfEachDtype) {
  for (at::ScalarType type :
       {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kFloat, at::kDouble}) {
    auto f = [type](const at::Tensor& x) {
      const at::Tensor numbers = at::tensor({1, 0, 3, 100, 1}, type);
      return Tensors{x + numbers, numbers.to(at::kDouble)};
    };
    auto compiled = compile(f, test::at_once());
    for (int call = 0; call < 4; ++call) {
      const at::Tensor x = at::rand({2, 5});
      const Tensors expected = f(x), came = compiled(x);
      for (size_t k = 0; k < came.size(); ++k)
        EXPECT_EQ(test::difference(expected[k], came[k]), "") << type << ", " << k;
    }
    EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.explain();
  }
}

TEST(Numbers, AsIndicesAndChangedInPlaceAndReturned) {
  expect_eager([](const at::Tensor& x) {
    const at::Tensor order = at::tensor({2, 0, 1}, at::kLong), kept = at::tensor({1.F, 2.F, 3.F});
    const at::Tensor changed = at::tensor({1.F, 2.F, 3.F, 4.F});
    changed.mul_(2).select(0, 1).fill_(7);
    return Tensors{x.index_select(0, order) * kept.view({3, 1, 1}), kept, changed};
  });
}

/// index_put_ makes a tensor of its number past the dispatcher.
TEST(Numbers, PutWhereIndicesSay) {
  using at::indexing::Slice;
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kInt, at::kChar})
    expect_eager(
        [](const at::Tensor& x) {
          at::Tensor y = x * 2, z = x + 1;
          y.index_put_({x > 0}, 0.3);
          y.index_put_({0, Slice(1, 3)}, -7);
          z.index_put_({Slice(), at::tensor({2, 0}, at::kLong)}, 1.1);
          return Tensors{y, z};
        },
        type);
  auto put = [](const at::Tensor& x, double value) {
    at::Tensor y = x * 2;
    y.index_put_({x.gt(0.5)}, value);
    return y;
  };
  auto f = compile(put, test::at_once());
  for (int call = 0; call < 12; ++call) {
    const at::Tensor x = at::rand({50});
    EXPECT_EQ(test::difference(put(x, call % 2), f(x, call % 2)), "") << call;
  }
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.explain();
}

/// A tensor of one number that a kernel computed past the dispatcher is none.
TEST(Numbers, OtherNumbersMadePastTheDispatcherStayBreaks) {
  auto f = compile(
      [](const at::Tensor& x) {
        const at::Tensor first =
            at::detail::scalar_tensor_static(x.const_data_ptr<float>()[0], at::kFloat, at::kCPU);
        return Tensors{x * first};
      },
      test::at_once());
  for (int call = 0; call < 3; ++call) {
    const at::Tensor x = at::rand({4});
    EXPECT_EQ(test::difference(x * x[0], f(x)[0]), "");
  }
  EXPECT_EQ(f.report().verdict, Verdict::Break);
}

/// What at::quantile does with its levels: it checks them on the host.
TEST(Numbers, HostReadsOfConstants) {
  expect_eager([](const at::Tensor& x) {
    const at::Tensor levels = at::tensor({0.25, 0.75});
    const bool in_range = levels.ge(0).logical_and_(levels.le(1)).all().item<bool>();
    const double scale = at::full({}, 3.0).item<double>() + at::arange(4).sum().item<double>();
    return Tensors{x * (in_range ? scale : 1.0)};
  });
  expect_eager(
      [](const at::Tensor& x) { return Tensors{at::quantile(x * 2, 0.9, -1, true), x + 1}; });
}

TEST(Numbers, HostReadsOfDataStayBreaks) {
  auto f = compile(
      [](const at::Tensor& x) {
        const at::Tensor numbers = at::tensor({1.F, 2.F});
        numbers.add_(x.sum());  // no constant any more
        return Tensors{x * numbers.sum().item<float>()};
      },
      test::at_once());
  for (int call = 0; call < 3; ++call) f(at::rand({4}));
  EXPECT_EQ(f.report().verdict, Verdict::Break);
  auto random = compile([](const at::Tensor& x) { return Tensors{x * at::rand({}).item<float>()}; },
                        test::at_once());
  for (int call = 0; call < 3; ++call) random(at::rand({4}));
  EXPECT_EQ(random.report().verdict, Verdict::Break);
}

/// Buffers that the function fills through pointers or accessors are no constants, whatever made
/// them.
TEST(Numbers, BuffersAreNoConstants) {
  for (int kind : {0, 1, 2}) {
    auto count = [kind](const at::Tensor& x) {
      const at::Tensor n = kind == 0   ? at::zeros({1}, at::kInt)
                           : kind == 1 ? at::full({1}, 0, at::kInt)
                                       : at::tensor({0}, at::kInt).mul_(2);
      for (int64_t i = 0; i < x.numel(); ++i)
        n.mutable_data_ptr<int>()[0] += x.const_data_ptr<float>()[i] > 0;
      return Tensors{n.item<int>() > 4 ? x * 2 : x * 3};
    };
    auto f = compile(count, test::at_once());
    for (int call = 0; call < 6; ++call) {
      const at::Tensor x = call % 3 == 2 ? -at::rand({8}) : at::rand({8});
      EXPECT_EQ(test::difference(count(x)[0], f(x)[0]), "") << kind << ", call " << call;
    }
    EXPECT_EQ(f.report().verdict, Verdict::Break) << f.explain();
  }
}

/// Memory that the function fills through a pointer may hold other numbers at each call.
TEST(Numbers, FilledThroughAPointerStayABreak) {
  auto f = compile(
      [](const at::Tensor& x) {
        const at::Tensor two = at::empty({2});
        two.mutable_data_ptr<float>()[0] = 1, two.mutable_data_ptr<float>()[1] = 2;
        return Tensors{x * two};
      },
      test::at_once());
  for (int call = 0; call < 3; ++call) f(at::rand({4, 2}));
  EXPECT_EQ(f.report().verdict, Verdict::Break);
  auto later = compile(
      [](const at::Tensor& x) {
        const at::Tensor two = at::tensor({1.F, 2.F}), y = x * two;
        two.mutable_data_ptr<float>()[0] = 5;
        return Tensors{y * two};
      },
      test::at_once());
  for (int call = 0; call < 3; ++call) later(at::rand({4, 2}));
  EXPECT_EQ(later.report().verdict, Verdict::Break);
}

TEST(Numbers, ManyStayABreak) {
  const std::vector<double> many(65, 1.5);
  auto f =
      compile([&](const at::Tensor& x) { return Tensors{x * at::tensor(many)}; }, test::at_once());
  for (int call = 0; call < 3; ++call) f(at::rand({4, 65}));
  EXPECT_EQ(f.report().verdict, Verdict::Break);
}

}  // namespace
}  // namespace graft
