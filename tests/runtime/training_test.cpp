// Training steps: functions that call backward() themselves, as one program.
#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

using at::Tensor;

/// Two linear layers and what an optimizer keeps of them.
struct Model {
  Tensor w1, b1, w2, m1;
  explicit Model(uint64_t seed = 7) {
    at::manual_seed(seed);
    w1 = (at::randn({16, 32}) * 0.2).requires_grad_();
    b1 = at::zeros({32}).requires_grad_();
    w2 = (at::randn({32, 4}) * 0.2).requires_grad_();
    m1 = at::zeros({16, 32});
  }
  std::vector<Tensor> parameters() const { return {w1, b1, w2}; }
  Tensor loss(const Tensor& x, const Tensor& y) const {
    return at::mse_loss(at::addmm(b1, x, w1).tanh().mm(w2), y);
  }
};

void descend(const Model& m, double rate) {
  at::NoGradGuard no_grad;
  for (const Tensor& p : m.parameters()) p.add_(p.grad(), -rate);
}
void clear(const Model& m) {
  for (const Tensor& p : m.parameters()) p.mutable_grad().reset();
}

using Step = std::function<Tensor(const Model&, const Tensor&, const Tensor&)>;

bool close(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return at::allclose(a, b, 1e-4, 1e-6);
}

/// Runs both for a number of steps; what each leaves must agree after each. Gives the report.
Report train(const Step& step, int steps = 12) {
  Model ours, theirs;
  auto compiled =
      compile([&](const Tensor& x, const Tensor& y) { return step(ours, x, y); }, at_once());
  at::manual_seed(3);
  for (int call = 0; call < steps; ++call) {
    const Tensor x = at::randn({8, 16}), y = at::randn({8, 4});
    const std::vector<uint32_t> before = {static_cast<uint32_t>(ours.w1._version()),
                                          static_cast<uint32_t>(theirs.w1._version())};
    EXPECT_TRUE(close(compiled(x, y), step(theirs, x, y))) << "loss, call " << call;
    EXPECT_EQ(ours.w1._version() - before[0], theirs.w1._version() - before[1]) << call;
    for (size_t k = 0; k < 3; ++k) {
      const Tensor p = ours.parameters()[k], q = theirs.parameters()[k];
      EXPECT_TRUE(close(p.detach(), q.detach())) << "parameter " << k << ", call " << call;
      EXPECT_TRUE(close(p.grad(), q.grad())) << "gradient " << k << ", call " << call;
      if (!p.grad().defined() || !q.grad().defined()) continue;
      EXPECT_EQ(p.grad().requires_grad(), q.grad().requires_grad());
      EXPECT_EQ(p.grad().is_view(), q.grad().is_view());
    }
    EXPECT_TRUE(close(ours.m1, theirs.m1)) << call;
  }
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
  return compiled.report();
}

TEST(Training, AStepThatClearsItsGradientsAtTheEnd) {
  train([](const Model& m, const Tensor& x, const Tensor& y) {
    const Tensor loss = m.loss(x, y);
    loss.backward();
    descend(m, 0.1);
    clear(m);
    return loss.detach();
  });
}

TEST(Training, AStepThatClearsItsGradientsAtTheStart) {
  train([](const Model& m, const Tensor& x, const Tensor& y) {
    clear(m);
    const Tensor loss = m.loss(x, y);
    loss.backward();
    descend(m, 0.1);
    return loss.detach();
  });
}

TEST(Training, AStepThatZeroesItsGradients) {
  train([](const Model& m, const Tensor& x, const Tensor& y) {
    {
      at::NoGradGuard no_grad;
      for (const Tensor& p : m.parameters())
        if (p.grad().defined()) p.mutable_grad().zero_();
    }
    const Tensor loss = m.loss(x, y);
    loss.backward();
    descend(m, 0.1);
    return loss.detach();
  });
}

/// Gradients that grow from call to call.
TEST(Training, GradientsAccumulate) {
  train([](const Model& m, const Tensor& x, const Tensor& y) {
    const Tensor loss = m.loss(x, y);
    loss.backward();
    return loss.detach();
  });
}

TEST(Training, MicroBatchesInOneStep) {
  train([](const Model& m, const Tensor& x, const Tensor& y) {
    Tensor total = at::zeros({});
    for (int64_t k = 0; k < 4; ++k) {
      const Tensor loss = m.loss(x.narrow(0, 2 * k, 2), y.narrow(0, 2 * k, 2)) / 4;
      loss.backward();
      total = total + loss.detach();
    }
    descend(m, 0.1);
    clear(m);
    return total;
  });
}

TEST(Training, GradientsOfOneParameterAlone) {
  train([](const Model& m, const Tensor& x, const Tensor& y) {
    const Tensor loss = m.loss(x, y);
    const Tensor g = torch::autograd::grad({loss}, {m.w2})[0];
    at::NoGradGuard no_grad;
    m.w2.sub_(g * 0.1);
    return loss.detach();
  });
}

/// As torch::optim does it: by other objects over the parameters' and the gradients' memory.
TEST(Training, MomentumThroughData) {
  train([](const Model& m, const Tensor& x, const Tensor& y) {
    clear(m);
    const Tensor loss = m.loss(x, y);
    loss.backward();
    at::NoGradGuard no_grad;
    m.m1.mul_(0.9).add_(m.w1.grad().data());
    m.w1.data().add_(m.m1, -0.1);
    return loss.detach();
  });
}

TEST(Training, ClippingByTheGlobalNorm) {
  train([](const Model& m, const Tensor& x, const Tensor& y) {
    const Tensor loss = m.loss(x, y);
    loss.backward();
    at::NoGradGuard no_grad;
    Tensor sum = at::zeros({});
    for (const Tensor& p : m.parameters()) sum = sum + p.grad().norm().square();
    const Tensor factor = at::clamp_max(0.1 / (sum.sqrt() + 1e-6), 1.0);
    for (const Tensor& p : m.parameters()) p.mutable_grad().mul_(factor);
    descend(m, 0.5);
    clear(m);
    return loss.detach();
  });
}

/// Tied weights: the one gradient sums two uses.
TEST(Training, TiedWeights) {
  train([](const Model& m, const Tensor& x, const Tensor& y) {
    const Tensor hidden = x.mm(m.w1).tanh().mm(m.w1.t());
    const Tensor loss = at::mse_loss(hidden.narrow(1, 0, 4), y);
    loss.backward();
    {
      at::NoGradGuard no_grad;
      m.w1.add_(m.w1.grad(), -0.1);
    }
    m.w1.mutable_grad().reset();
    return loss.detach();
  });
}

/// Parameters as arguments: their gradients are known from the first call on.
TEST(Training, ParametersAsArguments) {
  auto step = [](const Tensor& w, const Tensor& x) {
    const Tensor loss = x.mm(w).exp().mean();
    loss.backward();
    return loss.detach();
  };
  auto compiled = compile(step, at_once());
  Tensor ours = at::full({5, 3}, 0.1).requires_grad_(),
         theirs = at::full({5, 3}, 0.1).requires_grad_();
  at::manual_seed(1);
  for (int call = 0; call < 12; ++call) {
    const Tensor x = at::randn({4, 5});
    EXPECT_TRUE(close(compiled(ours, x), step(theirs, x)));
    ASSERT_TRUE(ours.grad().defined());
    EXPECT_TRUE(close(ours.grad(), theirs.grad())) << call;
    if (call % 4 == 3) ours.mutable_grad().reset(), theirs.mutable_grad().reset();
  }
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
  EXPECT_EQ(compiled.report().plans, 2) << compiled.explain();  // with a gradient, and without
}

/// Another parameter of the same layout has another gradient.
TEST(Training, GradientsAreThoseOfTheArgumentThatComes) {
  auto step = [](const Tensor& w) {
    const Tensor doubled = w.grad() * 2;
    w.mutable_grad().reset();
    return doubled;
  };
  auto compiled = compile(step, at_once());
  for (int call = 0; call < 6; ++call) {
    Tensor w = at::zeros({3}).requires_grad_();
    w.mutable_grad() = at::full({3}, static_cast<float>(call));
    EXPECT_TRUE(same(compiled(w), at::full({3}, 2.0F * static_cast<float>(call))));
    EXPECT_FALSE(w.grad().defined()) << call;
  }
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
}

std::string reason_of(const std::function<Tensor(const Model&, const Tensor&)>& f) {
  Model m;
  auto compiled = compile([&](const Tensor& x) { return f(m, x); }, at_once());
  for (int call = 0; call < 5; ++call) compiled(at::ones({8, 16}));
  return compiled.report().verdict == Verdict::Break ? compiled.report().reason : "";
}

void expect_break(const char* why, const std::function<Tensor(const Model&, const Tensor&)>& f) {
  const std::string reason = reason_of(f);
  EXPECT_NE(reason.find(why), std::string::npos) << "expected " << why << ", came: " << reason;
}

TEST(Training, WhatAPlanCannotRepeatIsABreak) {
  expect_break("create_graph", [](const Model& m, const Tensor& x) {
    x.mm(m.w1).tanh().sum().backward({}, true, true);
    return x + 1;
  });
  expect_break("has hooks", [](const Model& m, const Tensor& x) {
    m.w1.register_hook([](const Tensor& g) { return g * 2; });
    x.mm(m.w1).sum().backward();
    return x + 1;
  });
  const Model outside;
  const Tensor scaled = outside.w1 * 2;
  expect_break("outside of the function", [&](const Model&, const Tensor& x) {
    x.mm(scaled).sum().backward({}, true);
    return x + 1;
  });
}

/// As people write it. What comes is detached: nobody could go on from eager's.
TEST(Training, TheLossIsReturnedWithItsGraph) {
  Tensor w = at::randn({6}).requires_grad_(), v = w.detach().clone().requires_grad_();
  const auto step = [](const Tensor& x, const Tensor& weight) {
    const Tensor loss = (x * weight).square().sum();
    loss.backward();
    const at::NoGradGuard no_grad;
    weight.sub_(weight.grad(), 0.01);
    weight.mutable_grad().reset();
    return loss;
  };
  auto compiled = compile([&](const Tensor& x) { return step(x, w); }, test::at_once());
  for (int call = 0; call < 8; ++call) {
    const Tensor x = at::randn({4, 6});
    EXPECT_TRUE(at::allclose(compiled(x).detach(), step(x, v).detach(), 1e-5, 1e-6)) << call;
    EXPECT_TRUE(at::allclose(w.detach(), v.detach(), 1e-5, 1e-6)) << call;
  }
  EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.explain();
}

/// Of two results one has a graph that is still there.
TEST(Training, OneOfTwoResultsIsReturnedWithItsGraph) {
  const Tensor w = at::randn({6}).requires_grad_();
  const auto f = [&](const Tensor& x) {
    const Tensor loss = (x * w).square().sum();
    loss.backward();
    w.mutable_grad().reset();
    return std::vector<Tensor>{loss, (x * w).exp()};
  };
  auto compiled = compile(f, test::at_once());
  for (int call = 0; call < 5; ++call) {
    const std::vector<Tensor> came = compiled(at::randn({4, 6}));
    came[1].sum().backward();
    EXPECT_TRUE(w.grad().defined()) << call;
    w.mutable_grad().reset();
  }
  EXPECT_EQ(compiled.report().verdict, Verdict::Break) << compiled.report();
}

}  // namespace
}  // namespace graft::test
