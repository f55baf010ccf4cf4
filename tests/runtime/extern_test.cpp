// Memory that operators of ATen return: a plan takes it wherever it lies.
#include <torch/library.h>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

/// A row of eight that begins `offset` elements into its memory and ends `behind` before its end.
at::Tensor row_at(int64_t offset, int64_t behind = 0) {
  return at::randn({offset + 8 + behind}).narrow(0, offset, 8);
}

/// Recorded and proven with one place of x in its memory, called with others; z is changed before.
template <class F>
void expect_any_place(F scatter) {
  for (auto [first_offset, first_behind] : {std::pair(0, 0), std::pair(5, 0), std::pair(5, 9)}) {
    auto body = [&](at::Tensor z, const at::Tensor& x, const at::Tensor& s) {
      z.add_(1);
      return scatter(x, s) * 2;
    };
    auto f = compile(body, at_once());
    at::Tensor s = at::randn({2});
    {
      at::Tensor z = at::zeros({4});
      at::Tensor x = row_at(first_offset, first_behind);
      for (int i = 0; i < 2; ++i) f(z, x, s);
      ASSERT_EQ(f.report().verdict, Verdict::Faster) << f.explain();
    }
    for (auto [offset, behind] : {std::pair(0, 0), std::pair(3, 0), std::pair(7, 11)}) {
      at::Tensor z = at::zeros({4}), x = row_at(offset, behind);
      EXPECT_TRUE(same(f(z, x, s), scatter(x, s) * 2));
      EXPECT_TRUE(same(z, at::ones({4})));
    }
    EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.explain();
    EXPECT_EQ(f.report().plan_hits, 3);
  }
}

TEST(Externs, ResultsThatFollowTheirInputsPlaceInMemory) {
  at::NoGradGuard no_grad;
  using T = at::Tensor;
  expect_any_place([](const T& x, const T& s) { return at::slice_scatter(x, s, 0, 1, 3); });
  expect_any_place([](const T& x, const T& s) { return at::select_scatter(x, s[0], 0, 2); });
  expect_any_place(
      [](const T& x, const T& s) { return at::diagonal_scatter(x.view({2, 4}), s, 1); });
  expect_any_place([](const T& x, const T& s) { return at::as_strided_scatter(x, s, {2}, {3}); });
}

TEST(Externs, AnArgumentThatStandsInForTheProof) {
  at::NoGradGuard no_grad;
  // x is changed: the proof runs on a copy of it, which begins where its memory does.
  auto body = [](at::Tensor x, const at::Tensor& s) {
    x.mul_(2);
    return at::as_strided_scatter(x, s, {2}, {3}) + 1;
  };
  auto f = compile(body, at_once());
  at::Tensor s = at::randn({2}), x = row_at(5, 3);
  warm_up(f, x, s);
  at::Tensor y = row_at(2), expected = y.clone();
  EXPECT_TRUE(same(f(y, s), body(expected, s)));
  EXPECT_TRUE(same(y, expected));
}

/// Twice the input, in an order that alternates.
at::Tensor twice_somehow(const at::Tensor& x) {
  static int calls = 0;
  return calls++ % 2 == 0 ? x * 2 : (x * 2).t().contiguous().t();
}

/// As many elements as its first one says.
at::Tensor so_many(const at::Tensor& x) {
  return at::ones({x[0].item<int64_t>()});
}

TORCH_LIBRARY(graft_externs_test, m) {
  m.def("twice_somehow(Tensor x) -> Tensor");
  m.impl("twice_somehow", c10::DispatchKey::CPU, TORCH_FN(twice_somehow));
  m.impl("twice_somehow", c10::DispatchKey::Meta, TORCH_FN(twice_somehow));
  m.def("so_many(Tensor x) -> Tensor");
  m.impl("so_many", c10::DispatchKey::CPU, TORCH_FN(so_many));
}

/// Nobody says that its sizes depend on data. Before anything visible was written the plan gives
/// up; after that no plan is made.
TEST(Externs, ResultsOfOtherSizes) {
  at::NoGradGuard no_grad;
  auto op = c10::Dispatcher::singleton()
                .findSchemaOrThrow("graft_externs_test::so_many", "")
                .typed<at::Tensor(const at::Tensor&)>();
  auto before = compile([&](const at::Tensor& x) { return op.call(x) * 2 + 1; }, at_once());
  auto after = compile(
      [&](at::Tensor z, const at::Tensor& x) {
        z.add_(1);
        return op.call(x) * 2 + 1;
      },
      at_once());
  auto drawn = compile(
      [&](const at::Tensor& x) {
        const at::Tensor noise = at::rand({4}).sum();
        return noise + op.call(x) * 0;
      },
      at_once());
  at::Tensor z = at::zeros({4});
  const at::Tensor three = at::full({1}, 3.0), five = at::full({1}, 5.0);
  for (int i = 0; i < 12; ++i) {
    const at::Tensor& x = i % 6 < 5 ? three : five;
    const at::Tensor expected = at::full({x[0].item<int64_t>()}, 3.0);
    EXPECT_TRUE(at::equal(before(x), expected));
    EXPECT_TRUE(at::equal(after(z, x), expected));
    EXPECT_EQ(drawn(x).numel(), expected.numel());
  }
  EXPECT_TRUE(same(z, at::full({4}, 12.0)));
  EXPECT_NE(after.explain().find("no Meta kernel"), std::string::npos) << after.explain();
  EXPECT_NE(drawn.explain().find("no Meta kernel"), std::string::npos) << drawn.explain();
}

/// As many bins as asked for, unless the data has more: then eager runs, and where that is usual,
/// it alone.
TEST(Externs, BinsBeyondTheUsual) {
  at::NoGradGuard no_grad;
  auto count = [](const at::Tensor& x) { return at::bincount(x, {}, 8) * 2 + 1; };
  auto f = compile(count, at_once());
  const at::Tensor usual = at::randint(8, {100}), more = at::full({3}, 11, at::kLong);
  auto expect_eager = [&](const at::Tensor& x) { EXPECT_TRUE(at::equal(f(x), count(x))); };
  for (int i = 0; i < 40; ++i) expect_eager(usual);
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.explain();
  const at::Tensor many = usual.clone();
  many[0] = 20;
  for (int i = 0; i < 3; ++i) expect_eager(many);
  for (int i = 0; i < 20; ++i) expect_eager(usual);
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.explain();
  for (int i = 0; i < 40; ++i) expect_eager(many);
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.explain();
  EXPECT_EQ(f.report().records, 2) << "once more, as the data is now";
  for (int i = 0; i < 400; ++i) {
    many[0] = 21 + i;
    expect_eager(many);
  }
  EXPECT_EQ(f.report().verdict, Verdict::NotFaster) << f.explain();
  EXPECT_NE(f.explain().find("bincount's largest number"), std::string::npos) << f.explain();
  EXPECT_THROW(f(-usual - 1), c10::Error);
  expect_eager(more);
}

/// Counts behind a write, or a draw: more of them than usual are found after it, which is put back.
TEST(Externs, BinsBehindWrites) {
  at::NoGradGuard no_grad;
  const auto count = [](const at::Tensor& sum, const at::Tensor& x, int64_t least) {
    sum.add_(1);
    const at::Tensor noise = at::rand({3});
    return std::vector<at::Tensor>{at::bincount(x, {}, least) * 2, noise};
  };
  for (int64_t least : {0, 8}) {
    auto f = compile(count, at_once());
    at::Tensor theirs = at::zeros({5}), ours = at::zeros({5});
    for (int i = 0; i < 30; ++i) {
      const at::Tensor x = at::randint(8, {100});
      x[0] = i % 7 == 6 ? 11 + i : 7;
      at::manual_seed(static_cast<uint64_t>(i));
      const std::vector<at::Tensor> expected = count(theirs, x, least);
      at::manual_seed(static_cast<uint64_t>(i));
      const std::vector<at::Tensor> came = f(ours, x, least);
      for (size_t k = 0; k < 2; ++k) EXPECT_TRUE(same(came[k], expected[k])) << i << ", " << k;
      EXPECT_TRUE(same(ours, theirs)) << i;
    }
    EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.explain();
    EXPECT_THROW(f(ours, at::full({3}, -1, at::kLong), least), c10::Error);
    EXPECT_EQ(ours[0].item<float>(), 31) << "eager writes before it raises its error";
  }
  // Counts that are no loop cannot be checked.
  auto none = compile(
      [](const at::Tensor& sum, const at::Tensor& x) {
        sum.add_(1);
        return at::bincount(x, sum);
      },
      at_once());
  none(at::zeros({4}, at::kHalf), at::arange(4));
  EXPECT_NE(none.explain().find("the size of its result depends on data"), std::string::npos)
      << none.explain();
}

/// Counts that are ATen's call, of another number at each of the calls that are to prove the plan.
TEST(Externs, BinsOfWeightsThatAreConverted) {
  at::NoGradGuard no_grad;
  const auto count = [](const at::Tensor& x, const at::Tensor& weights) {
    return at::bincount(x, weights).cumsum(0) + 1;
  };
  auto f = compile(count, at_once());
  for (int call = 0; call < 12; ++call) {
    const at::Tensor x = at::full({9}, call < 6 ? call : 3, at::kLong),
                     weights = at::arange(9, at::kInt);
    EXPECT_TRUE(same(f(x, weights), count(x, weights))) << call;
  }
  EXPECT_NE(f.report().verdict, Verdict::Failed) << f.report();
}

/// ATen's addmv of no rows gives what is added, as it is.
TEST(Externs, AMatrixWithoutRows) {
  at::NoGradGuard no_grad;
  const auto add = [](const at::Tensor& b, const at::Tensor& m, const at::Tensor& v) {
    return at::addmv(b, m, v) + 1;
  };
  auto f = compile(add, at_once());
  for (int i = 0; i < 4; ++i) {
    const at::Tensor b = at::randn({1}), m = at::randn({0, 3}), v = at::randn({3});
    EXPECT_TRUE(same(f(b, m, v), add(b, m, v)));
  }
  EXPECT_TRUE(was_compiled(f.report())) << f.explain();
}

/// Rare calls that give up do not add up, with audits or without.
TEST(Externs, RareGiveUpsAreForgiven) {
  at::NoGradGuard no_grad;
  for (int64_t audit : {0, 1000000}) {
    Options options = at_once();
    options.audit_every = audit;
    auto f = compile([](const at::Tensor& x) { return at::bincount(x, {}, 8) * 2; }, options);
    const at::Tensor usual = at::randint(8, {100}), more = at::full({3}, 11, at::kLong);
    for (int i = 0; i < 30 * 40; ++i) f(i % 40 == 39 ? more : usual);
    EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.explain();
  }
}

TEST(Externs, ResultsInAnotherOrder) {
  at::NoGradGuard no_grad;
  auto op = c10::Dispatcher::singleton()
                .findSchemaOrThrow("graft_externs_test::twice_somehow", "")
                .typed<at::Tensor(const at::Tensor&)>();
  auto f = compile(
      [&](at::Tensor z, const at::Tensor& x) {
        z.add_(1);
        return op.call(x) + x;
      },
      at_once());
  at::Tensor z = at::zeros({4}), x = at::randn({3, 5});
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(at::equal(f(z, x), x * 3));
  EXPECT_TRUE(same(z, at::full({4}, 6.0)));
  EXPECT_NE(f.report().verdict, Verdict::Failed) << f.explain();
}

}  // namespace
}  // namespace graft::test
