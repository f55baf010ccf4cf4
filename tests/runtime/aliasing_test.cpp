// Memory that arguments, captured tensors and results share.
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

TEST(Aliasing, InPlaceArgumentsAreWritten) {
  auto step = [](at::Tensor& x, const at::Tensor& g) { x.sub_(g * 0.5); };
  auto f = compile(step, at_once());
  at::Tensor x = at::ones({16}), y = at::ones({16}), g = at::randn({16});
  for (int i = 0; i < 5; ++i) {
    auto version = x._version();
    f(x, g);
    step(y, g);
    EXPECT_TRUE(same(x, y)) << i;
    EXPECT_EQ(x._version(), version + 1);
  }
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.explain();
  EXPECT_EQ(f.report().plan_hits, 3);
}

TEST(Aliasing, AnotherOverlapIsAnotherPlan) {
  // Shifts x by one through y where they overlap.
  auto shift = [](at::Tensor x, const at::Tensor& y) { x.add_(y * 2); };
  auto f = compile(shift, at_once());
  for (int64_t distance : {20, 0, 20, 1, 2, 1, 0, 20}) {
    for (int i = 0; i < 3; ++i) {
      at::Tensor base = at::randn({40}), copy = base.clone();
      f(base.narrow(0, 0, 10), base.narrow(0, distance, 10));
      shift(copy.narrow(0, 0, 10), copy.narrow(0, distance, 10));
      EXPECT_TRUE(same(base, copy)) << distance;
    }
  }
  // 20 apart is disjoint but of one storage: the recorder counts from the lower one.
  EXPECT_EQ(f.report().plans, 4);
}

TEST(Aliasing, TheArgumentItselfReturned) {
  auto f = compile([](at::Tensor& x) { return x.mul_(2).add_(1); }, at_once());
  at::Tensor x = at::ones({4});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(f(x).is_same(x));
  EXPECT_EQ(x[0].item<float>(), 31);
  EXPECT_EQ(f.report().plan_hits, 2);
}

TEST(Aliasing, AReturnedViewSharesMemoryAndVersion) {
  auto f = compile(
      [](at::Tensor& x) {
        x.add_(1);
        return std::make_tuple(x.t(), x * 2);
      },
      at_once());
  at::Tensor x = at::zeros({2, 3});
  for (int i = 0; i < 4; ++i) {
    auto [view, twice] = f(x);
    EXPECT_TRUE(view.is_alias_of(x));
    EXPECT_TRUE(same(view, x.t()));
    EXPECT_FALSE(twice.is_alias_of(x));
    EXPECT_EQ(view._version(), x._version());
    view.zero_();
    EXPECT_EQ(x.sum().item<float>(), 0);
  }
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
}

TEST(Aliasing, OneTensorReturnedTwiceIsOne) {
  auto f = compile(
      [](const at::Tensor& x) {
        at::Tensor y = x * 2 + 1;
        return std::vector<at::Tensor>{y, y, y.view({-1})};
      },
      at_once());
  at::Tensor x = at::randn({2, 2});
  for (int i = 0; i < 4; ++i) {
    auto out = f(x);
    EXPECT_TRUE(out[0].is_same(out[1]));
    EXPECT_TRUE(out[2].is_alias_of(out[0]));
    EXPECT_TRUE(same(out[2], (x * 2 + 1).view({-1})));
  }
  EXPECT_EQ(f.report().plan_hits, 2);
}

TEST(Aliasing, CapturedTensorsAreReadAtEachCall) {
  at::Tensor weight = at::ones({8});
  auto f = compile([&](const at::Tensor& x) { return x * weight + 1; }, at_once());
  at::Tensor x = at::randn({8});
  warm_up(f, x);
  weight.fill_(3);
  EXPECT_TRUE(same(f(x), x * 3 + 1));
  EXPECT_EQ(f.report().records, 1);
  weight = at::full({8}, 5.f);  // the old tensor is gone
  EXPECT_TRUE(same(f(x), x * 5 + 1));
  EXPECT_EQ(f.report().records, 2);
  warm_up(f, x);
  EXPECT_TRUE(same(f(x), x * 5 + 1));
  weight.set_data(at::full({8}, 7.f));  // the same tensor over other memory
  EXPECT_TRUE(same(f(x), x * 7 + 1));
  EXPECT_EQ(f.report().records, 2);
  weight.set_data(at::full({1}, 7.f));  // another layout
  EXPECT_TRUE(same(f(x), x * 7 + 1));
  EXPECT_EQ(f.report().records, 3);
}

TEST(Aliasing, CapturedTensorsAreWritten) {
  at::Tensor state = at::zeros({8});
  auto f = compile(
      [&](const at::Tensor& x) {
        state.add_(x * 2);
        return state + 1;
      },
      at_once());
  at::Tensor x = at::ones({8});
  auto version = state._version();
  for (int i = 1; i < 6; ++i) {
    EXPECT_TRUE(same(f(x), x * (2 * i + 1)));
    EXPECT_EQ(state[0].item<float>(), static_cast<float>(2 * i));
  }
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
  EXPECT_EQ(state._version(), version + 5);
}

TEST(Aliasing, ACapturedTensorGivenAsArgumentLater) {
  at::Tensor weight = at::ones({8});
  auto body = [&](at::Tensor& x) {
    x.mul_(2);
    return weight + x;
  };
  auto f = compile(body, at_once());
  at::Tensor x = at::ones({8});
  for (int i = 0; i < 3; ++i) f(x);
  EXPECT_EQ(f.report().records, 1);
  weight.fill_(1);
  EXPECT_TRUE(same(f(weight), at::full({8}, 4.f)));
  EXPECT_EQ(f.report().records, 1)
      << "eager: recorded now, the captured tensor would be taken for the argument";
  at::Tensor fresh = at::ones({8});
  weight.fill_(1);
  EXPECT_TRUE(same(f(fresh), at::full({8}, 3.f)));
}

TEST(Aliasing, PlansKeepNoModelAlive) {
  auto weight = std::make_shared<at::Tensor>(at::ones({8}));
  c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> weak(
      weight->getIntrusivePtr());
  auto f = compile([&](const at::Tensor& x) { return x * *weight + 1; }, at_once());
  at::Tensor x = at::randn({8});
  warm_up(f, x);
  *weight = at::zeros({8});
  EXPECT_TRUE(weak.expired());
  EXPECT_TRUE(same(f(x), x * 0 + 1));

  weight = std::make_shared<at::Tensor>(at::ones({8}));
  weak = weight->getIntrusivePtr();
  auto broken =
      compile([&](const at::Tensor& t) { return t * weight->sum().item<float>(); }, at_once());
  for (int i = 0; i < 3; ++i) broken(x);
  EXPECT_EQ(broken.report().verdict, Verdict::Break);
  weight = nullptr;
  EXPECT_TRUE(weak.expired());
}

TEST(Aliasing, ReplacedAgainAndAgainStaysEager) {
  at::Tensor weight;
  auto f = compile([&](const at::Tensor& x) { return x * weight + 1; }, at_once());
  at::Tensor x = at::randn({8});
  for (int i = 0; i < 40; ++i) {
    if (i % 3 == 0) weight = at::full({8}, static_cast<float>(i));
    EXPECT_TRUE(same(f(x), x * weight + 1));
  }
  EXPECT_EQ(f.report().verdict, Verdict::Break);
  EXPECT_NE(f.report().reason.find("update it in place"), std::string::npos) << f.report();
}

TEST(Aliasing, ATensorSavedForBackwardAndThenChangedRaises) {
  auto f = compile(
      [](at::Tensor& x) {
        at::NoGradGuard guard;
        x.mul_(2).add_(1);
      },
      at_once());
  at::Tensor x = at::randn({4});
  for (int i = 0; i < 3; ++i) f(x);
  EXPECT_EQ(f.report().verdict, Verdict::Faster);
  at::Tensor w = at::randn({4}).requires_grad_();
  at::Tensor loss = (w * x).sum();
  f(x);
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(Aliasing, StoragesOverOneBuffer) {
  std::vector<float> buffer(32, 1.f), expected(32, 1.f);
  auto body = [](at::Tensor& a, at::Tensor& b) {
    a.add_(1);
    b.mul_(2);
  };
  auto f = compile(body, at_once());
  for (int i = 0; i < 4; ++i) {
    at::Tensor a = at::from_blob(buffer.data(), {20}), b = at::from_blob(buffer.data() + 10, {20});
    f(a, b);
    at::Tensor c = at::from_blob(expected.data(), {20}),
               d = at::from_blob(expected.data() + 10, {20});
    body(c, d);
    EXPECT_EQ(buffer, expected);
  }
  EXPECT_EQ(f.report().plan_hits, 2) << f.explain();
}

/// Recorded and proven with the held tensor as its argument, the plan takes it for the argument.
TEST(Aliasing, AnArgumentThatTheFunctionHoldsAsWell) {
  const at::Tensor w = at::randn({6, 8});
  auto f = [w](const at::Tensor& x, const at::Tensor& v) { return at::tanh(x * w) * v; };
  for (bool race : {false, true}) {
    Options options = at_once();
    options.race = race;
    auto compiled = compile(f, options);
    for (int call = 0; call < 30; ++call) {
      const at::Tensor x = at::randn({6, 8}), v = call < 12 ? w : at::randn({6, 8});
      EXPECT_TRUE(same(compiled(x, v), f(x, v))) << call;
    }
    EXPECT_EQ(compiled.report().verdict, Verdict::Mismatch) << compiled.report();
  }
}

/// An argument that stays the same for long and then changes costs one comparison.
TEST(Aliasing, AnArgumentThatChangesLate) {
  auto f = [](const at::Tensor& x, const at::Tensor& v) { return at::tanh(x) * v; };
  auto compiled = compile(f, at_once());
  const at::Tensor first = at::randn({6, 8});
  for (int call = 0; call < 12; ++call) {
    const at::Tensor x = at::randn({6, 8}), v = call < 6 ? first : at::randn({6, 8});
    EXPECT_TRUE(same(compiled(x, v), f(x, v))) << call;
  }
  EXPECT_EQ(compiled.report().plan_hits, 9) << "all but the record and two comparisons";
  EXPECT_EQ(compiled.report().records, 1);
}

}  // namespace
}  // namespace graft::test
