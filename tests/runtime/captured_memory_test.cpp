// Functions that change C++ variables of their caller: a plan would not.
#include <gtest/gtest.h>
#include <torch/optim/schedulers/step_lr.h>

#include <optional>
#include <thread>

#include "graft/graft.h"
#include "torch/nn/modules/linear.h"
#include "torch/optim/sgd.h"

namespace graft::test {
namespace {

using at::Tensor;

constexpr const char* kChanges = "changes a variable that it captured";

Options plainly(const char* name) {
  return {.name = name, .async = false, .race = false};
}

TEST(CapturedMemory, ACountOfCallsIsABreak) {
  at::NoGradGuard no_grad;
  int steps = 0, steps_alone = 0;
  Tensor online = at::rand({8}), target = at::zeros({8}), alone = at::zeros({8});
  auto update = [](Tensor& to, int& count, const Tensor& x, const Tensor& from) {
    if (++count % 5 == 0) to.copy_(from);
    return (x * from + to).relu();
  };
  auto f =
      compile([&](const Tensor& x) { return update(target, steps, x, online); }, plainly("counts"));
  for (int call = 0; call < 20; ++call) {
    const Tensor x = at::rand({8});
    EXPECT_TRUE(at::equal(f(x), update(alone, steps_alone, x, online))) << call;
  }
  EXPECT_TRUE(at::equal(target, alone));
  EXPECT_EQ(steps, 20);
  EXPECT_EQ(f.report().verdict, Verdict::Break);
  EXPECT_NE(f.report().reason.find(kChanges), std::string::npos) << f.report();
}

TEST(CapturedMemory, ACountInTheClosureIsABreak) {
  struct Alternating {
    mutable int count = 0;
    Tensor operator()(const Tensor& x) const { return x * (++count % 2); }
  };
  at::NoGradGuard no_grad;
  auto f = compile(Alternating(), plainly("closure"));
  for (int call = 1; call < 8; ++call)
    EXPECT_EQ(f(at::ones({4})).sum().item<float>(), call % 2 == 1 ? 4 : 0);
  EXPECT_NE(f.report().reason.find(kChanges), std::string::npos) << f.report();
}

TEST(CapturedMemory, AnObjectThatCountsIsABreak) {
  struct Agent {
    Tensor weight = at::rand({4});
    double rate = 1;
    int64_t steps = 0;
    Tensor act(const Tensor& x) {
      ++steps;
      return x * weight;
    }
  };
  at::NoGradGuard no_grad;
  Agent agent;
  auto f = compile([&agent](const Tensor& x) { return agent.act(x); }, plainly("agent"));
  for (int call = 0; call < 6; ++call) f(at::rand({4}));
  EXPECT_EQ(agent.steps, 6);
  EXPECT_NE(f.report().reason.find("from 1 to 2"), std::string::npos) << f.report();
}

TEST(CapturedMemory, ASchedulerInsideKeepsItsRates) {
  torch::manual_seed(7);
  torch::nn::Linear model(4, 2), alone(4, 2);
  {
    at::NoGradGuard no_grad;
    for (size_t k = 0; k < 2; ++k) alone->parameters()[k].copy_(model->parameters()[k]);
  }
  torch::optim::SGD sgd(model->parameters(), 0.1), sgd_alone(alone->parameters(), 0.1);
  torch::optim::StepLR scheduler(sgd, 4, 0.1), scheduler_alone(sgd_alone, 4, 0.1);
  auto step = [](torch::nn::Linear& net, torch::optim::SGD& optimizer, torch::optim::StepLR& rates,
                 const Tensor& x) {
    optimizer.zero_grad();
    const Tensor loss = net(x).square().mean();
    loss.backward();
    optimizer.step();
    rates.step();
    return loss.detach();
  };
  auto f = compile([&](const Tensor& x) { return step(model, sgd, scheduler, x); },
                   plainly("scheduler"));
  for (int call = 0; call < 12; ++call) {
    const Tensor x = at::rand({8, 4});
    f(x), step(alone, sgd_alone, scheduler_alone, x);
  }
  EXPECT_EQ(sgd.param_groups()[0].options().get_lr(),
            sgd_alone.param_groups()[0].options().get_lr());
  EXPECT_TRUE(at::allclose(model->weight, alone->weight));
}

TEST(CapturedMemory, WhatTheFirstCallAloneChangesIsNone) {
  at::NoGradGuard no_grad;
  bool first = true;
  Tensor table = at::zeros({4});
  auto f = compile(
      [&](const Tensor& x) {
        if (first) table.fill_(2), first = false;
        return x * table + 1;
      },
      plainly("first"));
  for (int call = 0; call < 6; ++call) EXPECT_EQ(f(at::ones({4})).sum().item<float>(), 12);
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
  EXPECT_GT(f.report().plan_hits, 0);
}

/// Compared once more when it first is another one.
TEST(CapturedMemory, ANumberThatTheCallerChangesIsSeen) {
  at::NoGradGuard no_grad;
  double rate = 0.5;
  auto f = compile([&rate](const Tensor& x) { return x * rate; }, plainly("rate"));
  for (int call = 0; call < 8; ++call) f(at::ones({4}));
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
  rate = 2;
  for (int call = 0; call < 3; ++call) EXPECT_EQ(f(at::ones({4})).sum().item<float>(), 8);
  EXPECT_EQ(f.report().verdict, Verdict::Mismatch) << f.report();
  EXPECT_NE(f.report().reason.find("a variable that the function captured"), std::string::npos);
}

/// The first changes may make no difference.
TEST(CapturedMemory, ANumberThatChangesAgainIsComparedAgain) {
  at::NoGradGuard no_grad;
  int step = 0;
  auto f = compile([&step](const Tensor& x) { return step > 6 ? x + 1 : x * 2; }, plainly("step"));
  int wrong = 0;
  for (; step < 200; ++step)
    wrong += f(at::full({4}, 3)).sum().item<float>() != (step > 6 ? 16 : 24);
  EXPECT_LT(wrong, 16) << f.report();
  EXPECT_EQ(f.report().verdict, Verdict::Mismatch) << f.report();
}

/// The function may be called when what it does not use is gone.
TEST(CapturedMemory, AThreadThatIsGoneIsNotRead) {
  struct Add {
    const int* left;
    Tensor operator()(const Tensor& x) const { return x + 1; }
  };
  std::optional<Compiled<Add>> f;
  std::thread([&] {
    at::NoGradGuard no_grad;
    const int local = 5;
    f.emplace(compile(Add{&local}, plainly("gone")));
    for (int call = 0; call < 6; ++call) (*f)(at::ones({4}));
  }).join();
  at::NoGradGuard no_grad;
  for (int call = 0; call < 6; ++call) EXPECT_EQ((*f)(at::ones({4})).sum().item<float>(), 8);
}

TEST(CapturedMemory, ATensorInTheOthersPlaceIsSeen) {
  at::NoGradGuard no_grad;
  const Tensor one = at::full({4}, 1), two = at::full({4}, 2);
  Tensor weight = one;
  auto f = compile([&weight](const Tensor& x) { return x * weight; }, plainly("weight"));
  for (int call = 0; call < 8; ++call) f(at::ones({4}));
  weight = two;
  for (int call = 0; call < 3; ++call) EXPECT_EQ(f(at::ones({4})).sum().item<float>(), 8);
}

/// Neither by what it does not use, nor for long.
TEST(CapturedMemory, WhatMakesNoDifferenceStaysCompiled) {
  at::NoGradGuard no_grad;
  int unused = 0;
  auto f = compile([&unused](const Tensor& x) { return (void)unused, x * 2; }, plainly("unused"));
  for (int call = 0; call < 8; ++call) f(at::ones({4}));
  const int64_t before = f.report().plan_hits;
  for (int call = 0; call < 20; ++call) {
    unused = call;
    EXPECT_EQ(f(at::ones({4})).sum().item<float>(), 8);
  }
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
  EXPECT_GE(f.report().plan_hits, before + 12) << "compared at ever longer distances";
}

}  // namespace
}  // namespace graft::test
