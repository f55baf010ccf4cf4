// Regions: compiled functions whose results take part in autograd, and whose backward runs when
// gradients come, against eager.
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function.h>

#include <thread>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

using at::Tensor;
using torch::autograd::grad;

constexpr const char* kNode = "GraftRegionBackward";

Tensor leaf(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
  return at::randn(sizes, at::TensorOptions(dtype)).requires_grad_();
}

template <class F>
auto proven(const F& f, const Tensors& args, Options options = at_once()) {
  auto compiled = compile(f, options);
  for (int i = 0; i < 2; ++i) compiled(args);
  EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.explain();
  EXPECT_EQ(compiled(args)[0].grad_fn()->name(), kNode);
  return compiled;
}

/// Results and gradients of both, with the same incoming gradients. `bits`: equal to the bit.
template <class F>
void expect_same(const F& f, const Tensors& args, bool bits = true) {
  auto compiled = proven(f, args);
  const Tensors ours = compiled(args), theirs = f(args);
  ASSERT_EQ(ours.size(), theirs.size());
  Tensors inputs, incoming, our_outputs, their_outputs;
  for (const Tensor& x : args)
    if (x.requires_grad()) inputs.push_back(x);
  auto equal = [&](const Tensor& a, const Tensor& b) {
    ASSERT_EQ(a.defined(), b.defined());
    if (!a.defined()) return;
    const bool agree = bits ? same(a.contiguous(), b.contiguous()) : at::allclose(a, b, 1e-5, 1e-6);
    EXPECT_TRUE(agree) << describe(a) << " against " << describe(b);
  };
  for (size_t i = 0; i < ours.size(); ++i) {
    equal(ours[i].detach(), theirs[i].detach());
    ASSERT_EQ(ours[i].requires_grad(), theirs[i].requires_grad());
    if (!ours[i].requires_grad()) continue;
    our_outputs.push_back(ours[i]), their_outputs.push_back(theirs[i]);
    incoming.push_back(at::randn(ours[i].sizes(), ours[i].options()));
  }
  const Tensors a = grad(our_outputs, inputs, incoming, std::nullopt, false, true),
                b = grad(their_outputs, inputs, incoming, std::nullopt, false, true);
  for (size_t i = 0; i < a.size(); ++i) equal(a[i], b[i]);
}

TEST(Regions, PointwiseInEachDtype) {
  for (at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
    expect_same([](const Tensors& t) -> Tensors { return {at::tanh(t[0]) * t[1] + at::exp(t[1])}; },
                {leaf({5, 33}, dtype), leaf({5, 33}, dtype)});
}

TEST(Regions, Norms) {
  auto rms = [](const Tensors& t) -> Tensors {
    const Tensor h = t[0] + t[1];
    return {h * at::rsqrt(h.pow(2).mean(-1, true) + 1e-5) * t[2], h};
  };
  expect_same(rms, {leaf({6, 40}), leaf({6, 40}), leaf({40})}, false);
  auto layer = [](const Tensors& t) -> Tensors {
    return {at::relu(at::layer_norm(t[0], {40}, t[1], t[2]))};
  };
  expect_same(layer, {leaf({6, 40}), leaf({40}), leaf({40})}, false);
}

TEST(Regions, SoftmaxAndMatmul) {
  auto attention = [](const Tensors& t) -> Tensors {
    return {at::matmul(at::softmax(at::matmul(t[0], t[1].transpose(-2, -1)) * 0.25, -1), t[2])};
  };
  expect_same(attention, {leaf({2, 3, 8, 16}), leaf({2, 3, 8, 16}), leaf({2, 3, 8, 16})}, false);
}

TEST(Regions, SomeInputsRequireGrad) {
  auto f = [](const Tensors& t) -> Tensors { return {at::tanh(t[0] * t[1]), t[1] * 2}; };
  expect_same(f, {leaf({7}), at::randn({7})});
  expect_same(f, {at::randn({7}), leaf({7})});
}

TEST(Regions, ViewsAsResults) {
  expect_same(
      [](const Tensors& t) -> Tensors {
        const Tensor y = at::tanh(t[0]);
        return {y.transpose(0, 1)};
      },
      {leaf({4, 6})});
  expect_same([](const Tensors& t) -> Tensors { return at::tanh(t[0]).chunk(2, 1); },
              {leaf({4, 6})});
}

TEST(Regions, IntegersBesideResults) {
  expect_same(
      [](const Tensors& t) -> Tensors {
        auto [values, places] = at::max(t[0] * 2, 1);
        return {values, places};
      },
      {leaf({4, 6})});
}

TEST(Regions, TheSameTensorTwice) {
  auto f = [](const Tensors& t) -> Tensors {
    const Tensor y = t[0] * t[1];
    return {y, y};
  };
  const Tensor x = leaf({5});
  auto compiled = proven(f, {x, x});
  const Tensors y = compiled(Tensors{x, x});
  EXPECT_TRUE(y[0].is_same(y[1]));
  const Tensor gradient = grad({y[0]}, {x}, {at::ones({5})})[0];
  EXPECT_TRUE(same(gradient, (2 * x).detach()));
}

TEST(Regions, AnArgumentComputedFromAnother) {
  // Autograd, asked for both gradients, would go on from y to x.
  auto f = [](const Tensors& t) -> Tensors { return {at::tanh(t[0]) * t[1]}; };
  const Tensor x = leaf({9});
  auto compiled = compile(f, at_once());
  for (int call = 0; call < 5; ++call) {
    auto gradient = [&](auto&& g) {
      const Tensor y = at::sin(x);
      return grad({g(Tensors{x, y})[0]}, {x}, {at::ones({9})})[0];
    };
    EXPECT_TRUE(same(gradient(compiled), gradient(f))) << call;
  }
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
}

TEST(Regions, CapturedParametersAccumulate) {
  const Tensor ours = leaf({8}), theirs = ours.detach().clone().requires_grad_();
  auto with = [](const Tensor& w) {
    return [w](const Tensors& t) -> Tensors { return {at::tanh(t[0] * w)}; };
  };
  auto compiled = compile(with(ours), at_once());
  auto eager = with(theirs);
  for (int call = 0; call < 12; ++call) {
    const Tensor x = at::randn({3, 8});
    compiled(Tensors{x})[0].sum().backward();
    eager(Tensors{x})[0].sum().backward();
    EXPECT_TRUE(at::allclose(ours.grad(), theirs.grad(), 1e-5, 1e-6)) << call;
  }
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
}

TEST(Regions, DropoutsMaskIsTheForwards) {
  auto f = [](const Tensors& t) -> Tensors { return {at::dropout(t[0] * 2, 0.5, true)}; };
  const Tensor x = leaf({64, 65});
  auto compiled = proven(f, {x});
  auto both = [&](auto&& g) {
    at::manual_seed(7);
    const Tensor y = g(Tensors{x})[0];
    return Tensors{y.detach(), grad({y}, {x}, {at::ones(y.sizes())})[0]};
  };
  const Tensors a = both(compiled), b = both(f);
  EXPECT_TRUE(same(a[0], b[0]));
  EXPECT_TRUE(same(a[1], b[1]));
}

TEST(Regions, OnlySomeGradientsCome) {
  auto f = [](const Tensors& t) -> Tensors { return {at::tanh(t[0]), at::exp(t[1])}; };
  const Tensor x = leaf({5}), y = leaf({5});
  auto compiled = proven(f, {x, y});
  const Tensors results = compiled(Tensors{x, y});
  const Tensors gradients = grad({results[0]}, {x, y}, {at::ones({5})}, std::nullopt, false, true);
  const Tensor expected = grad({at::tanh(x)}, {x}, {at::ones({5})})[0];
  EXPECT_TRUE(same(gradients[0], expected));
  EXPECT_FALSE(gradients[1].defined());
}

TEST(Regions, GradientsOfOtherLayouts) {
  auto f = [](const Tensors& t) -> Tensors { return {at::tanh(t[0])}; };
  const Tensor x = leaf({6, 4});
  auto compiled = proven(f, {x});
  for (const Tensor& incoming : {at::ones({1}).expand({6, 4}), at::randn({4, 6}).t()}) {
    const Tensor ours = grad({compiled(Tensors{x})[0]}, {x}, {incoming})[0],
                 theirs = grad({f({x})[0]}, {x}, {incoming})[0];
    EXPECT_TRUE(at::equal(ours, theirs));
  }
}

TEST(Regions, LearnWhichGradientsComeAndHow) {
  auto f = [](const Tensors& t) -> Tensors { return {at::tanh(t[0]), at::exp(t[0]) * t[1]}; };
  const Tensor x = leaf({6, 4}), w = leaf({6, 4});
  auto compiled = proven(f, {x, w});
  const Tensor incoming = at::randn({4, 6}).t();
  auto gradients = [&](auto&& g) {
    return grad({g(Tensors{x, w})[0]}, {x, w}, {incoming}, std::nullopt, false, true);
  };
  for (int call = 0; call < 8; ++call) {
    const Tensors ours = gradients(compiled), theirs = gradients(f);
    EXPECT_TRUE(same(ours[0], theirs[0])) << "layout and bits, call " << call;
    EXPECT_FALSE(ours[1].defined());
  }
  EXPECT_EQ(compiled.report().records, 2) << compiled.explain();
  EXPECT_EQ(compiled.report().verdict, Verdict::Faster);
  // And what it was not recorded for still comes right.
  const Tensors both = compiled(Tensors{x, w}), theirs = f({x, w});
  const Tensors a = grad({both[0], both[1]}, {x, w}, {incoming, incoming}),
                b = grad({theirs[0], theirs[1]}, {x, w}, {incoming, incoming});
  EXPECT_TRUE(same(a[0].contiguous(), b[0].contiguous()));
  EXPECT_TRUE(same(a[1].contiguous(), b[1].contiguous()));
}

TEST(Regions, ExpandedGradientsNeedNoOtherPlan) {
  auto f = [](const Tensors& t) -> Tensors { return {at::tanh(t[0])}; };
  const Tensor x = leaf({6, 4});
  auto compiled = proven(f, {x});
  for (int call = 0; call < 12; ++call) {
    const Tensor incoming = call % 2 == 0 ? at::ones({1}).expand({6, 4}) : at::randn({6, 4});
    const Tensor ours = grad({compiled(Tensors{x})[0]}, {x}, {incoming})[0],
                 theirs = grad({f({x})[0]}, {x}, {incoming})[0];
    EXPECT_TRUE(at::equal(ours, theirs));
  }
  EXPECT_EQ(compiled.report().records, 1);
}

TEST(Regions, OtherResultsThatAreViews) {
  // The base of the second is a result of the plan, too, which comes before what is kept.
  const Tensor table = at::randn({8, 5});
  auto f = [table](const Tensors& t) -> Tensors {
    auto [pooled, places] = at::max_pool2d_with_indices(t[0], {4, 4}, {2, 2}, {1, 1});
    return {pooled, at::index_select(table, 1, t[1]).unsqueeze(-1)};
  };
  const Tensor places = at::tensor({3, 1}, at::kLong);
  auto compiled = proven(f, {leaf({1, 8, 5}), places});
  const Tensor x = leaf({1, 8, 5});
  const Tensors ours = compiled(Tensors{x, places}), theirs = f({x, places});
  const Tensor g = at::randn(ours[0].sizes());
  const Tensor a = grad({ours[0]}, {x}, {g})[0], b = grad({theirs[0]}, {x}, {g})[0];
  EXPECT_TRUE(same(a, b));
  EXPECT_TRUE(ours[1].is_view());
}

TEST(Regions, TheGraphAboveIsOnlyPassedOnce) {
  // h is computed from u, which the region reads as well; only one result gets a gradient, so that
  // the function runs again.
  auto f = [](const Tensors& t) -> Tensors {
    const Tensor n = at::tanh(t[0] * t[1]);
    return {n * 2, n};
  };
  const Tensor u = leaf({6});
  auto compiled = proven(f, {u + 3, u});
  int hooks = 0;
  auto gradient = [&](auto&& g, bool create_graph) {
    const Tensor h = at::tanh(u * 3);
    h.register_hook([&hooks](const Tensor& incoming) {
      ++hooks;
      return incoming * 2;
    });
    const Tensor first =
        grad({g(Tensors{h, u})[1]}, {u}, {at::ones({6})}, create_graph, create_graph)[0];
    return create_graph ? grad({first.pow(2).sum()}, {u})[0] : first;
  };
  for (bool create_graph : {false, true}) {
    const Tensor ours = gradient(compiled, create_graph);
    const int once = std::exchange(hooks, 0);
    EXPECT_TRUE(at::allclose(ours, gradient(f, create_graph), 1e-5, 1e-6)) << create_graph;
    EXPECT_EQ(std::exchange(hooks, 0), once);
  }
}

TEST(Regions, NormsBeyondTheTolerance) {
  // The proof asks for the rounding of sums: forward and backward have their own plans for that.
  auto f = [](const Tensors& t) -> Tensors {
    return {at::log_softmax(at::softmax(t[1] + at::zeros({6, 8}), -1), 0) * 1., t[0] * 1.};
  };
  auto compiled = compile(f, at_once());
  for (int call = 0; call < 5; ++call) {
    const Tensor x = leaf({6, 8}), r = leaf({8});
    const Tensors y = compiled(Tensors{x, r});
    EXPECT_TRUE(grad({y[0].sum(), y[1].sum()}, {x, r})[0].defined());
  }
}

TEST(Regions, GraphsThatAreKeptOrGone) {
  auto f = [](const Tensors& t) -> Tensors { return {at::tanh(t[0])}; };
  const Tensor x = leaf({6});
  auto compiled = proven(f, {x});
  const Tensor y = compiled(Tensors{x})[0], g = at::ones({6});
  const Tensor first = grad({y}, {x}, {g}, true)[0], second = grad({y}, {x}, {g})[0];
  EXPECT_TRUE(same(first, second));
  try {
    grad({y}, {x}, {g});
    FAIL() << "a third backward went through";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("second time"), std::string::npos) << error.what();
  }
}

TEST(Regions, BackwardOfBackward) {
  auto f = [](const Tensors& t) -> Tensors { return {at::tanh(t[0]) * t[1]}; };
  const Tensor x = leaf({6}), w = leaf({6});
  auto compiled = proven(f, {x * 1, w});
  auto second = [&](auto&& g) {
    const Tensor inner = x * 3;
    const Tensor first =
        grad({g(Tensors{inner, w})[0]}, {x}, {at::ones({6})}, true, /*create_graph=*/true)[0];
    return grad({first.pow(2).sum()}, {x, w});
  };
  const Tensors a = second(compiled), b = second(f);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same(a[i], b[i]));
}

TEST(Regions, ChangesBetweenForwardAndBackward) {
  auto f = [](const Tensors& t) -> Tensors { return {at::silu(t[0])}; };
  const Tensor x = leaf({6});
  auto compiled = proven(f, {x});
  for (bool ours : {true, false}) {
    const Tensor y = (ours ? compiled(Tensors{x}) : f({x}))[0];
    {
      at::NoGradGuard no_grad;
      x.add_(1);
    }
    try {
      grad({y}, {x}, {at::ones({6})});
      FAIL() << "the gradient of what x was went through, ours: " << ours;
    } catch (const c10::Error& error) {
      EXPECT_NE(std::string(error.what()).find("modified by an inplace operation"),
                std::string::npos)
          << error.what();
    }
  }
}

/// What writes through data(), as SGD's step does, counts no version. Where the backward computes
/// of it again what eager kept, that is found; where eager uses it as it is now, so does Graft.
TEST(Regions, LeavesChangedThroughDataInBetween) {
  auto again = [](const Tensor& w) { return (w.relu() + 0.5).square(); };
  auto as_it_is = [](const Tensor& w) { return w * w; };
  auto first = compile(again, at_once());
  auto second = compile(as_it_is, at_once());
  for (int call = 0; call < 4; ++call) {
    const Tensor ours = at::ones({64}).requires_grad_(), theirs = at::ones({64}).requires_grad_();
    const Tensor a = second(ours), b = as_it_is(theirs), c = first(ours);
    for (const Tensor& w : {ours, theirs}) w.variable_data().mul_(0.5);
    a.sum().backward(), b.sum().backward();
    EXPECT_TRUE(same(ours.grad(), theirs.grad()));
    if (call > 1) {
      EXPECT_THROW(c.sum().backward(), c10::Error);
    }
  }
  EXPECT_TRUE(was_compiled(first.report())) << first.explain();
}

/// Gradients that are views of what came belong to their leaves alone.
TEST(Regions, GradientsThatAreViewsOfWhatCame) {
  auto f = [](const Tensor& x, const Tensor& b) { return x + b.unsqueeze(0); };
  auto compiled = compile(f, at_once());
  for (int call = 0; call < 4; ++call) {
    const Tensor x = at::ones({1, 5}).requires_grad_(), b = at::ones({5}).requires_grad_();
    for (int twice = 0; twice < 2; ++twice) compiled(x, b).backward(at::ones({1, 5}));
    x.mutable_grad().mul_(10);
    EXPECT_TRUE(same(x.grad(), at::full({1, 5}, 20.0)));
    EXPECT_TRUE(same(b.grad(), at::full({5}, 2.0)));
  }
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
}

TEST(Regions, ResultsChangedInPlace) {
  auto f = [](const Tensors& t) -> Tensors { return {t[0] * 3}; };
  const Tensor x = leaf({6});
  auto compiled = proven(f, {x});
  Tensor y = compiled(Tensors{x})[0];
  y.mul_(2);
  const Tensor gradient = grad({y}, {x}, {at::ones({6})})[0];
  EXPECT_TRUE(same(gradient, at::full({6}, 6.0f)));
  // tanh's backward needs the result as it was.
  auto g = [](const Tensors& t) -> Tensors { return {at::tanh(t[0])}; };
  auto other = proven(g, {x});
  Tensor z = other(Tensors{x})[0];
  z.add_(1);
  EXPECT_ANY_THROW({ grad(Tensors{z}, Tensors{x}, Tensors{at::ones({6})}); });
}

TEST(Regions, NoGradAndDetachInside) {
  auto f = [](const Tensors& t) -> Tensors {
    Tensor mask;
    {
      at::NoGradGuard no_grad;
      mask = at::sigmoid(t[0]) > 0.5;
    }
    return {t[0] * mask + (t[1] * 2).detach() * t[0]};
  };
  auto compiled = proven(f, {leaf({9}), leaf({9})});
  const Tensor x = leaf({9}), w = leaf({9});
  for (auto which : {0, 1}) {
    const Tensor y = which ? f({x, w})[0] : compiled(Tensors{x, w})[0];
    const Tensors g = grad({y}, {x, w}, {at::ones({9})}, std::nullopt, false, true);
    EXPECT_FALSE(g[1].defined());
    EXPECT_TRUE(same(g[0], ((at::sigmoid(x) > 0.5).to(at::kFloat) + w * 2).detach()));
  }
}

TEST(Regions, HooksOnResultsArgumentsAndLeaves) {
  const Tensor w = leaf({6});
  auto f = [w](const Tensors& t) -> Tensors { return {at::tanh(t[0]) * w}; };
  int calls = 0;
  auto hook = [&](const Tensor& gradient) {
    ++calls;
    return gradient * 2;
  };
  auto inner_of = [&](const Tensor& x) {
    Tensor inner = x * 2;
    inner.register_hook(hook);
    return inner;
  };
  const Tensor x = leaf({6});
  auto compiled = proven(f, {inner_of(x)});
  compiled(Tensors{inner_of(x)});  // compared once more, as another tensor
  EXPECT_EQ(calls, 0) << "the proof calls no hook of the user's";
  w.register_hook(hook);
  const Tensor y = compiled(Tensors{inner_of(x)})[0];
  ASSERT_EQ(y.grad_fn()->name(), kNode);
  y.register_hook(hook);
  y.sum().backward();
  EXPECT_EQ(calls, 3);
  const Tensor t = at::tanh(x * 2).detach();
  EXPECT_TRUE(at::allclose(w.grad(), 4 * t, 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(x.grad(), (8 * (1 - t * t) * w).detach(), 1e-4, 1e-5));
}

/// A user's function whose backward is not pure, as of a loss that computes its gradient forward.
struct ScalesWhatItSaved : torch::autograd::Function<ScalesWhatItSaved> {
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x) {
    ctx->saved_data["gradient"] = at::cos(x);
    return at::sin(x);
  }
  static Tensors backward(torch::autograd::AutogradContext* ctx, const Tensors& came) {
    return {ctx->saved_data["gradient"].toTensor().mul_(came[0])};
  }
};

TEST(Regions, UsersFunctionsRunWhenAutogradCallsThem) {
  const auto f = [](const Tensor& x) { return ScalesWhatItSaved::apply(x * 2) + 1; };
  auto compiled = compile(f, at_once());
  for (int call = 0; call < 30; ++call) {
    Tensor a = leaf({8}), b = a.detach().clone().requires_grad_();
    compiled(a).sum().backward();
    f(b).sum().backward();
    ASSERT_TRUE(same(a.grad(), b.grad())) << call;
  }
  EXPECT_EQ(compiled.report().verdict, Verdict::Break);
  EXPECT_NE(compiled.report().reason.find("torch::autograd::Function"), std::string::npos)
      << compiled.report();
}

TEST(Regions, SparseGradientsCome) {
  const auto f = [](const Tensor& w) { return w * 2; };
  auto compiled = compile(f, at_once());
  const Tensor places = at::tensor({2, 0, 2, 5}, at::kLong);
  for (int call = 0; call < 12; ++call) {
    Tensor a = leaf({7, 3}), b = a.detach().clone().requires_grad_();
    at::embedding(compiled(a), places, -1, false, /*sparse=*/true).sum().backward();
    at::embedding(f(b), places, -1, false, /*sparse=*/true).sum().backward();
    ASSERT_EQ(a.grad().layout(), b.grad().layout()) << call;
    ASSERT_TRUE(at::allclose(a.grad().to_dense(), b.grad().to_dense())) << call;
  }
  EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.report();
}

TEST(Regions, StayEagerWhereTheyMust) {
  auto expect_break = [](auto f, const Tensor& x, const char* why) {
    auto compiled = compile(f, at_once());
    for (int i = 0; i < 3; ++i) compiled(x * 1);
    EXPECT_EQ(compiled.report().verdict, Verdict::Break);
    EXPECT_NE(compiled.report().reason.find(why), std::string::npos) << compiled.report();
  };
  const Tensor x = leaf({4});
  expect_break([](const Tensor& t) { return at::tanh(t).add_(t.mul_(2)); }, x, "changed in place");
  expect_break([](const Tensor& t) { return t.view({2, 2}); }, x, "shares memory with an argument");
  expect_break(
      [](const Tensor& t) {
        Tensor h = at::tanh(t);
        h.register_hook([](const Tensor& gradient) { return gradient * 2; });
        return h * 2;
      },
      x, "hooks");
  const Tensor outer = x * 2;
  expect_break([outer](const Tensor& t) { return t * outer; }, x, "pass it as an argument");
  torch::autograd::AnomalyMode::set_enabled(true);
  expect_break([](const Tensor& t) { return t * 2; }, x, "anomaly mode");
  torch::autograd::AnomalyMode::set_enabled(false);
}

TEST(Regions, MatmulsAreKeptAndCheapStepsAreNot) {
  auto f = [](const Tensors& t) -> Tensors {
    const Tensor h = at::mm(t[0], t[1]) * 2;
    return {(h * h * (h + 1)).sum(1)};
  };
  auto compiled = proven(f, {leaf({32, 64}), leaf({64, 128})});
  EXPECT_EQ(compiled.report().kept_bytes, 32 * 128 * 4) << compiled.explain();
  EXPECT_GT(compiled.report().backward_kernels, 0);
}

TEST(Regions, BuffersThatTheForwardChanges) {
  const Tensor ours = at::zeros({8}), theirs = at::zeros({8});
  auto with = [](const Tensor& mean) {
    return [mean](const Tensors& t) -> Tensors {
      mean.mul_(0.9).add_(t[0].detach().mean(0), 0.1);
      return {at::tanh(t[0] * 2)};
    };
  };
  auto compiled = compile(with(ours), at_once());
  auto eager = with(theirs);
  for (int call = 0; call < 5; ++call) {
    const Tensor x = leaf({4, 8}), g = at::randn({4, 8});
    const Tensor a = grad({compiled(Tensors{x})[0]}, {x}, {g})[0],
                 b = grad({eager(Tensors{x})[0]}, {x}, {g})[0];
    EXPECT_TRUE(same(a, b)) << call;
    EXPECT_TRUE(at::allclose(ours, theirs)) << call;
    EXPECT_GT(ours._version(), static_cast<uint32_t>(call)) << "eager raises it, too";
  }
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
}

TEST(Regions, InAStepThatIsCompiledWhole) {
  auto region =
      compile([](const Tensor& x, const Tensor& w) { return at::tanh(x * w); }, at_once());
  auto step = [region](const Tensor& x, const Tensor& w) {
    region(x, w).pow(2).sum().backward();
    at::NoGradGuard no_grad;
    w.sub_(w.grad() * 0.1);
    w.mutable_grad() = Tensor();
  };
  auto compiled = compile(step, at_once());
  const Tensor ours = leaf({16}), theirs = ours.detach().clone().requires_grad_();
  for (int call = 0; call < 6; ++call) {
    const Tensor x = at::randn({16});
    compiled(x, ours), step(x, theirs);
    EXPECT_TRUE(at::allclose(ours, theirs, 1e-5, 1e-6)) << call;
  }
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.explain();
}

TEST(Regions, ThreadsAtOnce) {
  auto f = [](const Tensors& t) -> Tensors { return {at::silu(t[0]) * t[1]}; };
  auto compiled = proven(f, {leaf({64}), leaf({64})});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const Tensor x = leaf({64}), w = leaf({64}), g = at::randn({64});
        const Tensors a = grad({compiled(Tensors{x, w})[0]}, {x, w}, {g}),
                      b = grad({f({x, w})[0]}, {x, w}, {g});
        wrong += !same(a[0], b[0]) || !same(a[1], b[1]);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(Regions, WhatIsKeptGoesWithTheGraph) {
  auto f = [](const Tensors& t) -> Tensors { return {at::tanh(at::mm(t[0], t[1])) * 2}; };
  const Tensor x = leaf({16, 16}), w = leaf({16, 16});
  auto compiled = proven(f, {x, w});
  c10::weak_intrusive_ptr<c10::TensorImpl> seen((x * 1).getIntrusivePtr());
  {
    const Tensor inner = x * 1;
    seen = c10::weak_intrusive_ptr<c10::TensorImpl>(inner.getIntrusivePtr());
    compiled(Tensors{inner, w})[0].sum().backward();
  }
  EXPECT_TRUE(seen.expired());
}

}  // namespace
}  // namespace graft::test
