// Results stand to other tensors as eager's do: views of the same bases, the same version counters,
// inference tensors where eager's are.
#include "runtime/beside_eager.h"

namespace graft::test {
namespace {

const std::vector<SideProgram>& programs() {
  static const std::vector<SideProgram> all{
      {"fresh", [](Tensors& a) { return Tensors{a[0] * a[1]}; }},
      {"two fresh", [](Tensors& a) { return Tensors{a[0] * a[1], a[0] + a[1]}; }},
      {"argument", [](Tensors& a) { return Tensors{a[0], a[0] * a[1]}; }},
      {"view of argument", [](Tensors& a) { return Tensors{a[0].t(), a[0] * a[1]}; }},
      {"slices of argument",
       [](Tensors& a) { return Tensors{a[0][0], a[0].narrow(1, 1, 2), a[0] + a[1]}; }},
      {"unbind of argument",
       [](Tensors& a) {
         at::Tensor &x = a[0], &w = a[1];
         auto parts = x.unbind(0);
         parts.push_back(x + w);
         return parts;
       }},
      {"fresh and its view",
       [](Tensors& a) {
         at::Tensor &x = a[0], &w = a[1];
         auto y = x * w;
         return Tensors{y, y.t()};
       }},
      {"the view first",
       [](Tensors& a) {
         at::Tensor &x = a[0], &w = a[1];
         auto y = x * w;
         return Tensors{y.t(), y[1], y};
       }},
      {"only a view", [](Tensors& a) { return Tensors{(a[0] * a[1]).t()}; }},
      {"view of view",
       [](Tensors& a) {
         at::Tensor &x = a[0], &w = a[1];
         auto y = (x * w).t();
         return Tensors{y[0], y, y.view_as(y)};
       }},
      {"unbind", [](Tensors& a) { return (a[0] * a[1]).unbind(1); }},
      {"chunk", [](Tensors& a) { return (a[0] * a[1]).chunk(2, 1); }},
      {"split and base",
       [](Tensors& a) {
         at::Tensor &x = a[0], &w = a[1];
         auto y = x * w;
         auto parts = y.split(1);
         parts.push_back(y);
         return parts;
       }},
      {"select",
       [](Tensors& a) {
         at::Tensor &x = a[0], &w = a[1];
         auto y = x * w;
         return Tensors{y.select(0, 1), y.select(1, 0)};
       }},
      {"detached",
       [](Tensors& a) {
         at::Tensor &x = a[0], &w = a[1];
         auto y = x * w;
         return Tensors{y, y.detach(), x.detach()};
       }},
      {"detached, hidden base",
       [](Tensors& a) {
         at::Tensor &x = a[0], &w = a[1];
         auto y = x * w;
         return Tensors{y.t(), y.detach(), y.detach().t()};
       }},
      {"view of a detached argument",
       [](Tensors& a) { return Tensors{a[0].detach().t(), a[0] + a[1]}; }},
      {"data",
       [](Tensors& a) {
         at::Tensor &x = a[0], &w = a[1];
         auto y = x * w;
         return Tensors{y, y.variable_data(), y.tensor_data()};
       }},
      {"as integers",
       [](Tensors& a) {
         at::Tensor &x = a[0], &w = a[1];
         auto y = x * w;
         return Tensors{y.view(at::kInt), x.view(at::kInt), y};
       }},
      {"expand",
       [](Tensors& a) {
         at::Tensor &x = a[0], &w = a[1];
         auto y = (x * w).sum();
         return Tensors{y.expand({3}), y};
       }},
      {"twice",
       [](Tensors& a) {
         at::Tensor &x = a[0], &w = a[1];
         auto y = (x * w).t();
         return Tensors{y, y, x, x};
       }},
      {"in place",
       [](Tensors& a) {
         at::Tensor &x = a[0], &w = a[1];
         auto y = x * w;
         y.t().add_(1);
         return Tensors{y.t(), y};
       }},
      {"matrix product",
       [](Tensors& a) {
         at::Tensor &x = a[0], &w = a[1];
         auto y = at::mm(x, w.t()) + 1;
         return Tensors{y[0], at::mm(x, w.t()).t(), y};
       }},
      {"no grad inside",
       [](Tensors& a) {
         at::Tensor &x = a[0], &w = a[1];
         at::NoGradGuard no_grad;
         auto y = x * w;
         return Tensors{y.t(), y, x.t()};
       }},
      {"inference inside",
       [](Tensors& a) {
         at::Tensor &x = a[0], &w = a[1];
         c10::InferenceMode guard;
         auto y = x * w;
         return Tensors{y, y.t(), x.t(), x, x.detach()};
       }},
      {"normal inside inference",
       [](Tensors& a) {
         at::Tensor &x = a[0], &w = a[1];
         c10::InferenceMode inference;
         auto z = x + w;
         c10::InferenceMode normal(false);
         at::NoGradGuard no_grad;
         auto y = x * w;
         return Tensors{y, y.t(), x.t(), z, z.t()};
       }},
      {"undefined", [](Tensors& a) { return Tensors{at::Tensor(), (a[0] * a[1]).t()}; }},
  };
  return all;
}

const std::vector<SideArguments>& arguments() {
  static const std::vector<SideArguments> all{
      {"plain arguments", [] { return Tensors{at::rand({4, 4}), at::rand({4, 4})}; }},
      {"a view", [] { return Tensors{at::rand({5, 4}).narrow(0, 1, 4), at::rand({4, 4})}; }},
      {"inference tensors",
       [] {
         c10::InferenceMode made;
         return Tensors{at::rand({4, 4}), at::rand({4, 4})};
       }},
  };
  return all;
}

TEST(Lineage, ResultsStandAsEagers) {
  for (const SideMode& mode : side_modes())
    for (const SideArguments& made : arguments())
      for (const SideProgram& program : programs()) expect_beside_eager(program, made, mode);
}

TEST(Lineage, GradientsFlowThroughSiblingsAsInEager) {
  auto pair = [](const at::Tensor& x) {
    auto y = x * 2 + 1;
    return Tensors{y, y.t()};
  };
  auto parts = [](const at::Tensor& x) { return (x * 2 + 1).view({3, 3}).chunk(3); };
  auto f = compile(pair, at_once());
  auto g = compile(parts, at_once());
  for (int i = 0; i < 4; ++i) {
    at::Tensor x = at::rand({3, 3});
    at::Tensor w1 = at::rand({3, 3}).requires_grad_(), w2 = w1.detach().clone().requires_grad_();
    // An in-place product with a parameter, through the one, seen in the other.
    auto ours = f(x), theirs = pair(x);
    ours[1].mul_(w1), theirs[1].mul_(w2);
    EXPECT_EQ(ours[0].requires_grad(), theirs[0].requires_grad());
    ours[0].sum().backward(), theirs[0].sum().backward();
    EXPECT_TRUE(same(w1.grad(), w2.grad())) << i;
    // requires_grad_() of the base is its view's as well.
    ours = f(x), theirs = pair(x);
    ours[0].requires_grad_(), theirs[0].requires_grad_();
    EXPECT_EQ(ours[1].requires_grad(), theirs[1].requires_grad());
    // A view of several may not be changed in place where that needs a gradient.
    ours = g(x), theirs = parts(x);
    auto changes = [&](Tensors& all) -> std::string {
      try {
        all[0].mul_(w1[0]);
        return "changed";
      } catch (const c10::Error& error) {
        return error.what_without_backtrace();
      }
    };
    EXPECT_EQ(changes(ours), changes(theirs)) << i;
  }
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
  EXPECT_EQ(g.report().verdict, Verdict::Faster) << g.report();
}

TEST(Lineage, AViewOfAnotherArgumentHasThatOnesBase) {
  auto f = compile([](const at::Tensor& x) { return std::pair(x.t(), x * 2); }, at_once());
  at::Tensor plain = at::rand({3, 3}), base = at::rand({4, 3});
  for (int i = 0; i < 3; ++i) f(plain);
  at::Tensor view = base.narrow(0, 1, 3);
  EXPECT_TRUE(at::Tensor(f(view).first._base()).is_same(base));
  EXPECT_TRUE(at::Tensor(f(plain).first._base()).is_same(plain));
  EXPECT_EQ(f.report().verdict, Verdict::Faster) << f.report();
  EXPECT_EQ(f.report().plans, 1);
}

TEST(Lineage, AnInferenceResultStaysOutOfAutograd) {
  auto f = compile(
      [](const at::Tensor& x) {
        c10::InferenceMode guard;
        return x * 2;
      },
      at_once());
  for (int i = 0; i < 4; ++i) {
    at::Tensor r = f(at::rand({4}));
    EXPECT_TRUE(r.is_inference());
    EXPECT_ANY_THROW(r.add_(1)) << i;
    EXPECT_ANY_THROW(r.requires_grad_()) << i;
  }
}

}  // namespace
}  // namespace graft::test
