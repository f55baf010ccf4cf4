// From the first call to a verdict.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <chrono>
#include <thread>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

at::Tensor affine(const at::Tensor& x, const at::Tensor& y) {
  return x * y + x;
}

TEST(Tiers, SynchronousFlow) {
  auto f = compile(affine, at_once("affine"));
  at::Tensor x = at::randn({64, 64}), y = at::randn({64, 64});
  EXPECT_EQ(f.report().verdict, Verdict::NotCalled);
  EXPECT_TRUE(same(f(x, y), affine(x, y)));
  Report recorded = f.report();
  EXPECT_EQ(recorded.verdict, Verdict::Proving) << f.explain();
  EXPECT_EQ(recorded.records, 1);
  EXPECT_EQ(recorded.plans, 1);
  EXPECT_FALSE(recorded.compared);
  EXPECT_TRUE(same(f(x, y), affine(x, y)));
  Report proven = f.report();
  EXPECT_EQ(proven.verdict, Verdict::Faster);
  EXPECT_TRUE(proven.compared && proven.bitwise);
  EXPECT_EQ(proven.plan_hits, 0);
  EXPECT_TRUE(same(f(x, y), affine(x, y)));
  Report used = f.report();
  EXPECT_EQ(used.calls, 3);
  EXPECT_EQ(used.plan_hits, 1);
  EXPECT_EQ(used.kernels, 1);
  EXPECT_EQ(used.name, "affine");
}

TEST(Tiers, AsynchronousFlowWithRace) {
  Options options;
  options.name = "raced";
  auto f = compile([](const at::Tensor& x) { return (x * 2 + 1).relu() * x - x; }, options);
  at::Tensor x = at::randn({512, 512});
  at::Tensor expected = (x * 2 + 1).relu() * x - x;
  EXPECT_TRUE(same(f(x), expected));
  f.wait();
  EXPECT_EQ(f.report().verdict, Verdict::Proving) << f.explain();
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(same(f(x), expected));
  Report report = f.report();
  EXPECT_TRUE(report.verdict == Verdict::Faster || report.verdict == Verdict::NotFaster) << report;
  EXPECT_GT(report.eager_us, 0);
  EXPECT_GT(report.compiled_us, 0);
  EXPECT_EQ(report.calls, 41);
  EXPECT_NE(report.reason.find("against eager's"), std::string::npos);
}

/// Milliseconds that the operator below sleeps when a plan calls it, and when eager does.
int plan_sleeps = 0, eager_sleeps = 0;
bool in_eager = false;

at::Tensor sleepy(const at::Tensor& x) {
  std::this_thread::sleep_for(std::chrono::milliseconds(in_eager ? eager_sleeps : plan_sleeps));
  return x + 1;
}
TORCH_LIBRARY(graft_tiers_test, m) {
  m.def("sleepy(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(graft_tiers_test, CPU, m) {
  m.impl("sleepy", sleepy);
}

TEST(Tiers, APlanThatLostOnABusyMachineRacesAgain) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("graft_tiers_test::sleepy", "")
                             .typed<at::Tensor(const at::Tensor&)>();
  Options options;
  options.async = false;
  auto f = compile(
      [](const at::Tensor& x) {
        in_eager = true;
        at::Tensor y = op.call(x) * 2;
        in_eager = false;
        return y;
      },
      options);
  const at::Tensor x = at::randn({4}), expected = (x + 1) * 2;
  const auto run_until = [&](Verdict verdict, int most) {
    int calls = 0;
    for (; calls < most && f.report().verdict != verdict; ++calls)
      EXPECT_TRUE(same(f(x), expected));
    return calls;
  };
  plan_sleeps = 10, eager_sleeps = 1;
  EXPECT_LE(run_until(Verdict::NotFaster, 40), 40);
  const Report lost = f.report();
  ASSERT_EQ(lost.verdict, Verdict::NotFaster) << lost;
  EXPECT_NE(lost.reason.find("raced again after"), std::string::npos) << lost;
  plan_sleeps = 0;
  EXPECT_GT(run_until(Verdict::Faster, 20000), 100);
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
}

TEST(Tiers, AnotherLayoutIsAnotherPlanAndTheOldOneStays) {
  auto f = compile(affine, at_once());
  at::Tensor x = at::randn({8, 8}), wide = at::randn({8, 16});
  warm_up(f, x, x);
  warm_up(f, wide, wide);
  EXPECT_EQ(f.report().records, 2);
  EXPECT_EQ(f.report().plans, 2);
  EXPECT_EQ(f.report().kernels_compiled, 1) << "sizes are kernel arguments";
  int64_t hits = f.report().plan_hits;
  EXPECT_TRUE(same(f(x, x), affine(x, x)));
  EXPECT_TRUE(same(f(wide, wide), affine(wide, wide)));
  EXPECT_EQ(f.report().plan_hits, hits + 2);
}

TEST(Tiers, TheOldestPlanIsDropped) {
  Options options = at_once();
  options.max_plans = 3;
  auto f = compile(affine, options);
  std::vector<at::Tensor> x;
  for (int i = 0; i < 4; ++i) x.push_back(at::randn({4, 4 + i}));
  for (int i = 0; i < 3; ++i) warm_up(f, x[i], x[i]);
  f(x[0], x[0]);
  warm_up(f, x[3], x[3]);  // drops x[1]'s, the only one not used since the last record
  EXPECT_EQ(f.report().plans, 3);
  int64_t records = f.report().records;
  f(x[0], x[0]);
  f(x[2], x[2]);
  EXPECT_EQ(f.report().records, records);
  f(x[1], x[1]);
  EXPECT_EQ(f.report().records, records + 1);
}

TEST(Tiers, ArgumentsThatNeverRepeatStopTheRecording) {
  Options options = at_once("growing");
  options.max_plans = 4;
  auto f = compile(affine, options);
  for (int i = 1; i < 60; ++i) {
    at::Tensor x = at::randn({i});
    EXPECT_TRUE(same(f(x, x), affine(x, x)));
  }
  Report report = f.report();
  EXPECT_EQ(report.records, 32);
  EXPECT_EQ(report.verdict, Verdict::Break);
  EXPECT_NE(report.reason.find("argument 0: sizes"), std::string::npos) << report.reason;
  EXPECT_NE(report.reason.find("pad"), std::string::npos) << report.reason;
}

TEST(Tiers, HostCodeThatBranchesOnAGlobalIsCaught) {
  static bool flip = false;
  auto f =
      compile([](const at::Tensor& x) { return flip ? x * 2 + 1 : x * 3 + 1; }, at_once("flips"));
  at::Tensor x = at::ones({4});
  f(x);
  flip = true;
  EXPECT_TRUE(same(f(x), x * 3)) << "eager's result, whatever the plan says";
  Report report = f.report();
  EXPECT_EQ(report.verdict, Verdict::Mismatch);
  EXPECT_EQ(report.reason.find("result 0 at [0]: eager 3, compiled 4; a function whose code"), 0u)
      << report.reason;
  EXPECT_FALSE(report.bitwise);
  EXPECT_TRUE(same(f(x), x * 3));
  EXPECT_EQ(report.plan_hits, 0);
}

TEST(Tiers, DataReadBehindTheObserverIsCaught) {
  auto f = compile(
      [](const at::Tensor& x) {
        return x.const_data_ptr<float>()[0] > 0 ? at::relu(x) + 1 : x * 2 + 5;
      },
      at_once());
  f(at::ones({4}));
  at::Tensor negative = -at::ones({4});
  EXPECT_TRUE(same(f(negative), negative * 2 + 5));
  EXPECT_EQ(f.report().verdict, Verdict::Mismatch);
}

TEST(Tiers, AnAuditFindsALateChange) {
  static bool flip = false;
  Options options = at_once();
  options.audit_every = 3;
  auto f = compile([](const at::Tensor& x) { return flip ? x * 2 + 1 : x * 3 + 1; }, options);
  at::Tensor x = at::ones({4});
  for (int i = 0; i < 10; ++i) f(x);
  EXPECT_EQ(f.report().verdict, Verdict::Faster);
  flip = true;
  for (int i = 0; i < 3; ++i) f(x);
  EXPECT_EQ(f.report().verdict, Verdict::Mismatch);
  EXPECT_TRUE(same(f(x), x * 3));
}

TEST(Tiers, NumbersInTheResultMustStayTheSame) {
  static int count = 0;
  auto f =
      compile([](const at::Tensor& x) { return std::make_pair(x * 2 + 1, ++count); }, at_once());
  at::Tensor x = at::ones({4});
  f(x);
  EXPECT_EQ(f(x).second, 2);
  EXPECT_EQ(f.report().verdict, Verdict::Mismatch) << f.report();
}

TEST(Tiers, ResetForgets) {
  auto f = compile(affine, at_once());
  at::Tensor x = at::randn({8});
  warm_up(f, x, x);
  f.reset();
  EXPECT_EQ(f.report().plans, 0);
  EXPECT_EQ(f.report().verdict, Verdict::NotCalled);
  warm_up(f, x, x);
  EXPECT_EQ(f.report().records, 1);
}

TEST(Tiers, ExceptionsPassThroughAndLeaveNoPlan) {
  static bool fail = true;
  auto f = compile(
      [](const at::Tensor& x) {
        if (fail) throw std::runtime_error("mine");
        return x * 2 + 1;
      },
      at_once());
  at::Tensor x = at::randn({8});
  EXPECT_THROW(f(x), std::runtime_error);
  EXPECT_EQ(f.report().plans, 0);
  EXPECT_THROW(f(x), std::runtime_error);
  fail = false;
  f(x);
  fail = true;
  EXPECT_THROW(f(x), std::runtime_error) << "the shadow run is eager's";
  fail = false;
  f(x);
  EXPECT_EQ(f.report().verdict, Verdict::Faster);
}

TEST(Tiers, TorchsErrorsAreEagers) {
  auto f = compile(affine, at_once());
  EXPECT_THROW(f(at::zeros({2}), at::zeros({3})), c10::Error);
  at::Tensor x = at::randn({2});
  warm_up(f, x, x);
  EXPECT_THROW(f(at::zeros({2}), at::zeros({3})), c10::Error);
}

TEST(Tiers, CopiesShareOneCore) {
  auto f = compile(affine, at_once());
  auto g = f;
  at::Tensor x = at::randn({8});
  f(x, x);
  g(x, x);
  EXPECT_EQ(f.report().verdict, Verdict::Faster);
}

TEST(Tiers, NestedCompiledFunctionsAreOne) {
  auto inner = compile([](const at::Tensor& x) { return x * 2 + 1; }, at_once("inner"));
  auto outer = compile([&](const at::Tensor& x) { return inner(x) * x; }, at_once("outer"));
  at::Tensor x = at::randn({8});
  warm_up(outer, x);
  EXPECT_TRUE(same(outer(x), (x * 2 + 1) * x));
  EXPECT_EQ(outer.report().kernels, 1);
  EXPECT_EQ(inner.report().records, 1)
      << "the outer shadow run's eager side calls it outside of a record";
}

TEST(Tiers, DropoutDrawsEagersNumbers) {
  auto dropout = [](const at::Tensor& x) { return at::dropout(x * 2 + 1, 0.5, true) * 3; };
  at::Tensor x = at::randn({64});
  std::vector<at::Tensor> expected;
  at::manual_seed(5);
  for (int i = 0; i < 6; ++i) expected.push_back(dropout(x));
  at::Tensor after = at::rand({3});
  auto f = compile(dropout, at_once("dropout"));
  at::manual_seed(5);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(same(f(x), expected[i])) << i;
  EXPECT_TRUE(same(at::rand({3}), after));
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.explain();
  EXPECT_EQ(f.report().plan_hits, 4);
}

TEST(Tiers, AGeneratorOfTheUsersOwn) {
  at::Generator generator = at::detail::createCPUGenerator(7);
  auto noisy = [&](const at::Tensor& x) { return x * 2 + at::rand({64}, generator); };
  at::Tensor x = at::randn({64});
  std::vector<at::Tensor> expected;
  for (int i = 0; i < 5; ++i) expected.push_back(noisy(x));
  auto f = compile(noisy, at_once("noisy"));
  generator.set_current_seed(7);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(same(f(x), expected[i])) << i;
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.explain();
}

TEST(Tiers, ScalarsAndContainersAreSeenThrough) {
  auto f = compile(
      [](const std::vector<at::Tensor>& xs, double scale, std::optional<at::Tensor> bias) {
        std::map<std::string, at::Tensor> out;
        out["sum"] = xs[0] * scale + xs[1];
        if (bias) out["bias"] = *bias + 1;
        return out;
      },
      at_once());
  std::vector<at::Tensor> xs{at::randn({4}), at::randn({4})};
  std::optional<at::Tensor> none, some = at::randn({2});
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(same(f(xs, 2.0, none).at("sum"), xs[0] * 2 + xs[1]));
    EXPECT_EQ(f(xs, 2.0, none).size(), 1u);
    EXPECT_TRUE(same(f(xs, 3.0, some).at("bias"), *some + 1));
    EXPECT_TRUE(same(f(xs, 3.0, some).at("sum"), xs[0] * 3 + xs[1]));
  }
  EXPECT_EQ(f.report().plans, 2);
}

TEST(Tiers, InferenceModeGivesInferenceTensors) {
  auto f = compile(affine, at_once());
  at::Tensor x = at::randn({8});
  for (int i = 0; i < 4; ++i) {
    {
      c10::InferenceMode mode;
      at::Tensor y = f(x, x);
      EXPECT_TRUE(y.is_inference());
      EXPECT_TRUE(same(y, affine(x, x)));
    }
    EXPECT_FALSE(f(x, x).is_inference());
  }
  EXPECT_EQ(f.report().plans, 2);
}

}  // namespace
}  // namespace graft::test
