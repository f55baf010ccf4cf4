// What a plan leaves in Tensor::grad(), against eager: who owns a gradient, when it is new, added
// to or gone, and what the caller does to it between calls.
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <thread>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

using at::Tensor;

Tensor leaf(at::IntArrayRef sizes = {3}, at::ScalarType dtype = at::kFloat) {
  return at::ones(sizes, dtype).requires_grad_();
}

void expect_same_gradient(const Tensor& ours, const Tensor& theirs, int call) {
  ASSERT_EQ(ours.grad().defined(), theirs.grad().defined()) << "call " << call;
  if (!ours.grad().defined()) return;
  EXPECT_TRUE(same(ours.grad(), theirs.grad())) << "call " << call;
}

/// Adds x to the gradient of what it captures.
auto adding_to(const Tensor& w) {
  return [w](const Tensor& x) {
    (w * x).sum().backward();
    return x + 1;
  };
}

struct Pair {
  Tensor ours = leaf(), theirs = leaf();
};

/// Calls both with the same x; `change(call)` comes before each call.
template <class Ours, class Theirs, class Change>
void expect_same_gradients(const Pair& p, int calls, Ours ours, Theirs theirs, Change change) {
  for (int call = 0; call < calls; ++call) {
    const Tensor x = at::randn(p.ours.sizes());
    change(call);
    ours(x), theirs(x);
    expect_same_gradient(p.ours, p.theirs, call);
  }
}

TEST(Gradients, AreTheOnesThatAreReturned) {
  auto f = [](const Tensor& w, const Tensor& x) {
    (w * x).sum().backward();
    return w.grad();
  };
  auto compiled = compile(f, at_once());
  for (int call = 0; call < 8; ++call) {
    Pair p;
    const Tensor x = at::randn({3});
    const Tensor ours = compiled(p.ours, x), theirs = f(p.theirs, x);
    EXPECT_EQ(ours.is_same(p.ours.grad()), theirs.is_same(p.theirs.grad()));
    EXPECT_EQ(ours._version(), theirs._version());
    expect_same_gradient(p.ours, p.theirs, call);
  }
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
}

TEST(Gradients, OfAnotherLayout) {
  auto f = [](const Tensor& w, const Tensor& x) {
    (w * x).sum().backward();
    return x + 1;
  };
  auto compiled = compile(f, at_once());
  Pair p{leaf({3, 4}), leaf({3, 4})};
  auto ours = [&](const Tensor& x) { compiled(p.ours, x); };
  auto theirs = [&](const Tensor& x) { f(p.theirs, x); };
  expect_same_gradients(p, 24, ours, theirs, [&](int call) {
    if (call % 6 == 4)
      for (Tensor* w : {&p.ours, &p.theirs}) w->mutable_grad() = at::ones({4, 3}).t();
  });
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
}

/// The tensor that was the gradient before stays alive.
TEST(Gradients, ReplacedByTheCaller) {
  Pair p;
  auto f = adding_to(p.theirs);
  auto compiled = compile(adding_to(p.ours), at_once());
  Tensors kept;
  expect_same_gradients(p, 20, std::ref(compiled), f, [&](int call) {
    if (call % 5 != 3) return;
    kept.push_back(p.ours.grad());
    for (Tensor* w : {&p.ours, &p.theirs}) w->mutable_grad() = at::zeros({3});
  });
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
}

/// As between optimizer steps over several micro-batches.
TEST(Gradients, ThereInSomeCallsAndNotInOthers) {
  Pair p;
  auto f = adding_to(p.theirs);
  auto compiled = compile(adding_to(p.ours), at_once());
  expect_same_gradients(p, 60, std::ref(compiled), f, [&](int call) {
    if (call % 4 == 0)
      for (Tensor* w : {&p.ours, &p.theirs}) w->mutable_grad().reset();
  });
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
  EXPECT_EQ(compiled.report().plans, 2) << compiled.explain();
  EXPECT_GT(compiled.report().plan_hits, 45) << compiled.explain();
}

TEST(Gradients, ThatAreTheCallersMemory) {
  auto copied = [](const Tensor& w, const Tensor& g) {
    torch::autograd::backward({w.view({-1})}, {g});
    return g + 1;
  };
  auto compiled = compile(copied, at_once());
  for (int call = 0; call < 8; ++call) {
    Pair p;
    const Tensor g = at::randn({3});
    compiled(p.ours, g), copied(p.theirs, g);
    EXPECT_EQ(p.ours.grad().is_alias_of(g), p.theirs.grad().is_alias_of(g));
    g.add_(1);
    expect_same_gradient(p.ours, p.theirs, call);
  }
}

TEST(Gradients, OfTwoLeavesThatShareOne) {
  auto f = [](const Tensor& u, const Tensor& w, const Tensor& x) {
    ((u + w) * x).sum().backward();
    return x + 1;
  };
  auto compiled = compile(f, at_once());
  for (int call = 0; call < 8; ++call) {
    Pair p, q;
    const Tensor x = at::randn({3});
    compiled(p.ours, q.ours, x), f(p.theirs, q.theirs, x);
    expect_same_gradient(p.ours, p.theirs, call);
    expect_same_gradient(q.ours, q.theirs, call);
    EXPECT_EQ(p.ours.grad().is_alias_of(q.ours.grad()),
              p.theirs.grad().is_alias_of(q.theirs.grad()));
  }
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
}

TEST(Gradients, OfSmallAndEmptyLeavesAndOfHalfPrecision) {
  auto f = [](const Tensors& w, const Tensor& x) {
    const Tensor loss = (w[0] * x).sum().to(at::kFloat) + w[1].sum() + w[2] * w[2];
    loss.backward();
    return loss.detach();
  };
  auto compiled = compile(f, at_once());
  for (int call = 0; call < 8; ++call) {
    auto make = [] { return Tensors{leaf({5}, at::kBFloat16), leaf({0, 3}), leaf({})}; };
    const Tensors ours = make(), theirs = make();
    const Tensor x = at::randn({5}).to(at::kBFloat16);
    compiled(ours, x), f(theirs, x);
    for (size_t k = 0; k < 3; ++k) expect_same_gradient(ours[k], theirs[k], call);
  }
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
}

TEST(Gradients, WhenTheFunctionThrows) {
  auto f = [](const Tensor& w, const Tensor& x, const Tensor& i) {
    (w * x).sum().backward();
    const at::NoGradGuard no_grad;
    w.sub_(w.grad() * 0.1);
    return x.index_select(0, i);
  };
  auto compiled = compile(f, at_once());
  Pair p{leaf({5}), leaf({5})};
  const Tensor good = at::zeros({2}, at::kLong), bad = at::full({2}, 9, at::kLong);
  for (int call = 0; call < 12; ++call) {
    const Tensor x = at::randn({5}), &i = call % 4 == 3 ? bad : good;
    auto throws = [&](auto&& run) {
      try {
        run();
      } catch (const c10::Error&) {
        return true;
      }
      return false;
    };
    EXPECT_EQ(throws([&] { compiled(p.ours, x, i); }), throws([&] { f(p.theirs, x, i); }));
    EXPECT_TRUE(same(p.ours.detach(), p.theirs.detach())) << call;
    EXPECT_EQ(p.ours._version(), p.theirs._version()) << call;
    expect_same_gradient(p.ours, p.theirs, call);
  }
}

TEST(Gradients, OfWhatIsCapturedAndAnArgument) {
  auto make = [](const Tensor& w) {
    return [w](const Tensor& y, const Tensor& x) {
      (w * x + y).sum().backward();
      return x + 1;
    };
  };
  Pair p, q;
  auto f = make(p.theirs);
  auto compiled = compile(make(p.ours), at_once());
  for (int call = 0; call < 16; ++call) {
    const Tensor x = at::randn({3});
    const bool twice = call % 3 == 2;
    compiled(twice ? p.ours : q.ours, x), f(twice ? p.theirs : q.theirs, x);
    expect_same_gradient(p.ours, p.theirs, call);
    expect_same_gradient(q.ours, q.theirs, call);
  }
}

/// Registered when a plan is in use.
TEST(Gradients, SeenByAHook) {
  Pair p;
  auto f = adding_to(p.theirs);
  auto compiled = compile(adding_to(p.ours), at_once());
  for (int call = 0; call < 16; ++call) {
    if (call == 9)
      for (Tensor* w : {&p.ours, &p.theirs})
        w->register_hook([](const Tensor& g) { return g * 3; });
    const Tensor x = at::randn({3});
    compiled(x), f(x);
    expect_same_gradient(p.ours, p.theirs, call);
  }
  EXPECT_EQ(compiled.report().verdict, Verdict::Break);
  EXPECT_NE(compiled.report().reason.find("has hooks"), std::string::npos);
}

TEST(Gradients, WithMemoryOfAnotherTensor) {
  Pair p;
  auto f = adding_to(p.theirs);
  auto compiled = compile(adding_to(p.ours), at_once());
  for (int call = 0; call < 16; ++call) {
    if (call == 7 || call == 11)
      for (Tensor* w : {&p.ours, &p.theirs}) w->set_data(at::full({3}, static_cast<float>(call)));
    const Tensor x = at::randn({3});
    compiled(x), f(x);
    expect_same_gradient(p.ours, p.theirs, call);
  }
}

/// Leaves over one buffer, the middle one within what the others span.
TEST(Gradients, OfParametersInOneBuffer) {
  auto make = [] {
    const Tensor flat = at::arange(6, at::kFloat);
    Tensors parts;
    for (int64_t k = 0; k < 3; ++k) {
      parts.push_back(flat.narrow(0, 2 * k, 2).detach().requires_grad_());
      parts.back().mutable_grad() = at::zeros({2});
    }
    return parts;
  };
  auto step = [](const Tensors& p) {
    return [p](const Tensor& x) {
      const Tensor loss = (p[0] * x + p[2] * x + p[1] * x).sum();
      loss.backward();
      return loss.detach();
    };
  };
  const Tensors ours = make(), theirs = make();
  auto f = step(theirs);
  auto compiled = compile(step(ours), at_once());
  for (int call = 0; call < 24; ++call) {
    for (const Tensors* parts : {&ours, &theirs}) {
      if (call == 8) (*parts)[1].requires_grad_(false);
      if (call == 12) (*parts)[1].requires_grad_(true);
      if (call == 16) (*parts)[1].mutable_grad().reset();
    }
    const Tensor x = at::randn({2});
    compiled(x), f(x);
    for (size_t k = 0; k < 3; ++k) expect_same_gradient(ours[k], theirs[k], call);
  }
}

/// Two objects over one memory, of which one gets another.
TEST(Gradients, ViewsOfACapturedTensorThatMoves) {
  auto make = [](const Tensor& p, const Tensor& q) {
    return [p, q](const Tensor& x) { return x + p + q.view(4); };
  };
  const Tensor p = at::ones({4}), q = p.view({2, 2}), r = at::ones({4}), s = r.view({2, 2});
  auto f = make(r, s);
  auto compiled = compile(make(p, q), at_once());
  for (int call = 0; call < 16; ++call) {
    if (call == 6)
      for (const Tensor* t : {&p, &r}) t->set_data(at::full({4}, 5.0F));
    if (call == 11)
      for (const Tensor* t : {&q, &s}) t->set_data(at::full({2, 2}, 7.0F));
    const Tensor x = at::randn({4});
    EXPECT_TRUE(same(compiled(x), f(x))) << call;
  }
}

TEST(Gradients, ThatTheFunctionAlsoGetsOrHolds) {
  {
    auto f = [](const Tensor& w, const Tensor& buffer, const Tensor& x) {
      (w * x).sum().backward();
      return buffer * 1;
    };
    auto compiled = compile(f, at_once());
    Pair p;
    for (Tensor* w : {&p.ours, &p.theirs}) w->mutable_grad() = at::zeros({3});
    for (int call = 0; call < 16; ++call) {
      const Tensor x = at::randn({3});
      const bool other = call % 5 == 4;
      EXPECT_TRUE(same(compiled(p.ours, other ? at::zeros({3}) : p.ours.grad(), x),
                       f(p.theirs, other ? at::zeros({3}) : p.theirs.grad(), x)))
          << call;
      expect_same_gradient(p.ours, p.theirs, call);
    }
  }
  auto make = [](const Tensor& w, const Tensor& held) {
    return [w, held](const Tensor& x) {
      (w * x).sum().backward();
      return held * 1;
    };
  };
  Pair p;
  for (Tensor* w : {&p.ours, &p.theirs}) w->mutable_grad() = at::zeros({3});
  auto f = make(p.theirs, p.theirs.grad());
  auto compiled = compile(make(p.ours, p.ours.grad()), at_once());
  for (int call = 0; call < 16; ++call) {
    if (call == 8)
      for (Tensor* w : {&p.ours, &p.theirs}) w->mutable_grad() = at::zeros({3});
    const Tensor x = at::randn({3});
    EXPECT_TRUE(same(compiled(x), f(x))) << call;
    expect_same_gradient(p.ours, p.theirs, call);
  }
}

TEST(Gradients, OfAGraphFromOutside) {
  auto f = [](const Tensor& loss) { loss.backward(); };
  auto compiled = compile(f, at_once());
  const Tensor w = leaf();
  w.mutable_grad() = at::zeros({3});
  for (int call = 0; call < 8; ++call) compiled((w * at::ones({3})).sum());
  EXPECT_EQ(compiled.report().verdict, Verdict::Break);
  EXPECT_TRUE(same(w.grad(), at::full({3}, 8.0F)));
}

/// A leaf that is another at each call is met anew each time: that ends.
TEST(Gradients, OfLeavesThatAreReplaced) {
  Tensor w = leaf();
  auto f = [&w](const Tensor& x) {
    const Tensor loss = (w * x).sum();
    loss.backward();
    return loss.detach();
  };
  auto compiled = compile(f, at_once());
  for (int call = 0; call < 40; ++call) {
    w = w.detach().clone().requires_grad_();
    const Tensor x = at::randn({3});
    compiled(x);
    EXPECT_TRUE(same(w.grad(), x)) << call;
  }
  EXPECT_LT(compiled.report().records, 30) << compiled.explain();
}

TEST(Gradients, InAnomalyMode) {
  auto f = [](const Tensor& w, const Tensor& x) {
    (w.sqrt() * x).sum().backward();
    return x + 1;
  };
  auto compiled = compile(f, at_once());
  const Tensor w = leaf();
  for (int call = 0; call < 6; ++call) compiled(w, at::ones({3}));
  const torch::autograd::DetectAnomalyGuard guard;
  const Tensor bad = at::full({3}, -1.0F).requires_grad_();
  bad.mutable_grad() = at::zeros({3});
  EXPECT_ANY_THROW(f(bad, at::ones({3})));
  EXPECT_ANY_THROW(compiled(bad, at::ones({3})));
}

/// Each adds 1 a thousand times.
TEST(Gradients, ThatThreadsAddTo) {
  const Tensor w = leaf({64});
  auto compiled = compile(
      [&w](const Tensor& x) {
        (w * x).sum().backward();
        return x + 1;
      },
      at_once());
  const Tensor x = at::ones({64});
  for (int call = 0; call < 8; ++call) compiled(x);
  ASSERT_TRUE(was_compiled(compiled.report())) << compiled.explain();
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([&] {
      for (int call = 0; call < 250; ++call) compiled(x);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(same(w.grad(), at::full({64}, 1008.0F)));
}

TEST(Gradients, OfManyThreads) {
  const Tensor w = leaf({64});
  auto f = [](const Tensor& w, const Tensor& x) {
    return torch::autograd::grad({(w * x).exp().sum()}, {w})[0];
  };
  auto compiled = compile(f, at_once());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([&, k] {
      for (int call = 0; call < 200; ++call) {
        const Tensor x = at::full({64}, 0.01F * static_cast<float>(call % 7 + k));
        wrong += !at::allclose(compiled(w, x), f(w, x));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_FALSE(w.grad().defined());
}

}  // namespace
}  // namespace graft::test
