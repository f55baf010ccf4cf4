// Matmuls by another of ATen's routines: what lowering marks and tuning takes (Mode::MaxAutotune).
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "runtime/function/compile.h"
#include "runtime/plan/tune.h"
#include "support/interpreter.h"
#include "support/lowered.h"
#include "support/samples.h"

namespace graft::test {
namespace {

using at::Tensor;

bool has_onednn() {
  return c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""}).has_value();
}

Tensors by_onednn(const Function& fn, const Tensors& args, const std::string& routine) {
  LoweredRun run = lower_run(fn, args);
  EXPECT_FALSE(run.lowered.choices.empty());
  for (const ops::Choice& choice : std::vector(run.lowered.choices))
    ops::take(run.lowered, choice, "for the test");
  EXPECT_FALSE(run.lowered.broken) << *run.lowered.broken;
  EXPECT_FALSE(run.lowered.exact);
  EXPECT_NE(ir::print(run.lowered.program).find(routine), std::string::npos);
  Tensors ours = clone_all(args);
  return interpret(run.lowered.program, ours, run.trace.captured);
}

void expect_close(const Function& fn, const Tensors& args) {
  if (!has_onednn()) GTEST_SKIP() << "libtorch without oneDNN";
  Tensors eager_args = clone_all(args);
  Tensors eager = fn(eager_args), ours = by_onednn(fn, args, "mkldnn::_linear_pointwise");
  ASSERT_EQ(ours.size(), eager.size());
  for (size_t k = 0; k < eager.size(); ++k) {
    ASSERT_EQ(ours[k].sizes(), eager[k].sizes());
    EXPECT_EQ(ours[k].strides(), eager[k].strides());
    double largest = eager[k].abs().max().item<double>();
    EXPECT_LE((ours[k] - eager[k]).abs().max().item<double>(), 1e-5 * largest + 1e-30);
  }
}

TEST(Routine, MatricesOfEverySizeAndLayout) {
  for (auto [m, k, n] : {std::tuple{2, 39, 2}, {5, 37, 5}, {33, 64, 48}, {7, 130, 3}}) {
    Tensor a = at::randn({m, k}), b = at::randn({k, n}), wide = at::randn({m, 2 * k + 1});
    auto product = [](Tensors& t) { return Tensors{at::mm(t[0], t[1]) * 2}; };
    expect_close(product, {a, b});
    expect_close(product, {a, at::randn({n, k}).t()});
    expect_close(product, {at::randn({k, m}).t(), b});
    expect_close(product, {wide.slice(1, 1, 2 * k + 1, 2), b});
    expect_close([](Tensors& t) { return Tensors{at::relu(at::addmm(t[2], t[0], t[1]))}; },
                 {a, b, at::randn({n})});
  }
}

TEST(Routine, ALinearLayerOfThreeDimensions) {
  expect_close([](Tensors& t) { return Tensors{at::gelu(at::linear(t[0], t[1], t[2]))}; },
               {at::randn({2, 5, 44}), at::randn({40, 44}), at::randn({40})});
}

TEST(Routine, WhatItDoesNotComputeStaysAtens) {
  auto stays = [](const Function& fn, const Tensors& args, const std::string& name) {
    LoweredRun run = lower_run(fn, args);
    EXPECT_TRUE(run.lowered.choices.empty());
    EXPECT_EQ(fate(run.lowered, name), "extern: a matmul");
  };
  Tensor a = at::randn({3, 34}), b = at::randn({34, 5}), bias = at::randn({5});
  stays([](Tensors& t) { return Tensors{at::addmm(t[2], t[0], t[1], 2, 1) + 1}; }, {a, b, bias},
        "aten::addmm");
  stays([](Tensors& t) { return Tensors{at::addmm(t[2], t[0], t[1], 1, 0.5) + 1}; }, {a, b, bias},
        "aten::addmm");
  stays([](Tensors& t) { return Tensors{at::addmm(t[2], t[0], t[1]) + 1}; },
        {a, b, at::randn({3, 5})}, "aten::addmm");
  stays([](Tensors& t) { return Tensors{at::mm(t[0], t[1]) + 1}; },
        {a.to(at::kDouble), b.to(at::kDouble)}, "aten::mm");
  stays([](Tensors& t) { return Tensors{at::mm(t[0], t[1]) + 1}; }, {at::randn({0, 34}), b},
        "aten::mm");
  stays([](Tensors& t) { return Tensors{at::mm(t[0], t[1].as_strided({34, 5}, {1, 1})) + 1}; },
        {a, at::randn({38})}, "aten::mm");
  Tensor out = at::randn({3, 5});
  stays([](Tensors& t) { return Tensors{at::mm_out(t[2], t[0], t[1]) + 1}; }, {a, b, out},
        "aten::mm.out");
}

TEST(Routine, AMatmulAloneIsBrokenUntilItsChoiceIsTaken) {
  auto fn = [](Tensors& t) { return Tensors{at::mm(t[0], t[1])}; };
  LoweredRun run = lower_run(fn, {at::randn({3, 34}), at::randn({34, 5})});
  ASSERT_EQ(run.lowered.choices.size(), 1U);
  EXPECT_TRUE(run.lowered.broken);
  ops::take(run.lowered, run.lowered.choices[0], "oneDNN's");
  EXPECT_FALSE(run.lowered.broken);
  EXPECT_EQ(fate(run.lowered, "aten::mm"), "extern: oneDNN's");
  ASSERT_EQ(run.lowered.operators.size(), 1U);
  EXPECT_EQ(run.lowered.operators[0].count, 1);
  runtime::CompileSettings settings;
  settings.tuning = runtime::Tuning{{"oneDNN's"}, {}};
  EXPECT_FALSE(runtime::schedule(run.trace, settings).broken) << "a plan of that call alone";
  settings.tuning->choices = {""};
  EXPECT_TRUE(runtime::schedule(run.trace, settings).broken);
}

TEST(Routine, EitherIsRightAndTheAnswerIsKept) {
  auto fn = [](Tensors& t) { return Tensors{at::mm(t[0], t[1]) + 1}; };
  Tensors args{at::randn({64, 64}), at::randn({64, 64})};
  LoweredRun run = lower_run(fn, args);
  const std::vector<std::string> tuning = runtime::tune(run.lowered, 1);
  ASSERT_EQ(tuning.size(), run.lowered.choices.size());
  EXPECT_EQ(runtime::tune(run.lowered, 1), tuning);
  runtime::apply_tuning({tuning, {}}, run.lowered);
  ASSERT_FALSE(run.lowered.broken);
  Tensor ours = interpret(run.lowered.program, args, run.trace.captured)[0];
  EXPECT_LE((ours - fn(args)[0]).abs().max().item<double>(), 1e-4);
  EXPECT_EQ(run.lowered.exact, fate(run.lowered, "aten::mm") == "extern: a matmul");
}

}  // namespace
}  // namespace graft::test
