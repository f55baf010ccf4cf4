// torch::optim's step() inside compiled functions: its rates and counts of steps change from call
// to call, and what it does beside tensors is done by plans, too.
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn.h>
#include <torch/optim.h>
#include <torch/serialize.h>

#include <functional>
#include <memory>
#include <sstream>

#include "graft/optim.h"
#include "runtime/helpers.h"

namespace graft::test {
namespace {

using at::Tensor;
namespace optim = torch::optim;

/// A small network with an optimizer, made alike each time.
struct Trainee {
  template <class Make>
  explicit Trainee(const Make& make) {
    at::manual_seed(5);
    net = torch::nn::Sequential(torch::nn::Linear(12, 16), torch::nn::Tanh(),
                                torch::nn::Linear(16, 3));
    optimizer = make(net->parameters());
  }

  /// As people write it.
  Tensor step(const Tensor& x, const Tensor& y) {
    optimizer->zero_grad();
    const Tensor loss = at::mse_loss(net->forward(x), y);
    loss.backward();
    optimizer->step();
    return loss.detach();
  }

  torch::nn::Sequential net{nullptr};
  std::unique_ptr<optim::Optimizer> optimizer;
};

double distance(const Trainee& a, const Trainee& b) {
  const auto ours = a.net->parameters(), theirs = b.net->parameters();
  double most = 0;
  for (size_t k = 0; k < ours.size(); ++k)
    most = std::max(most, (ours[k] - theirs[k]).abs().max().item<double>());
  return most;
}

/// Trains both, one compiled, with `between` called for each after every step.
template <class Make, class Body, class Between>
Report train(const Make& make, int steps, const Body& body, const Between& between) {
  Trainee eager(make), ours(make);
  auto compiled = compile([&](const Tensor& x, const Tensor& y) { return body(ours, x, y); },
                          at_once("training"));
  for (int step = 0; step < steps; ++step) {
    at::manual_seed(static_cast<uint64_t>(step) + 100);
    const Tensor x = at::randn({8, 12}), y = at::randn({8, 3});
    const Tensor expected = body(eager, x, y), came = compiled(x, y);
    EXPECT_TRUE(at::allclose(expected, came, 1e-4, 1e-6)) << "step " << step;
    between(eager, step), between(ours, step);
  }
  EXPECT_LT(distance(eager, ours), 1e-5);
  return compiled.report();
}

constexpr auto kStep = [](Trainee& t, const Tensor& x, const Tensor& y) { return t.step(x, y); };

/// Another rate at each step.
constexpr auto kSchedule = [](Trainee& t, int step) {
  for (auto& group : t.optimizer->param_groups()) group.options().set_lr(0.05 / (2 + step));
};

template <class Kind, class KindOptions>
auto maker(const KindOptions& options) {
  return [options](const std::vector<Tensor>& p) { return std::make_unique<Kind>(p, options); };
}

template <class Make>
void expect_trains(const Make& make) {
  const Report report = train(make, 30, kStep, kSchedule);
  EXPECT_EQ(report.verdict, Verdict::Faster) << report;
  EXPECT_GT(report.plan_hits, 20) << report;
}

TEST(HostSteps, EachKind) {
  expect_trains(maker<optim::SGD>(optim::SGDOptions(0.05)));
  expect_trains(maker<optim::SGD>(optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01)));
  expect_trains(
      maker<optim::SGD>(optim::SGDOptions(0.05).momentum(0.9).nesterov(true).dampening(0)));
  expect_trains(maker<optim::Adam>(optim::AdamOptions(0.01)));
  expect_trains(maker<optim::Adam>(optim::AdamOptions(0.01).amsgrad(true).weight_decay(0.1)));
  expect_trains(maker<optim::AdamW>(optim::AdamWOptions(0.01)));
  expect_trains(maker<optim::AdamW>(optim::AdamWOptions(0.01).weight_decay(0)));
  expect_trains(maker<optim::RMSprop>(optim::RMSpropOptions(0.01)));
  expect_trains(maker<optim::RMSprop>(optim::RMSpropOptions(0.01).momentum(0.9).centered(true)));
  expect_trains(maker<optim::Adagrad>(optim::AdagradOptions(0.05).lr_decay(0.02)));
}

/// Where the optimizer is made known, and stands in the object.
TEST(HostSteps, GraftsOptimizer) {
  const auto make = maker<optim::AdamW>(optim::AdamWOptions(0.01));
  Trainee eager(make), ours(make);
  Optimizer optimizer = compile(*ours.optimizer);
  auto compiled = compile(
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = at::mse_loss(ours.net->forward(x), y);
        loss.backward();
        optimizer.step();
        ours.optimizer->zero_grad();
        return loss.detach();
      },
      at_once());
  for (int step = 0; step < 20; ++step) {
    const Tensor x = at::randn({8, 12}), y = at::randn({8, 3});
    EXPECT_TRUE(at::allclose(eager.step(x, y), compiled(x, y), 1e-4, 1e-6)) << step;
    kSchedule(eager, step), kSchedule(ours, step);
  }
  EXPECT_LT(distance(eager, ours), 1e-5);
  EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.explain();
}

/// Long after the start Adam's corrections change little, and would pass for constants.
TEST(HostSteps, CountsGoOn) {
  const auto make = maker<optim::Adam>(optim::AdamOptions(0.01));
  Trainee trained(make);
  auto compiled =
      compile([&](const Tensor& x, const Tensor& y) { return trained.step(x, y); }, at_once());
  const Tensor x = at::randn({8, 12}), y = at::randn({8, 3});
  for (int step = 0; step < 40; ++step) trained.step(x, y);
  for (int step = 0; step < 25; ++step) compiled(x, y);
  EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.explain();
  for (const auto& [key, state] : trained.optimizer->state())
    EXPECT_EQ(static_cast<const optim::AdamParamState&>(*state).step(), 65);
}

TEST(HostSteps, GroupsAndSeveralSteps) {
  const auto grouped = [](const std::vector<Tensor>& p) {
    std::vector<optim::OptimizerParamGroup> groups;
    groups.emplace_back(std::vector<Tensor>{p[0], p[1]});
    groups.emplace_back(std::vector<Tensor>{p[2], p[3]},
                        std::make_unique<optim::AdamOptions>(optim::AdamOptions(0.003)));
    return std::make_unique<optim::Adam>(groups, optim::AdamOptions(0.02));
  };
  const auto twice = [](Trainee& t, const Tensor& x, const Tensor& y) {
    return t.step(x, y) + t.step(x * 2, y);
  };
  const auto decay = [](Trainee& t, int) {
    for (auto& group : t.optimizer->param_groups())
      group.options().set_lr(group.options().get_lr() * 0.9);
  };
  const Report report = train(grouped, 20, twice, decay);
  EXPECT_EQ(report.verdict, Verdict::Faster) << report;
  EXPECT_GT(report.plan_hits, 12) << report;
}

/// Nothing lies between the two steps that tells where one ends.
TEST(HostSteps, StepsInARow) {
  const auto body = [](Trainee& t, const Tensor& x, const Tensor& y) {
    t.net->zero_grad();
    const Tensor loss = at::mse_loss(t.net->forward(x), y);
    loss.backward();
    t.optimizer->step();
    t.optimizer->step();
    return loss.detach();
  };
  const Report report =
      train(maker<optim::Adam>(optim::AdamOptions(0.01)), 20, body, [](Trainee&, int) {});
  EXPECT_EQ(report.verdict, Verdict::Faster) << report;
}

/// What is not what was recorded is recorded again.
TEST(HostSteps, ChangesBetweenCalls) {
  const auto make = maker<optim::SGD>(optim::SGDOptions(0.05).momentum(0.9));
  const std::vector<std::function<void(Trainee&)>> changes = {
      [](Trainee& t) { t.optimizer->state().clear(); },
      [](Trainee& t) {
        static_cast<optim::SGDOptions&>(t.optimizer->param_groups()[0].options()).momentum(0.5);
      },
      [](Trainee& t) {
        std::stringstream file;
        torch::save(*t.optimizer, file);
        torch::load(*t.optimizer, file);
      },
      [&](Trainee& t) { t.optimizer = make(t.net->parameters()); },
      [](Trainee& t) { t.net->parameters()[0].set_requires_grad(false); },
  };
  for (size_t k = 0; k < changes.size(); ++k) {
    const Report report = train(make, 24, kStep, [&](Trainee& t, int step) {
      if (step == 12) changes[k](t);
    });
    EXPECT_GT(report.plan_hits, 10) << k << report;
    EXPECT_GT(report.records, 2) << k;
  }
}

/// An optimizer without states of its own, replaced while a plan knows the old one.
TEST(HostSteps, ReplacedWithoutStates) {
  const auto make = maker<optim::SGD>(optim::SGDOptions(0.05));
  train(make, 30, kStep, [&](Trainee& t, int step) {
    if (step % 10 != 9) return;
    t.optimizer.reset();
    const auto filler = std::make_unique<std::vector<double>>(40, 1.0);
    t.optimizer = make(t.net->parameters());
  });
}

TEST(HostSteps, ASchedulerInsideIsABreak) {
  const auto body = [](Trainee& t, const Tensor& x, const Tensor& y) {
    const Tensor loss = t.step(x, y);
    for (auto& group : t.optimizer->param_groups())
      group.options().set_lr(group.options().get_lr() * 0.9);
    return loss;
  };
  const Report report =
      train(maker<optim::Adam>(optim::AdamOptions(0.01)), 8, body, [](Trainee&, int) {});
  EXPECT_EQ(report.verdict, Verdict::Break);
  EXPECT_NE(report.reason.find("learning rate"), std::string::npos) << report.reason;
}

/// It is gone when the call ends.
TEST(HostSteps, AnOptimizerMadeInsideIsABreak) {
  const auto body = [](Trainee& t, const Tensor& x, const Tensor& y) {
    t.net->zero_grad();
    optim::SGD sgd(t.net->parameters(), optim::SGDOptions(0.01));
    const Tensor loss = at::mse_loss(t.net->forward(x), y);
    loss.backward();
    sgd.step();
    return loss.detach();
  };
  const Report report =
      train(maker<optim::Adam>(optim::AdamOptions(0.01)), 8, body, [](Trainee&, int) {});
  EXPECT_EQ(report.verdict, Verdict::Break) << report;
}

class OwnSGD : public optim::SGD {
 public:
  using optim::SGD::SGD;
};

/// What a class derived from libtorch's does besides is not known.
TEST(HostSteps, DerivedClassesAreBreaks) {
  const auto make = maker<OwnSGD>(optim::SGDOptions(0.05).momentum(0.9));
  EXPECT_EQ(train(make, 8, kStep, [](Trainee&, int) {}).verdict, Verdict::Break);
  // Right after another optimizer's step, with its parameters.
  Trainee eager(make), ours(make);
  const auto both = [](Trainee& t, optim::SGD& first, const Tensor& x, const Tensor& y) {
    t.net->zero_grad();
    const Tensor loss = at::mse_loss(t.net->forward(x), y);
    loss.backward();
    first.step();
    t.optimizer->step();
    return loss.detach();
  };
  optim::SGD theirs(eager.net->parameters(), optim::SGDOptions(0.01)),
      mine(ours.net->parameters(), optim::SGDOptions(0.01));
  auto compiled =
      compile([&](const Tensor& x, const Tensor& y) { return both(ours, mine, x, y); }, at_once());
  for (int step = 0; step < 16; ++step) {
    if (step == 8) kSchedule(eager, step), kSchedule(ours, step);
    const Tensor x = at::randn({8, 12}), y = at::randn({8, 3});
    EXPECT_TRUE(at::allclose(both(eager, theirs, x, y), compiled(x, y), 1e-4, 1e-6)) << step;
  }
  EXPECT_EQ(compiled.report().verdict, Verdict::Break) << compiled.explain();
}

/// `x.mul_(w)`: autograd copies what is overwritten, for its backward.
TEST(HostSteps, WhatAutogradKeepsOfOverwrittenTensors) {
  const std::vector<std::function<Tensor(Tensor, const Tensor&)>> all = {
      [](Tensor y, const Tensor& w) { return y.mul_(w); },
      [](Tensor y, const Tensor& w) { return y.div_(w).add_(y); },
      [](Tensor y, const Tensor&) { return y.sin_().mul_(2); },
      [](Tensor y, const Tensor&) { return y.pow_(3); },
      [](Tensor y, const Tensor& w) {
        const auto parts = y.unsafe_chunk(2, 1);
        return parts[0].mul_(parts[1].sigmoid_()) * w[0];
      }};
  for (size_t k = 0; k < all.size(); ++k) {
    const Tensor w = (at::rand({6}) + 0.5).requires_grad_();
    const auto f = [&](const Tensor& x) {
      const Tensor loss = all[k](x * w, w).square().sum();
      return torch::autograd::grad({loss}, {w})[0];
    };
    auto compiled = compile(f, at_once());
    for (int call = 0; call < 5; ++call) {
      const Tensor x = at::rand({4, 6});
      EXPECT_TRUE(at::allclose(f(x), compiled(x), 1e-4, 1e-5)) << k;
    }
    EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << k << compiled.explain();
  }
}

}  // namespace
}  // namespace graft::test
