// graft::Number: numbers that are others at each call, and need no other plan.
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

using at::Tensor;

/// What the function gives of x and the numbers.
using Body = std::function<Tensors(const Tensor& x, const Number& a, const Number& b)>;

/// Calls with numbers that change; one record, every result eager's bits. Gives the report.
Report expect_eager(const Body& body, at::ScalarType dtype = at::kFloat) {
  auto compiled = compile(body, at_once());
  for (int call = 0; call < 8; ++call) {
    at::manual_seed(static_cast<uint64_t>(call));
    const Tensor x = at::randn({5, 67}, at::kDouble).to(dtype), given = x.clone();
    const Number a = 0.3 + 0.1 * call, b = call == 5 ? 1.0 : 1.0 / (1 + call);
    const Tensors expected = body(x, a, b), came = compiled(given, a, b);
    EXPECT_EQ(expected.size(), came.size());
    for (size_t k = 0; k < came.size(); ++k)
      EXPECT_EQ(difference(expected[k], came[k]), "") << "call " << call << ", result " << k;
    EXPECT_EQ(difference(x, given), "") << "call " << call;
  }
  const Report report = compiled.report();
  EXPECT_EQ(report.records, 1) << report;
  EXPECT_TRUE(was_compiled(report)) << report;
  EXPECT_TRUE(report.bitwise) << report;
  return report;
}

bool has_extern(const Report& report) {
  return std::any_of(report.operators.begin(), report.operators.end(),
                     [](const OperatorReport& row) { return row.fate == "extern"; });
}

TEST(ChangingNumbers, AreOperands) {
  for (at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    SCOPED_TRACE(c10::toString(dtype));
    const Report report = expect_eager(
        [](const Tensor& x, const Number& a, const Number& b) {
          return Tensors{x * a, x / b, x + a, a - x, x.mul(b).add(a), at::gt(x, a), x.eq(b)};
        },
        dtype);
    EXPECT_FALSE(has_extern(report)) << report;
  }
}

TEST(ChangingNumbers, OfIntegerTensorsGiveFloatingOnes) {
  EXPECT_FALSE(has_extern(expect_eager(
      [](const Tensor& x, const Number& a, const Number&) { return Tensors{x * a, x + a, x / a}; },
      at::kInt)));
}

TEST(ChangingNumbers, AreOtherScalars) {
  const Report report = expect_eager([](const Tensor& x, const Number& a, const Number& b) {
    const Tensor y = x * x;
    return Tensors{at::add(x, y, a),        at::add(x, y, -b),    at::addcmul(x, y, x, a),
                   at::addcdiv(x, y, x, b), at::leaky_relu(x, a), at::lerp(x, y, 0.25)};
  });
  EXPECT_FALSE(has_extern(report)) << report;
}

TEST(ChangingNumbers, ReachOperatorsThatRunAsCalls) {
  const Report report = expect_eager([](const Tensor& x, const Number& a, const Number& b) {
    return Tensors{at::pow(x.abs(), a), at::clamp(x, -1, b), at::addmm(x, x.mm(x.t()), x, b, a),
                   at::celu(x, a), at::softshrink(x, a)};
  });
  EXPECT_TRUE(has_extern(report)) << report;
}

TEST(ChangingNumbers, OtherRoutinesOfMatmulsHaveNone) {
  Options options = at_once();
  options.mode = Mode::MaxAutotune;
  const Tensor w = at::randn({64, 96}), bias = at::randn({96});
  auto body = [&](const Tensor& x, const Number& a) { return at::addmm(bias, x, w, 1, a).relu(); };
  auto f = compile(body, options);
  for (int call = 0; call < 6; ++call) {
    const Tensor x = at::randn({32, 64});
    const Number a = call < 4 ? 1.0 : 2.5;  // 1 while it is proven
    EXPECT_TRUE(at::allclose(f(x, a), body(x, a), 1e-5, 1e-5)) << call;
  }
  EXPECT_EQ(f.report().records, 1) << f.report();
}

TEST(ChangingNumbers, InPlace) {
  const Report report = expect_eager([](const Tensor& x, const Number& a, const Number& b) {
    x.mul_(a).add_(x.tanh(), -b).div_(1 + a).fmod_(1.0);
    x.select(0, 1).fill_(a);
    return Tensors{};
  });
  EXPECT_FALSE(has_extern(report)) << report;
}

TEST(ChangingNumbers, Arithmetic) {
  expect_eager([](const Tensor& x, const Number& a, const Number& b) {
    const Number c = -a / (1 - pow(0.9, b)) + 2 * sqrt(b) - b / 3 + a * b - 1 / a;
    EXPECT_EQ(at::full({3}, a).sizes(), 3);
    const Number d = pow(a, b) + pow(a, 2) + min(a, b) * max(a, 0.5) - (a + 1) + (1 + b) - (a - b);
    return Tensors{x * c, x + d, c.tensor()};
  });
}

TEST(ChangingNumbers, AreTheSameAsDoublesOutsideOfFunctions) {
  const Number a = 0.7, b = 3;
  EXPECT_EQ((-a / (1 - pow(0.9, b))).value(), -0.7 / (1 - std::pow(0.9, 3.0)));
  EXPECT_EQ(sqrt(a + 1).value(), std::sqrt(1.7));
  EXPECT_EQ((2 / b).value(), 2.0 / 3);
  EXPECT_EQ((a - 2).value(), 0.7 - 2);
  EXPECT_EQ(min(a, b).value(), 0.7);
  const Tensor x = at::ones({2});
  EXPECT_TRUE(same(x * a, x * 0.7));
  EXPECT_TRUE(same(a * x, x * 0.7));
}

TEST(ChangingNumbers, AreResults) {
  auto f = compile(
      [](const Tensor& x, const Number& a) { return std::make_pair(x * a, a * 2 + 1); }, at_once());
  for (int call = 0; call < 5; ++call) {
    const auto [y, next] = f(at::ones({8}), Number(call));
    EXPECT_EQ(next.value(), call * 2 + 1);
    EXPECT_TRUE(same(y, at::full({8}, 1.0 * call)));
  }
  EXPECT_EQ(f.report().records, 1) << f.report();
}

TEST(ChangingNumbers, InContainers) {
  using Rates = std::vector<Number>;
  auto f = compile(
      [](const Tensors& x, const Rates& rates) {
        Tensors out;
        for (size_t k = 0; k < x.size(); ++k) out.push_back(x[k] * rates[k]);
        return out;
      },
      at_once());
  for (int call = 0; call < 5; ++call) {
    const Tensors came = f(Tensors{at::ones({3}), at::ones({4})}, Rates{0.5 + call, 2.0 * call});
    EXPECT_TRUE(same(came[0], at::full({3}, 0.5 + call)));
    EXPECT_TRUE(same(came[1], at::full({4}, 2.0 * call)));
  }
  EXPECT_EQ(f.report().records, 1) << f.report();
}

TEST(ChangingNumbers, ReadingOneIsABreak) {
  for (const std::function<Tensor(const Tensor&, const Number&)>&body :
       std::vector<std::function<Tensor(const Tensor&, const Number&)>>{
           [](const Tensor& x, const Number& a) { return a.value() > 1 ? x + 1 : x - 1; },
           [](const Tensor& x, const Number& a) {
             return c10::Scalar(a).toDouble() > 1 ? x + 1 : x - 1;
           },
           [](const Tensor& x, const Number& a) {
             return at::full({}, a).item<double>() > 1 ? x + 1 : x - 1;
           }}) {
    auto f = compile(body, at_once());
    for (int call = 0; call < 5; ++call)
      EXPECT_TRUE(same(f(at::ones({4}), Number(call)), at::full({4}, call > 1 ? 2.0 : 0.0)));
    EXPECT_EQ(f.report().verdict, Verdict::Break) << f.report();
    EXPECT_FALSE(f.report().reason.empty());
  }
}

TEST(ChangingNumbers, WhereATenNegatesANumberItsErrorSaysWhatToDo) {
  auto f = compile([](const Tensor& x, const Number& a) { return x.sub(x, a); }, at_once());
  try {
    f(at::ones({4}), Number(1));
    FAIL() << "ATen can negate it now: let the documentation say so";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("add(y, -a)"), std::string::npos) << error.what();
  }
}

TEST(ChangingNumbers, InRegions) {
  auto body = [](const Tensor& x, const Number& scale) {
    return (x.tanh() * scale).sum(0) / scale;
  };
  auto f = compile(body, at_once());
  for (int call = 0; call < 8; ++call) {
    at::manual_seed(static_cast<uint64_t>(call));
    const Tensor x = at::randn({9, 33}).requires_grad_(), y = x.detach().clone().requires_grad_();
    const Number scale = 2 + call;
    const Tensor a = body(x, scale), b = f(y, scale), g = at::randn({33});
    EXPECT_TRUE(at::allclose(a, b, 1e-5, 1e-6));
    const Tensor dx = torch::autograd::grad({a}, {x}, {g})[0],
                 dy = torch::autograd::grad({b}, {y}, {g})[0];
    EXPECT_TRUE(at::allclose(dx, dy, 1e-5, 1e-6)) << call;
  }
  EXPECT_EQ(f.report().records, 1) << f.report();
  EXPECT_TRUE(was_compiled(f.report())) << f.report();
}

/// AdamW and Lion as users write them, with numbers for what changes.
void adam(const Tensors& p, const Tensors& g, const Tensors& m, const Tensors& v,
          const Number& rate, const Number& count) {
  const double beta1 = 0.9, beta2 = 0.95;
  const Number first = 1 - pow(beta1, count), second = sqrt(1 - pow(beta2, count));
  for (size_t k = 0; k < p.size(); ++k) {
    p[k].mul_(1 - rate * 0.1);
    m[k].mul_(beta1).add_(g[k], 1 - beta1);
    v[k].mul_(beta2).addcmul_(g[k], g[k], 1 - beta2);
    p[k].addcdiv_(m[k], (v[k].sqrt() / second).add_(1e-8), -rate / first);
  }
}
void lion(const Tensors& p, const Tensors& g, const Tensors& m, const Tensors&, const Number& rate,
          const Number&) {
  at::_foreach_mul_(p, 1 - rate * 0.1);
  Tensors update = at::_foreach_mul(m, 0.9);
  at::_foreach_add_(update, g, 0.1);
  update = at::_foreach_sign(update);
  at::_foreach_add_(p, update, -rate);
  at::_foreach_mul_(m, 0.99);
  at::_foreach_add_(m, g, 0.01);
}

TEST(ChangingNumbers, OptimizersOfOnesOwn) {
  for (auto* step : {adam, lion}) {
    auto compiled = compile(step, at_once());
    Tensors state[2][3];
    for (auto& side : state) {
      at::manual_seed(3);
      for (at::IntArrayRef sizes : std::vector<std::vector<int64_t>>{{7, 33}, {33}, {5}})
        for (size_t k = 0; k < 3; ++k)
          side[k].push_back(k == 0 ? at::randn(sizes) : at::zeros(sizes));
    }
    for (int call = 1; call < 12; ++call) {
      at::manual_seed(static_cast<uint64_t>(call));
      Tensors g;
      for (const Tensor& p : state[0][0]) g.push_back(at::randn_like(p));
      const Number rate = 0.1 / call, count = call;
      step(state[0][0], g, state[0][1], state[0][2], rate, count);
      compiled(state[1][0], g, state[1][1], state[1][2], rate, count);
      for (size_t k = 0; k < 3; ++k)
        for (size_t i = 0; i < 3; ++i)
          ASSERT_EQ(difference(state[0][k][i], state[1][k][i]), "") << call << ": " << k << i;
    }
    const Report report = compiled.report();
    EXPECT_EQ(report.records, 1) << report;
    EXPECT_TRUE(was_compiled(report)) << report;
    EXPECT_TRUE(report.bitwise) << report;
    EXPECT_FALSE(has_extern(report)) << report;
  }
}

TEST(ChangingNumbers, ADoubleThatVariesIsHintedAt) {
  auto f = compile([](const Tensor& x, double a) { return x * a; }, at_once());
  f(at::ones({4}), 1.0), f(at::ones({4}), 1.0);
  EXPECT_EQ(f.report().recorded_again, "");
  f(at::ones({4}), 2.0);
  EXPECT_NE(f.report().recorded_again.find("graft::Number"), std::string::npos) << f.report();
  EXPECT_NE(f.report().text().find("graft::Number"), std::string::npos) << f.report();
}

TEST(ChangingNumbers, OfTensors) {
  EXPECT_EQ(Number::of(at::scalar_tensor(0.5, at::kDouble)).value(), 0.5);
  const Tensor cell = at::scalar_tensor(0.5, at::kDouble);
  const Number taken = Number::of(cell);
  cell.fill_(2);
  EXPECT_EQ(taken.value(), 0.5);
  EXPECT_THROW(Number::of(at::ones({1}, at::kDouble)), Error);
  EXPECT_THROW(Number::of(at::scalar_tensor(0.5f)), Error);
  EXPECT_THROW(Number::of({}), Error);
}

}  // namespace
}  // namespace graft::test
