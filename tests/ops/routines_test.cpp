// Facts about ATen's kernels that the pointwise rows stand on, each tried on the values where it
// shows. When a new torch changes one of them, the test that fails names the row to look at.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/Version.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/builder.h"
#include "support/compare.h"
#include "support/interpreter.h"
#include "support/lowered.h"

namespace graft::test {

namespace {

using at::Tensor;
using ir::Routine;

bool baseline() {
  return at::get_cpu_capability() == "DEFAULT";
}

/// Every BFloat16 (or Half): all 65,536 bit patterns.
Tensor every(at::ScalarType type) {
  return at::arange(65536).to(at::kShort).view(type);
}

/// Values over the whole range of exponents that matter to elementary functions, in a fixed order.
Tensor spread(at::ScalarType type, double low = -12, double high = 12) {
  Tensor at = at::linspace(-1, 1, 20000, at::TensorOptions(at::kDouble));
  return (at * at::pow(10, at::linspace(low, high, 20000, at::TensorOptions(at::kDouble)) / 4))
      .to(type);
}

/// routine(x), evaluated by the interpreter as compiled code would call it.
Tensor evaluate(Routine routine, const Tensor& x) {
  ir::Program program;
  int64_t bytes = x.numel() * static_cast<int64_t>(x.itemsize());
  program.storages = {{ir::Role::Argument, bytes, 0}, {ir::Role::Output, bytes}};
  ir::View in{0, x.scalar_type(), 0, {x.numel()}, {1}}, out = in;
  out.storage = 1;
  ir::StatementBuilder s(in.sizes);
  program.items.emplace_back(s.store(out, ir::call(routine, s.load(in))));
  ir::Result result;
  result.view = out;
  program.signature.results = {result};
  return interpret(program, {x})[0];
}

struct Case {
  const char* name;
  Routine routine;
  Tensor (*eager)(const Tensor&);
  double low = -12, high = 12;  ///< decimal exponents, times 4
};

class RoutineBits : public testing::TestWithParam<Case> {};

TEST_P(RoutineBits, AreEagers) {
  if (baseline() && ir::info(GetParam().routine).form == ir::RoutineForm::Vector)
    GTEST_SKIP() << "libm then";
  for (at::ScalarType type : {at::kFloat, at::kDouble}) {
    Tensor x = spread(type, GetParam().low, GetParam().high);
    EXPECT_EQ(content_difference(GetParam().eager(x), evaluate(GetParam().routine, x)), "")
        << c10::toString(type);
  }
}

// at::f as a plain function pointer.
#define GRAFT_EAGER(f) +[](const Tensor& x) { return at::f(x); }
INSTANTIATE_TEST_SUITE_P(
    Library, RoutineBits,
    testing::Values(Case{"exp", Routine::ArrayExp, GRAFT_EAGER(exp), -12, 8},
                    Case{"log", Routine::ArrayLog, GRAFT_EAGER(log)},
                    Case{"log2", Routine::ArrayLog2, GRAFT_EAGER(log2)},
                    Case{"log10", Routine::ArrayLog10, GRAFT_EAGER(log10)},
                    Case{"sqrt", Routine::ArraySqrt, GRAFT_EAGER(sqrt)},
                    Case{"sin", Routine::ArraySin, GRAFT_EAGER(sin)},
                    Case{"cos", Routine::ArrayCos, GRAFT_EAGER(cos)},
                    Case{"tan", Routine::ArrayTan, GRAFT_EAGER(tan)},
                    Case{"asin", Routine::ArrayAsin, GRAFT_EAGER(asin), -12, 0},
                    Case{"acos", Routine::ArrayAcos, GRAFT_EAGER(acos), -12, 0},
                    Case{"atan", Routine::ArrayAtan, GRAFT_EAGER(atan)},
                    Case{"tanh", Routine::ArrayTanh, GRAFT_EAGER(tanh), -12, 5},
                    Case{"erf", Routine::ArrayErf, GRAFT_EAGER(erf), -12, 3},
                    Case{"erfc", Routine::ArrayErfc, GRAFT_EAGER(erfc), -12, 4},
                    Case{"erfinv", Routine::ArrayErfinv, GRAFT_EAGER(erfinv), -12, 0},
                    Case{"expm1", Routine::VectorExpm1, GRAFT_EAGER(expm1), -12, 8},
                    Case{"exp2", Routine::VectorExp2, GRAFT_EAGER(exp2), -12, 8},
                    Case{"log1p", Routine::VectorLog1p, GRAFT_EAGER(log1p)},
                    Case{"lgamma", Routine::VectorLgamma, GRAFT_EAGER(lgamma)},
                    Case{"sinh", Routine::VectorSinh, GRAFT_EAGER(sinh), -12, 8},
                    Case{"cosh", Routine::VectorCosh, GRAFT_EAGER(cosh), -12, 8},
                    Case{"atanh", Routine::VectorAtanh, GRAFT_EAGER(atanh), -12, 0},
                    Case{"asinh", Routine::ScalarAsinh, GRAFT_EAGER(asinh)},
                    Case{"acosh", Routine::ScalarAcosh, GRAFT_EAGER(acosh)}),
    [](const auto& info) { return std::string(info.param.name); });
#undef GRAFT_EAGER

/// Runs at a multiple of every vector width, so that no scalar tail takes part.
void expect_every_bit(Tensor (*fn)(const Tensor&), const char* what) {
  for (at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    Tensors args = {every(type)};
    LoweredRun run = lower_run([fn](Tensors& t) -> Tensors { return {fn(t[0])}; }, args);
    ASSERT_FALSE(run.lowered.broken) << what << ": " << *run.lowered.broken;
    EXPECT_EQ(content_difference(fn(args[0]), interpret(run.lowered.program, args)[0]), "")
        << what << " of " << c10::toString(type);
  }
}

}  // namespace

TEST(Reduced, EveryValueOfEveryLibraryFunction) {
#define GRAFT_EVERY(f) expect_every_bit(+[](const Tensor& x) { return at::f(x); }, #f)
  GRAFT_EVERY(exp);
  GRAFT_EVERY(log);
  GRAFT_EVERY(sin);
  GRAFT_EVERY(cos);
  GRAFT_EVERY(tanh);
  GRAFT_EVERY(erf);
  GRAFT_EVERY(erfinv);
  GRAFT_EVERY(lgamma);
  GRAFT_EVERY(digamma);
  GRAFT_EVERY(special_entr);
  GRAFT_EVERY(sqrt);
  GRAFT_EVERY(rsqrt);
  GRAFT_EVERY(reciprocal);
  GRAFT_EVERY(sigmoid);
  GRAFT_EVERY(silu);
  GRAFT_EVERY(mish);
  GRAFT_EVERY(asinh);
  GRAFT_EVERY(atanh);
#undef GRAFT_EVERY
  expect_every_bit(+[](const Tensor& x) { return at::gelu(x, "tanh"); }, "gelu tanh");
  expect_every_bit(+[](const Tensor& x) { return at::pow(x, 3); }, "pow 3");
  expect_every_bit(+[](const Tensor& x) { return at::mul(x, 0.1); }, "mul 0.1");
  expect_every_bit(+[](const Tensor& x) { return at::add(x, 0.1); }, "add 0.1");
  expect_every_bit(+[](const Tensor& x) { return at::clamp(x, -0.1, 0.7); }, "clamp");
  expect_every_bit(+[](const Tensor& x) { return at::threshold(x, 0.3, -0.7); }, "threshold");
}

TEST(Contraction, FollowsAtensKernels) {
  Tensor x = spread(at::kFloat, -4, 4), y = x.flip(0), z = at::sin(x);
  Function fn = [](Tensors& t) -> Tensors {
    return {at::addcmul(t[0], t[1], t[2], 0.3), at::addcdiv(t[0], t[1], t[2], 0.3),
            at::lerp(t[0], t[1], 0.3),          at::lerp(t[0], t[1], t[2]),
            at::add(t[0], t[1], 0.3),           at::sub(t[0], t[1], 0.3)};
  };
  Tensors args = {x, y, z}, ours = interpret(lower_run(fn, args).lowered.program, args),
          eager = fn(args);
  for (size_t k = 0; k < eager.size(); ++k)
    EXPECT_EQ(content_difference(eager[k], ours[k]), "") << k;
}

TEST(SignsOfZero, MaximumTakesTheSecondOperand) {
  Tensor plus = at::zeros({64}), minus = plus.neg();
  Function fn = [](Tensors& t) -> Tensors {
    return {at::maximum(t[0], t[1]), at::maximum(t[1], t[0]), at::fmax(t[0], t[1]),
            at::fmin(t[0], t[1]),    at::relu(t[1]),          at::clamp(t[1], 0, 1),
            at::sign(t[1]),          at::round(t[1] - 0.25)};
  };
  Tensors args = {plus, minus}, ours = interpret(lower_run(fn, args).lowered.program, args),
          eager = fn(args);
  for (size_t k = 0; k < eager.size(); ++k)
    EXPECT_EQ(content_difference(eager[k], ours[k]), "") << k;
}

TEST(NaN, BoundsAndChoices) {
  double nan = std::numeric_limits<double>::quiet_NaN();
  Tensor x = at::tensor({1.f, -2.f, static_cast<float>(nan), INFINITY}).repeat({16}), y = x.flip(0);
  expect_as_eager(
      [nan](Tensors& t) -> Tensors {
        return {at::clamp(t[0], nan),     at::clamp(t[0], std::nullopt, nan),
                at::clamp(t[0], nan, 1.), at::clamp_max(t[0], nan),
                at::clamp_min(t[0], 0),   at::fmax(t[0], t[1]),
                at::sign(t[0]),           at::heaviside(t[0], t[1]),
                at::nan_to_num(t[0]),     at::gt(t[0], t[1]),
                at::ne(t[0], t[0])};
      },
      {x, y});
}

TEST(FloorDivision, KeepsInfiniteQuotients) {
  Tensor a = at::tensor({-3.4e38f, 0.2f, 5.f, -5.f, INFINITY, 7.f, -7.f, 0.f}).repeat({8});
  Tensor b = at::tensor({-0.6f, 1e-40f, 0.f, 0.f, 2.f, 2.f, 2.f, -1.f}).repeat({8});
  expect_as_eager(
      [](Tensors& t) -> Tensors {
        return {at::floor_divide(t[0], t[1]), at::div(t[0], t[1], "trunc")};
      },
      {a, b});
}

}  // namespace graft::test
