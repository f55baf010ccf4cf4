// How arguments hang together in autograd's graph, where gradients lie, and in which modes a
// function runs again: what a plan was not recorded for must not be taken for what it was.
#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "runtime/helpers.h"
#include "workloads/training/autocast.h"

namespace graft::test {
namespace {

using at::Tensor;
using torch::autograd::grad;
using workloads::Autocast;

Tensor leaf(float value) {
  return at::full({4}, value).requires_grad_();
}

/// Compiled and served by a plan for calls of `make()`.
template <class F, class Make>
auto served(const F& f, const Make& make) {
  auto compiled = compile(f, at_once());
  for (int i = 0; i < 4; ++i) {
    const auto arguments = make();
    std::apply(compiled, arguments);
  }
  EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.explain();
  return compiled;
}

TEST(AutogradLinks, BackwardGoesOnBehindAnArgumentThatWasComputed) {
  const auto step = [](const Tensor& x, const Tensor& y) {
    const Tensor loss = (x * y).sin().sum();
    loss.backward();
    return loss.detach();
  };
  auto compiled = served(step, [] { return std::tuple(leaf(0.5), leaf(2)); });
  const Tensor p = leaf(1), q = leaf(1);
  step(p * 2, leaf(0.3F)), compiled(q * 2, leaf(0.3F));
  ASSERT_TRUE(q.grad().defined());
  EXPECT_TRUE(same(p.grad(), q.grad()));
}

/// Its base was changed in place by what requires grad: it gets its place in the graph when asked.
TEST(AutogradLinks, AViewOfWhatWasComputedLater) {
  const auto step = [](const Tensor& x, const Tensor& y) {
    const Tensor loss = (x * y).sum();
    loss.backward();
    return loss.detach();
  };
  auto compiled = served(step, [] { return std::tuple(leaf(0.5), leaf(2)); });
  const auto gradient = [](const auto& f) {
    const Tensor p = leaf(1), base = at::ones({4}), x = base.view({4});
    base.mul_(p);
    f(x, leaf(3));
    return p.grad();
  };
  ASSERT_TRUE(gradient(compiled).defined());
  EXPECT_TRUE(same(gradient(compiled), gradient(step)));
}

TEST(AutogradLinks, ArgumentsThatWereComputedFromOneAnother) {
  const auto slope = [](const Tensor& x, const Tensor& v) {
    return grad({(x * v).sin().sum()}, {x}, {}, true, false)[0];
  };
  auto compiled = served(slope, [] { return std::tuple(leaf(0.5), leaf(2)); });
  const Tensor x = leaf(1);
  EXPECT_TRUE(same(compiled(x, x * 2), slope(x, x * 2)));
}

TEST(AutogradLinks, AnArgumentComputedFromACapturedLeaf) {
  const Tensor w = leaf(1);
  const auto slope = [w](const Tensor& x) { return grad({(w * x).sum()}, {w})[0]; };
  auto compiled = served(slope, [] { return std::tuple(leaf(3)); });
  EXPECT_TRUE(same(compiled(w * 2), slope(w * 2)));
}

TEST(AutogradLinks, ACapturedLeafThatIsNoneAnyMore) {
  Tensor w = leaf(2);
  const auto step = [w](const Tensor& x) {
    const Tensor loss = (w * x).sum();
    loss.backward();
    return loss.detach();
  };
  auto compiled = served(step, [] { return std::tuple(at::full({4}, 3.0F)); });
  const Tensor p = leaf(1);
  w.requires_grad_(false);
  w.mul_(p);
  compiled(at::full({4}, 3.0F));
  ASSERT_TRUE(p.grad().defined());
  EXPECT_TRUE(same(p.grad(), at::full({4}, 6.0F)));
}

/// Its backward ends at its arguments, whatever they are: one plan serves both.
TEST(AutogradLinks, ARegionTakesLeavesAndOthersAlike) {
  const auto f = [](const Tensor& x) { return (x * 2).sin() * x; };
  auto compiled = served(f, [] { return std::tuple(leaf(0.5)); });
  const auto gradient = [](const auto& of) {
    const Tensor p = leaf(1);
    of(p * 3).sum().backward();
    return p.grad();
  };
  EXPECT_TRUE(same(gradient(compiled), gradient(f)));
  EXPECT_EQ(compiled.report().records, 1);
}

TEST(AutogradLinks, ARegionThatDifferentiatesInside) {
  const auto penalty = [](const Tensor& x, const Tensor& v) {
    const Tensor slope = grad({(x * v * v).sum()}, {x}, {}, true, true)[0];
    return std::make_pair(slope * slope, (x + v).exp());
  };
  const auto gradient = [](const auto& f) {
    const Tensor x = leaf(1.5);
    const auto results = f(x, x.view({4}));
    return grad({results.first.sum()}, {x})[0];
  };
  auto compiled = compile(penalty, at_once());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(same(gradient(compiled), gradient(penalty)));
  EXPECT_EQ(compiled.report().verdict, Verdict::Break);
}

/// A step whose gradient, before it, is `first(x, z)` in some calls and separate in others.
template <class Place>
void expect_separate(const Place& place) {
  const auto step = [](const Tensor& x, const Tensor& z) {
    (x * x).sum().backward();
    const at::NoGradGuard no_grad;
    Tensor w = x;
    w.sub_(x.grad(), 0.1);
    w.mutable_grad() = Tensor();
    return z * 1;
  };
  for (const bool first : {true, false}) {
    auto compiled = compile(step, at_once());
    for (int call = 0; call < 9; ++call) {
      const auto make = [&] {
        const Tensor x = leaf(1), z = at::full({4}, 10.0F);
        x.mutable_grad() = (call / 3 % 2 == 0) == first ? place(x, z) : at::ones({4});
        return std::pair(x, z);
      };
      const auto [x, z] = make();
      const auto [ours, our_z] = make();
      const Tensor result = step(x, z), our_result = compiled(ours, our_z);
      EXPECT_TRUE(same(result, our_result)) << call;
      EXPECT_TRUE(same(x.detach(), ours.detach())) << call;
      EXPECT_TRUE(same(z, our_z)) << call;
    }
  }
}

TEST(AutogradLinks, GradientsInMemoryOfOthers) {
  expect_separate([](const Tensor&, const Tensor& z) { return z.alias(); });
  expect_separate([](const Tensor&, const Tensor& z) { return at::_lazy_clone(z); });
  expect_separate([](const Tensor& x, const Tensor&) { return x.detach(); });
}

TEST(AutogradLinks, GradientsThatShareOneBufferAreCompiled) {
  const auto step = [](const Tensor& a, const Tensor& b) {
    (a * b * b).sum().backward();
    const at::NoGradGuard no_grad;
    for (Tensor w : {a, b}) {
      w.sub_(w.grad(), 0.1);
      w.mutable_grad().zero_();
    }
    return a * 1;
  };
  auto compiled = compile(step, at_once());
  for (int call = 0; call < 6; ++call) {
    const auto make = [] {
      const Tensor flat = at::zeros({8}), a = leaf(1), b = leaf(2);
      a.mutable_grad() = flat.narrow(0, 0, 4), b.mutable_grad() = flat.narrow(0, 4, 4);
      return std::tuple(a, b);
    };
    const auto [a, b] = make();
    const auto [x, y] = make();
    EXPECT_TRUE(same(step(a, b), compiled(x, y)));
    EXPECT_TRUE(same(b.detach(), y.detach()));
  }
  EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.explain();
}

/// Two results of a product that autocast makes a bf16 one, of which a backward uses the first.
std::pair<Tensor, Tensor> two(const Tensor& x, const Tensor& w) {
  return {(at::mm(x, w) * 1000).sin(), x.exp() * w.sum()};
}

TEST(AutogradLinks, WhatRunsAgainRunsInTheForwardsModes) {
  at::manual_seed(3);
  const Tensor x = at::randn({4, 4}).requires_grad_(), w = at::randn({4, 4}).requires_grad_();
  for (const bool low : {true, false}) {
    const auto gradient = [&](const auto& f, bool twice) {
      Tensor first;
      {
        std::optional<Autocast> autocast;
        if (low) autocast.emplace(at::kBFloat16);
        first = f(x, w).first;
      }
      std::optional<Autocast> autocast;
      if (!low) autocast.emplace(at::kBFloat16);
      return grad({first.to(at::kFloat).sum()}, {x}, {}, std::nullopt, twice)[0].detach();
    };
    for (const bool twice : {false, true}) {
      auto compiled = compile(two, at_once());
      for (int i = 0; i < 6; ++i)
        EXPECT_TRUE(at::allclose(gradient(compiled, twice), gradient(two, twice), 1e-4, 1e-3))
            << low << twice << i;
    }
  }
}

TEST(AutogradLinks, WhatRunsAgainSeesTheForwardsDefaultDtype) {
  const auto f = [](const Tensor& x) {
    const bool wide = at::ones({1}).scalar_type() == at::kDouble;
    return std::make_pair(x * (wide ? 3 : 30), x.exp());
  };
  const Tensor x = leaf(1);
  const auto gradient = [&](const auto& of) {
    const auto before = c10::get_default_dtype();
    c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
    const Tensor first = of(x).first;
    c10::set_default_dtype(before);
    return grad({first.sum()}, {x})[0];
  };
  auto compiled = compile(f, at_once());
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(same(gradient(compiled), gradient(f)));
  EXPECT_EQ(c10::get_default_dtype_as_scalartype(), at::kFloat);
}

TEST(AutogradLinks, ABackwardInInferenceMode) {
  const auto f = [](const Tensor& x) { return std::make_pair(x * x * x, x.exp()); };
  const Tensor x = leaf(2);
  auto compiled = compile(f, at_once());
  for (int i = 0; i < 6; ++i)
    for (const bool twice : {false, true}) {
      const Tensor first = compiled(x).first;
      const c10::InferenceMode inference;
      const Tensor gradient =
          grad({first}, {x}, {at::ones({4})}, /*retain_graph=*/std::nullopt, twice)[0];
      EXPECT_TRUE(same(gradient, at::full({4}, 12.0F)));
    }
}

}  // namespace
}  // namespace graft::test
