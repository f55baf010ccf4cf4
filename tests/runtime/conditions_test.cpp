// Functions whose own code branches on what tensors hold, or takes a whole number from one: a plan
// is for the values of the recorded run, and demands them.
#include <gtest/gtest.h>

#include <limits>
#include <thread>
#include <vector>

#include "helpers.h"

namespace graft {
namespace {

using test::Tensors;

/// Calls it with each of `inputs`, beside eager on equal ones, and compares results and inputs.
template <class F, class Make>
Report follow(const F& f, int calls, const Make& make) {
  auto compiled = compile(f, test::at_once());
  for (int call = 0; call < calls; ++call) {
    const Tensors theirs = make(call);
    Tensors ours;
    for (const at::Tensor& t : theirs) ours.push_back(t.clone());
    const Tensors expected = f(theirs), came = compiled(ours);
    EXPECT_EQ(expected.size(), came.size());
    for (size_t k = 0; k < came.size(); ++k)
      EXPECT_EQ(test::difference(expected[k], came[k]), "") << "call " << call << ", " << k;
    for (size_t k = 0; k < ours.size(); ++k)
      EXPECT_EQ(test::difference(theirs[k], ours[k]), "") << "call " << call << ", input " << k;
  }
  return compiled.report();
}

Tensors branch(const Tensors& in) {
  const at::Tensor x = in[0] * 2 + 1;
  if ((x > 20).any().item<bool>()) return {x.clamp_max(20) - 1};
  return {x.exp(), x + 1};
}

at::Tensor branch_of_one(const at::Tensor& x) {
  return (x * 2).gt(20).any().item<bool>() ? x - 1 : x.exp();
}

TEST(Conditions, ThePlanIsForTheWayThatWasTaken) {
  const Report report = follow(branch, 8, [](int) { return Tensors{at::rand({3, 50})}; });
  EXPECT_EQ(report.verdict, Verdict::Faster) << report.reason;
  EXPECT_EQ(report.breaks, 0);
}

TEST(Conditions, RareOtherWaysRunEagerly) {
  const Report report = follow(
      branch, 40, [](int call) { return Tensors{at::rand({3, 50}) + (call % 10 == 9 ? 30 : 0)}; });
  EXPECT_EQ(report.verdict, Verdict::Faster) << report.reason;
}

TEST(Conditions, AnotherWayForGoodIsRecorded) {
  const Report report =
      follow(branch, 60, [](int call) { return Tensors{at::rand({3, 50}) + (call > 9 ? 30 : 0)}; });
  EXPECT_EQ(report.verdict, Verdict::Faster) << report.reason;
}

TEST(Conditions, WaysThatTakeTurnsHaveAPlanEach) {
  const Report report = follow(
      branch, 200, [](int call) { return Tensors{at::rand({3, 50}) + (call % 2 == 0 ? 30 : 0)}; });
  EXPECT_EQ(report.verdict, Verdict::Faster) << report.reason;
  EXPECT_EQ(report.plans, 2);
  EXPECT_EQ(report.records, 2);
  EXPECT_GT(report.plan_hits, 180);
}

at::Tensor halved_until_small(const at::Tensor& start) {
  at::Tensor x = start * 1;
  while (x.gt(1).any().item<bool>()) x = x * 0.5;
  return x;
}

TEST(Conditions, LoopsOfSeveralLengths) {
  const Report report =
      follow([](const Tensors& in) { return Tensors{halved_until_small(in[0])}; }, 300,
             [](int call) { return Tensors{at::full({7}, 1.5F * (1 << (call * call % 7 % 4)))}; });
  EXPECT_EQ(report.verdict, Verdict::Faster) << report.reason;
  EXPECT_EQ(report.plans, 3);
  EXPECT_GT(report.plan_hits, 250);
}

TEST(Conditions, EverNewWaysEndEager) {
  auto f = [](const Tensors& in) {
    return Tensors{in[0].narrow(0, in[1].item<int64_t>(), 4).exp() + 1};
  };
  const Report report = follow(f, 200, [](int call) {
    return Tensors{at::rand({100}), at::full({}, call % 90, at::kLong)};
  });
  EXPECT_EQ(report.verdict, Verdict::NotFaster) << report.reason;
  EXPECT_LE(report.records, 6);
  EXPECT_NE(report.reason.find("aten::_local_scalar_dense"), std::string::npos) << report.reason;
}

/// Of three ways one has no plan: the others keep theirs as long as it is seldom taken.
TEST(Conditions, TheUsualWayComesFirst) {
  auto g = compile(branch_of_one, test::at_once());
  for (int call = 0; call < 100; ++call) {
    const at::Tensor x = at::rand({20}) + (call > 9 && call % 5 != 0 ? 30 : 0);
    ASSERT_EQ(test::difference(branch_of_one(x), g(x)), "") << call;
  }
  EXPECT_EQ(g.report().plans, 2);
  EXPECT_GT(g.report().plan_hits, 90) << g.report().reason;
  g.reset();
  EXPECT_EQ(g.report().plans, 0);
}

/// Calls with other tensors than the recorded one, which its owner keeps, are compared once more:
/// those of other ways must come to a plan of their own all the same.
TEST(Conditions, OtherWaysWhileTheRecordedArgumentLives) {
  auto g = compile(branch_of_one, test::at_once());
  const at::Tensor first = at::rand({20});
  for (int call = 0; call < 4; ++call) g(first);
  std::vector<at::Tensor> batches;
  for (int k = 0; k < 3; ++k) batches.push_back(at::rand({20}) + 30);
  for (int call = 0; call < 60; ++call) {
    const at::Tensor& x = call % 10 == 9 ? first : batches[static_cast<size_t>(call) % 3];
    ASSERT_EQ(test::difference(branch_of_one(x), g(x)), "") << call;
  }
  EXPECT_EQ(g.report().plans, 2);
  EXPECT_GT(g.report().plan_hits, 40) << g.report().reason;
}

/// What one way writes, the other one leaves alone; a way's captured tensors may be replaced.
TEST(Conditions, WaysThatWriteAndCapture) {
  at::Tensor seen = at::zeros({1}), other = at::rand({64});
  auto step = [&](const at::Tensor& p, const at::Tensor& g) {
    if (!at::isfinite(g).all().item<bool>()) return p * other;
    seen.add_(1);
    p.sub_(g * 0.1);
    return p.square();
  };
  auto compiled = compile(step, test::at_once());
  double steps = 0;
  for (int call = 0; call < 120; ++call) {
    if (call == 60) other = at::rand({64});
    const at::Tensor p = at::rand({64}), g = at::rand({64}), q = p.clone();
    if (call % 3 == 2) g[3] = std::numeric_limits<float>::infinity();
    const at::Tensor result = compiled(p, g);
    const double counted = seen.item<double>();
    EXPECT_EQ(counted, steps + (call % 3 == 2 ? 0 : 1)) << call;
    steps = counted;
    ASSERT_EQ(test::difference(step(q, g), result), "") << call;
    ASSERT_EQ(test::difference(q, p), "") << call;
    seen.fill_(steps);
  }
  EXPECT_GT(compiled.report().plan_hits, 90) << compiled.report().reason;
}

/// In each mode: raced, audited, from several threads.
TEST(Conditions, WaysInEveryMode) {
  for (int mode = 0; mode < 4; ++mode) {
    Options options = test::at_once();
    options.race = mode == 0;
    options.audit_every = mode == 1 ? 5 : 0;
    if (mode == 2) options.mode = Mode::ReduceOverhead;
    auto g = compile(branch_of_one, options);
    const auto calls = [&] {
      for (int call = 0; call < 150; ++call) {
        const at::Tensor x = at::rand({2000}) + (call % 3 == 0 ? 30 : 0);
        ASSERT_EQ(test::difference(branch_of_one(x), g(x).clone()), "") << mode << ", " << call;
      }
    };
    std::vector<std::thread> threads;
    for (int thread = 0; mode == 3 && thread < 3; ++thread) threads.emplace_back(calls);
    calls();
    for (std::thread& thread : threads) thread.join();
    EXPECT_LE(g.report().records, 3) << mode;
  }
}

TEST(Conditions, ArgumentsThemselvesAndCapturedTensors) {
  const at::Tensor on = at::ones({1, 1}, at::kBool);
  auto f = [on](const Tensors& in) {
    at::Tensor x = in[0] + 1;
    if (on.item<bool>()) x = x * 3;
    if (in[1].is_nonzero()) x = x - 1;
    return Tensors{x};
  };
  auto g = compile(f, test::at_once());
  for (int call = 0; call < 30; ++call) {
    on.fill_(call < 12 || call % 3 == 0);
    const Tensors in{at::rand({40}), at::full({1}, call % 7 == 6 ? 0.F : 0.5F)};
    EXPECT_EQ(test::difference(f(in)[0], g(in)[0]), "") << call;
  }
  EXPECT_EQ(g.report().breaks, 0) << g.explain();
}

TEST(Conditions, WholeNumbersAsOffsetsAndSizes) {
  for (at::ScalarType type : {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong}) {
    auto f = [](const Tensors& in) {
      const int64_t at = in[1].item<int64_t>(), count = in[1].add(2).item<int64_t>();
      return Tensors{in[0].narrow(0, at, count).mul(2).add(static_cast<double>(at))};
    };
    const Report report = follow(f, 40, [&](int call) {
      return Tensors{at::rand({16, 3}), at::full({}, call % 8 == 7 ? 5 : 3, type)};
    });
    EXPECT_EQ(report.verdict, Verdict::Faster) << report.reason;
  }
}

TEST(Conditions, Equal) {
  auto f = [](const Tensors& in) {
    const at::Tensor y = in[0] + 1;
    return Tensors{at::equal(y, in[1]) ? y * 2 : y * 3};
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (bool usually : {true, false})
    for (double value : {1.0, -0.0, nan})
      for (const std::vector<int64_t>& sizes :
           {std::vector<int64_t>{}, {17}, {0}, {3, 40}, {2, 1, 1}}) {
        const Report report = follow(f, 30, [&](int call) {
          at::Tensor x = at::rand(sizes), y = x + 1;
          const bool other = call % 9 == 8;
          if (x.numel() > 0 && usually == other) y.view(-1)[-1] = value;
          return Tensors{x, y};
        });
        EXPECT_EQ(report.breaks, 0) << report.reason;
      }
  // Other sizes are no condition; the same memory is one, since NaN differs from itself.
  follow([](const Tensors& in) { return Tensors{at::equal(in[0], in[1]) ? in[0] * 2 : in[0] * 3}; },
         8, [](int) { return Tensors{at::rand({4}), at::rand({5})}; });
  follow(
      [](const Tensors& in) {
        const at::Tensor y = in[0] * 2;
        return Tensors{at::equal(y, y) ? y * 2 : y * 3};
      },
      8, [&](int call) { return Tensors{at::full({4}, call % 2 == 0 ? nan : 1.0)}; });
}

TEST(Conditions, ASkippedStepWritesNothing) {
  auto step = [](const Tensors& in) {
    const at::Tensor &p = in[0], &g = in[1], &seen = in[2];
    if (!at::isfinite(g).all().item<bool>()) return Tensors{at::zeros({})};
    seen.add_(1);
    p.sub_(g * 0.1);
    return Tensors{p.square()};
  };
  const Report report = follow(step, 60, [](int call) {
    const at::Tensor g = at::rand({64});
    if (call % 11 == 10) g[3] = std::numeric_limits<float>::infinity();
    return Tensors{at::rand({64}), g, at::zeros({1})};
  });
  EXPECT_EQ(report.verdict, Verdict::Faster) << report.reason;
}

TEST(Conditions, ALoopUntilSomethingHolds) {
  auto f = [](const Tensors& in) {
    at::Tensor x = in[0];
    while (x.gt(1).any().item<bool>()) x = x * 0.5;
    return Tensors{x};
  };
  const Report report = follow(
      f, 80, [](int call) { return Tensors{at::rand({30}) * (call % 13 == 12 ? 9 : 4) + 4}; });
  EXPECT_EQ(report.breaks, 0) << report.reason;
}

TEST(Conditions, OfFractionsAreBreaks) {
  const Report report =
      follow([](const Tensors& in) { return Tensors{in[0] * in[0].sum().item<float>()}; }, 4,
             [](int) { return Tensors{at::ones({8})}; });
  EXPECT_EQ(report.verdict, Verdict::Break);
}

/// A run that gives up puts back what it wrote: parts of arguments, through views, twice, by loops
/// and by ATen's calls, with draws between.
TEST(Conditions, BehindWrites) {
  const std::vector<Tensors (*)(const Tensors&)> programs = {
      [](const Tensors& in) {
        in[0].add_(1);
        return Tensors{in[0].gt(1.5).all().item<bool>() ? in[0] * 2 : in[0] * 3};
      },
      [](const Tensors& in) {
        in[0].select(0, 1).mul_(2);
        in[0].slice(1, 3, 7).add_(in[1].slice(1, 3, 7));
        if (in[0].sum().gt(0).item<bool>()) return Tensors{in[0].exp()};
        in[1].copy_(in[0]);
        return Tensors{in[1] - 1};
      },
      [](const Tensors& in) {
        in[1].addmm_(in[0], in[2]);
        in[0].mul_(0.5);
        const bool small = in[1].abs().max().lt(1e3).item<bool>();
        in[0].add_(small ? 1 : 2);
        if (!at::isfinite(in[0]).all().item<bool>()) in[0].zero_();
        in[2].sub_(1);
        return Tensors{in[0] + in[2]};
      },
      [](const Tensors& in) {
        in[0].t().index_add_(0, at::tensor({1, 2, 1}), in[1].t().slice(0, 0, 3));
        const at::Tensor noise = at::rand_like(in[0]);
        in[2].uniform_();
        return Tensors{(in[0] + noise).gt(0).any().item<bool>() ? in[2] * noise : in[2] - noise};
      },
  };
  for (const auto& f : programs) {
    auto g = compile(f, test::at_once());
    for (int call = 0; call < 50; ++call) {
      at::manual_seed(static_cast<uint64_t>(call));
      const double shift = call % 7 == 6 ? -2 : 2;
      Tensors theirs, ours;
      for (int k = 0; k < 3; ++k) theirs.push_back(at::rand({9, 9}) + shift);
      if (call % 11 == 10) theirs[0][2][2] = std::numeric_limits<double>::infinity();
      for (const at::Tensor& t : theirs) ours.push_back(t.clone());
      at::manual_seed(static_cast<uint64_t>(call));
      const Tensors expected = f(theirs);
      at::manual_seed(static_cast<uint64_t>(call));
      const Tensors came = g(ours);
      for (size_t k = 0; k < came.size(); ++k)
        ASSERT_EQ(test::difference(expected[k], came[k]), "") << call;
      for (size_t k = 0; k < ours.size(); ++k) {
        ASSERT_EQ(test::difference(theirs[k], ours[k]), "") << call << ", input " << k;
        ASSERT_EQ(theirs[k]._version() > 0, ours[k]._version() > 0) << call << ", input " << k;
      }
    }
    EXPECT_EQ(g.report().verdict, Verdict::Faster) << g.explain();
  }
}

/// A loss scaled by hand: gradients divided in place, a step that is left out where one of them is
/// not finite.
TEST(Conditions, StepsThatAreSkipped) {
  auto make = [] {
    at::manual_seed(1);
    return Tensors{(at::randn({8, 4}) * 0.3).requires_grad_(),
                   (at::randn({4}) * 0.3).requires_grad_()};
  };
  auto step = [](const Tensors& p, const at::Tensor& x, const at::Tensor& scale) {
    const at::Tensor loss = (at::matmul(x, p[0]).tanh() + p[1]).square().mean();
    for (const at::Tensor& w : p)
      if (w.grad().defined()) w.mutable_grad().zero_();
    (loss * scale).backward();
    at::NoGradGuard no_grad;
    at::Tensor finite = at::ones({}, at::kBool);
    for (const at::Tensor& w : p) {
      w.mutable_grad().div_(scale);
      finite = finite & at::isfinite(w.grad()).all();
    }
    if (finite.item<bool>()) {
      for (const at::Tensor& w : p) at::Tensor(w).sub_(w.grad(), 0.1);
      scale.mul_(1.01);
    } else {
      scale.mul_(0.5);
    }
    return loss.detach();
  };
  const Tensors theirs = make(), ours = make();
  const at::Tensor their_scale = at::full({}, 64.0), our_scale = at::full({}, 64.0);
  auto g = compile(step, test::at_once());
  for (int call = 0; call < 60; ++call) {
    const at::Tensor x = at::randn({16, 8});
    if (call % 13 == 12) x[3][3] = std::numeric_limits<float>::infinity();
    const at::Tensor expected = step(theirs, x, their_scale), came = g(ours, x, our_scale);
    EXPECT_TRUE(at::allclose(expected, came, 1e-5, 1e-6, true)) << call;
    for (size_t k = 0; k < ours.size(); ++k) {
      EXPECT_TRUE(at::allclose(theirs[k], ours[k], 1e-5, 1e-6)) << call;
      EXPECT_TRUE(at::allclose(theirs[k].grad(), ours[k].grad(), 1e-5, 1e-6, true)) << call;
    }
    ASSERT_EQ(test::difference(their_scale, our_scale), "") << call;
  }
  EXPECT_EQ(g.report().verdict, Verdict::Faster) << g.explain();
  EXPECT_GT(g.report().plan_hits, 30);
}

/// A run that gives up puts the generators back: eager draws what it would have drawn.
TEST(Conditions, BehindADraw) {
  auto f = [](const at::Tensor& x) {
    const at::Tensor noise = at::rand({20}), picked = at::dropout(x, 0.5, /*train=*/true);
    if ((x + noise).gt(5).any().item<bool>()) return (picked - at::rand({20})).sin();
    return (picked * at::randn({20})).exp();
  };
  auto g = compile(f, test::at_once());
  for (int call = 0; call < 60; ++call) {
    const at::Tensor x = at::rand({20}) + (call % (call < 30 ? 7 : 2) == 0 ? 6 : 0);
    at::manual_seed(static_cast<uint64_t>(call));
    const at::Tensor expected = f(x), next = at::rand({3});
    at::manual_seed(static_cast<uint64_t>(call));
    ASSERT_EQ(test::difference(expected, g(x)), "") << call;
    ASSERT_EQ(test::difference(next, at::rand({3})), "") << call << ": the generator's state";
  }
  EXPECT_EQ(g.report().verdict, Verdict::Faster) << g.explain();
  EXPECT_GT(g.report().plan_hits, 40);
}

TEST(Conditions, BehindAWriteOfOtherArguments) {
  const Report report = follow(
      [](const Tensors& in) {
        in[0].add_(1);
        return Tensors{in[1].is_nonzero() ? in[0] * 2 : in[0] * 3};
      },
      40, [](int call) { return Tensors{at::ones({8}), at::full({}, call % 9 != 8)}; });
  EXPECT_EQ(report.verdict, Verdict::Faster) << report.reason;
}

TEST(Conditions, AllClose) {
  const Report report = follow(
      [](const Tensors& in) {
        const at::Tensor y = in[0] * 2;
        return Tensors{at::allclose(y, in[1]) ? y + 1 : y - 1};
      },
      40,
      [](int call) {
        const at::Tensor x = at::rand({8});
        return Tensors{x, x * (call % 9 == 8 ? 3 : 2)};
      });
  EXPECT_EQ(report.verdict, Verdict::Faster) << report.reason;
}

/// The other way sets the flag that the plan, which runs after eager in a proof, then finds set.
TEST(Conditions, AFlagThatTheOtherWaySets) {
  for (int audits : {0, 1, 3}) {
    Options options = test::at_once();
    options.audit_every = audits;
    auto f = [](const at::Tensor& flag, const at::Tensor& x) {
      if (flag.item<bool>()) return x * 2;
      flag.fill_(true);
      return x + 5;
    };
    auto g = compile(f, options);
    for (int call = 0; call < 60; ++call) {
      const at::Tensor ours = at::full({}, call % 12 != 2), theirs = ours.clone(),
                       x = at::rand({9});
      EXPECT_EQ(test::difference(f(theirs, x), g(ours, x)), "") << call;
      EXPECT_TRUE(ours.item<bool>()) << call;
    }
    EXPECT_EQ(g.report().verdict, Verdict::Faster) << g.explain();
  }
}

/// Each of several layouts may take another way for good.
TEST(Conditions, ManyLayoutsChangeOnce) {
  auto g = compile(branch_of_one, test::at_once());
  for (int call = 0; call < 60; ++call)
    for (int64_t n = 1; n <= 8; ++n) {
      const at::Tensor x = at::rand({n, 10}) + (call > 4 ? 30 : 0);
      EXPECT_EQ(test::difference(branch_of_one(x), g(x)), "") << call << ", " << n;
    }
  const Report report = g.report();
  EXPECT_GT(report.plan_hits, 8 * 25) << report.reason;
}

/// Memory that the function's own code fills is no condition that a plan could check.
TEST(Conditions, CountersFilledThroughPointersAreBreaks) {
  for (bool like : {false, true}) {
    auto count = [like](const Tensors& in) {
      const at::Tensor n = like ? at::zeros_like(in[0], at::kInt) : at::zeros({1}, at::kInt);
      for (int64_t i = 0; i < in[0].numel(); ++i)
        n.mutable_data_ptr<int>()[0] += in[0].const_data_ptr<float>()[i] > 0;
      const bool many = like ? at::equal(n.gt(4), in[0].gt(9)) : n.item<int>() > 4;
      return Tensors{many ? in[0] * 2 : in[0] * 3};
    };
    const Report report =
        follow(count, 9, [](int call) { return Tensors{at::full({8}, call > 4 ? 1.F : -1.F)}; });
    EXPECT_EQ(report.verdict, Verdict::Break) << report.reason;
  }
}

TEST(Conditions, OfFamilies) {
  Options options = test::at_once();
  options.sizes = graft::Sizes::Family;
  auto f = [](const at::Tensor& x, const at::Tensor& length) {
    const at::Tensor y = x * 2;
    if (y.gt(100).any().item<bool>()) return y.clamp_max(100);
    return y.narrow(0, 0, length.item<int64_t>()) + 1;
  };
  auto g = compile(f, options);
  for (int call = 0; call < 60; ++call) {
    const int64_t n = 5 + (call * 7) % 23;
    at::Tensor x = at::rand({n, 4}) + (call % 10 == 9 ? 200 : 0);
    const at::Tensor length = at::full({}, call % 12 == 11 ? 3 : n, at::kLong);
    ASSERT_EQ(test::difference(f(x, length), g(x, length)), "") << call;
  }
}

TEST(Conditions, InRegionsThatLearn) {
  auto f = [](const at::Tensor& x) {
    const at::Tensor y = x * x;
    return y.gt(4).any().item<bool>() ? y.sin() : y.exp();
  };
  auto g = compile(f, test::at_once());
  for (int call = 1; call < 80; ++call) {
    const at::Tensor x = at::rand({20}) + (call % (call < 24 ? 9 : 2) == 0 ? 3 : 0);
    const at::Tensor a = x.clone().requires_grad_(), b = x.clone().requires_grad_();
    f(a).sum().backward(), g(b).sum().backward();
    EXPECT_EQ(test::difference(a.grad(), b.grad()), "") << call;
  }
}

/// Autograd's own formulas ask whether the largest is NaN, and whether there are zeros.
TEST(Conditions, OfAutogradsFormulas) {
  for (const auto& f : std::vector<at::Tensor (*)(const at::Tensor&)>{
           [](const at::Tensor& x) { return (x * 2).max() * 3; },
           [](const at::Tensor& x) { return (x * 2).cumprod(0) + 1; }}) {
    auto g = compile(f, test::at_once());
    for (int call = 0; call < 8; ++call) {
      const at::Tensor x = at::rand({20});
      const at::Tensor a = x.clone().requires_grad_(), b = x.clone().requires_grad_();
      f(a).sum().backward(), g(b).sum().backward();
      EXPECT_TRUE(at::allclose(a.grad(), b.grad(), 1e-5, 1e-6)) << call;
    }
    EXPECT_EQ(g.report().verdict, Verdict::Faster) << g.explain();
  }
}

}  // namespace
}  // namespace graft
