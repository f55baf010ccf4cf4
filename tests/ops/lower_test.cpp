// Lowering as a whole: roles, views, hazards, checks, externs; and the operators that move
// elements.
#include "ops/lower.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "ops/documentation.h"
#include "ops/pointwise.h"
#include "support/interpreter.h"
#include "support/lowered.h"

namespace graft::test {

namespace {

using at::Tensor;

std::string program(const Function& fn, const Tensors& args) {
  LoweredRun run = lower_run(fn, args);
  return run.lowered.broken ? "broken: " + *run.lowered.broken : ir::print(run.lowered.program);
}

std::string why_broken(const Function& fn, const Tensors& args) {
  return lower_run(fn, args).lowered.broken.value_or("");
}

/// ATen gives fp16 tensors to oneDNN where the machine has instructions for them, whose gelu goes
/// by another erf; without FMA its own kernels have one more rounding, and without MKL no arrays.
TEST(Lower, RowsFollowTheTargetsKernels) {
  at::NoGradGuard no_grad;
  const Tensors args = {at::randn({64}, at::kHalf), at::randn({64}), at::randn({64})};
  auto text = [&](auto&& fn, const ir::Target& target) {
    Tensors copies = clone_all(args), results;
    const record::Trace trace =
        record::record(copies, [&] { results = {fn(copies)}; }, [&] { return results; });
    return ir::print(ops::lower(trace, {.target = target}).program);
  };
  auto gelu = [](Tensors& t) { return at::gelu(t[0]); };
  auto scaled = [](Tensors& t) { return at::add(t[1], t[2], 0.3); };
  auto exp = [](Tensors& t) { return at::exp(t[1]); };
  ir::Target with, without;
  with.half_instructions = true;
  without.fma = false, without.vml = false;
  EXPECT_NE(text(gelu, with).find("0.169189"), std::string::npos);
  EXPECT_NE(text(scaled, with).find("fma("), std::string::npos);
  EXPECT_EQ(text(scaled, without).find("fma("), std::string::npos);
  EXPECT_NE(text(exp, with).find("ArrayExp"), std::string::npos);
  EXPECT_NE(text(exp, without).find("VectorExp"), std::string::npos);
  auto log = [](Tensors& t) { return at::log(t[1]); };
  auto tanh = [](Tensors& t) { return at::tanh(t[1]); };
  auto cosine = [](Tensors& t) { return at::cos(t[1]); };
  with.vml_computes = [](ir::Target::VmlFormula) { return true; };
  with.lanes = 16;
  EXPECT_NE(text(exp, with).find("FormulaExp"), std::string::npos);
  EXPECT_NE(text(log, with).find("FormulaLog"), std::string::npos);
  EXPECT_NE(text(cosine, with).find("FormulaCos"), std::string::npos);
  EXPECT_NE(text(tanh, with).find("FormulaTanh"), std::string::npos);
  with.lanes = 8;
  EXPECT_NE(text(exp, with).find("ArrayExp"), std::string::npos);
  EXPECT_NE(text(log, with).find("FormulaLog"), std::string::npos);
  without.fma = true;
  EXPECT_EQ(text(gelu, without).find("0.169189"), std::string::npos);
  auto short_gelu = [](Tensors& t) { return at::gelu(t[1].to(at::kBFloat16)); };
  EXPECT_NE(text(short_gelu, without).find("0.169189"), std::string::npos);
  without.bfloat16_instructions = false;
  EXPECT_EQ(text(short_gelu, without).find("0.169189"), std::string::npos);
  without.lacks = {at::kHalf};
  auto both = [](Tensors& t) { return at::gelu(t[0]).to(at::kFloat) * at::exp(t[1]); };
  EXPECT_NE(text(both, without).find("aten::gelu("), std::string::npos);
  EXPECT_EQ(text(both, without).find("aten::exp("), std::string::npos);
}

/// Few rows of a weight that is held in panels stay a call, which passes make a kernel.
TEST(Lower, FewRowsOfWeightsThatAreHeld) {
  const at::NoGradGuard no_grad;
  const Tensor held = at::randn({256, 256});
  const auto calls = [&](int64_t rows, bool captured, bool holds) {
    Tensors args = {at::randn({rows, 256}), at::randn({256, 256})}, results;
    const auto layer = [&] { results = {at::linear(args[0], captured ? held : args[1])}; };
    const record::Trace trace = record::record(args, layer, [&] { return results; });
    ir::Target target;
    target.first_cache_bytes = 1 << 15;
    const ops::Lowered lowered =
        ops::lower(trace, {.holds = [&](int /*record*/) { return holds; }, .target = target});
    const bool is_call = ir::print(lowered.program).find("aten::mm(") != std::string::npos;
    EXPECT_EQ(lowered.held.size(), is_call ? 1 : 0);
    return is_call;
  };
  EXPECT_TRUE(calls(8, /*captured=*/true, /*holds=*/true));
  EXPECT_FALSE(calls(4, /*captured=*/true, /*holds=*/true));
  EXPECT_FALSE(calls(8, /*captured=*/false, /*holds=*/true));
  EXPECT_FALSE(calls(8, /*captured=*/true, /*holds=*/false));
}

}  // namespace

// --- Roles, views and order

TEST(Lower, ViewsVanishIntoAccesses) {
  expect_as_eager([](Tensors& t) -> Tensors { return {t[0].t().slice(1, 1, 4) * 2 + t[0][1][2]}; },
                  {grid({5, 6})});
  expect_as_eager(
      [](Tensors& t) -> Tensors {
        return {at::add(t[0].unsqueeze(1).expand({4, 3, 5}), 1).flatten()};
      },
      {grid({4, 5})});
}

TEST(Lower, AnOperatorThatReturnsItsInputIsAView) {
  LoweredRun run = lower_run(
      [](Tensors& t) -> Tensors { return {t[0].contiguous().to(at::kFloat) + 1}; }, {grid({3})});
  ASSERT_FALSE(run.lowered.broken);
  EXPECT_EQ(run.lowered.program.items.size(), 1u);
}

TEST(Lower, InPlaceViewOperatorsMoveNothing) {
  expect_as_eager(
      [](Tensors& t) -> Tensors {
        Tensor sum = t[0] + 1;
        sum.t_().unsqueeze_(0);
        return {sum * 2, sum};
      },
      {grid({4, 4})});
}

TEST(Lower, ResultsAliasArguments) {
  expect_as_eager(
      [](Tensors& t) -> Tensors {
        t[0].mul_(2);
        return {t[0], t[0].t(), t[0] + 1, t[0]};
      },
      {grid({3, 4})});
}

TEST(Lower, CapturedTensorsAreRead) {
  Tensor held = grid({4});
  expect_as_eager([held](Tensors& t) -> Tensors { return {t[0] * held}; }, {grid({3, 4})});
}

TEST(Lower, ExternsSitBetweenStatements) {
  expect_as_eager([](Tensors& t) -> Tensors { return {at::mm(t[0] + 1, t[1].t()).relu()}; },
                  {grid({3, 40}), grid({5, 40})}, Fates::AnyExtern);
  LoweredRun run = lower_run(
      [](Tensors& t) -> Tensors { return {at::mm(t[0] + 1, t[0].t()).relu()}; }, {grid({3, 40})});
  EXPECT_EQ(fate(run.lowered, "aten::mm"), "extern: a matmul");
  EXPECT_EQ(fate(run.lowered, "aten::t"), "view");
  EXPECT_EQ(fate(run.lowered, "aten::relu"), "fused");
}

// --- Memory hazards

TEST(Lower, InPlaceOnInterleavedHalvesIsFused) {
  expect_as_eager(
      [](Tensors& t) -> Tensors {
        Tensor low = t[0].slice(1, 0, 4), high = t[0].slice(1, 4);
        low.sub_(high).mul_(2);
        high.add_(low.slice(1, 0, 1));
        t[0].select(0, 1).copy_(t[0].select(0, 2));
        return {t[0] * t[0]};
      },
      {grid({3, 8})});
}

TEST(Lower, InPlaceOnOverlappingViewsStaysExtern) {
  LoweredRun run = lower_run(
      [](Tensors& t) -> Tensors {
        t[0].slice(0, 0, 8, 2)
            .add_(t[0].slice(0, 0, 4));  // eager reads what it stored a step before
        return {t[0] + 1};
      },
      {grid({8})});
  EXPECT_EQ(fate(run.lowered, "aten::add_.Tensor"),
            "extern: the output overlaps an operand elsewhere");
}

TEST(Lower, OutTensorsMayGrow) {
  expect_as_eager(
      [](Tensors& t) -> Tensors {
        Tensor sum = at::empty({0}, t[0].options());
        at::add_out(sum, t[0], t[0]);
        return {sum * 2};
      },
      {grid({3, 8})});
}

TEST(Lower, OutArgumentsAndNarrowerResults) {
  expect_as_eager(
      [](Tensors& t) -> Tensors {
        at::add_out(t[2], t[0], t[1]);
        t[1].add_(t[0]);  // computed in Float, rounded to bf16 at the end
        return {};
      },
      {grid({9}) / 7, grid({9}, at::kBFloat16), grid({9}, at::kDouble)});
}

TEST(Lower, AnOutputOverItselfStaysExtern) {
  LoweredRun run = lower_run(
      [](Tensors& t) -> Tensors {
        Tensor sum = t[0] + 1;
        sum.as_strided({3}, {0}).zero_();
        return {sum};
      },
      {grid({4})});
  EXPECT_EQ(fate(run.lowered, "aten::zero_"), "extern: elements of the output share memory");
}

TEST(Lower, ScalarsRoundAsTheirKernelsRead) {
  Tensor x = grid({33}, at::kBFloat16) / 7;
  expect_as_eager(
      [](Tensors& t) -> Tensors { return {t[0] * 0.1, t[0] + 0.1, t[0] / 0.3, 0.1 * t[0]}; }, {x});
  Tensor scale = at::full({}, 0.1f);
  expect_as_eager([scale](Tensors& t) -> Tensors { return {t[0] * scale, t[0] + scale}; }, {x});
}

// --- What eager checks

TEST(Lower, IntegerDivisionByZeroAborts) {
  Function fn = [](Tensors& t) -> Tensors { return {at::floor_divide(t[0], t[1])}; };
  Tensors args = {grid({6}, at::kLong), at::full({6}, 3, at::kLong)};
  expect_as_eager(fn, args);
  LoweredRun run = lower_run(fn, args);
  args[1][4] = 0;
  EXPECT_THROW(interpret(run.lowered.program, args), Aborted);
}

TEST(Lower, ACheckAfterAVisibleWriteIsRefused) {
  LoweredRun run = lower_run(
      [](Tensors& t) -> Tensors {
        t[0].add_(1);
        return {at::remainder(t[0], t[1] - 1)};
      },
      {grid({6}, at::kLong), at::full({6}, 3, at::kLong)});
  EXPECT_EQ(fate(run.lowered, "aten::remainder.Tensor"),
            "extern: eager may raise here, and caller-visible memory was written before");
}

// --- What cannot be compiled

TEST(Lower, SaysWhyItIsBroken) {
  EXPECT_EQ(
      why_broken([](Tensors& t) -> Tensors { return {at::mm(t[0], t[0])}; }, {grid({40, 40})}),
      "no operator of this function is one Graft fuses");
  EXPECT_EQ(why_broken(
                [](Tensors& t) -> Tensors {
                  t[0].unsqueeze_(0);
                  return {t[0] + 1};
                },
                {grid({3})}),
            "aten::unsqueeze_ changes the layout of argument 0 itself, which a plan cannot repeat; "
            "use the operator's form "
            "without the underscore, or call it outside the compiled function");
}

TEST(Lower, UnsupportedDtypesStayExtern) {
  LoweredRun run = lower_run([](Tensors& t) -> Tensors { return {t[0] + 1, t[1].cumprod(0)}; },
                             {grid({3}), grid({3}).to(at::kComplexFloat)});
  EXPECT_EQ(fate(run.lowered, "aten::cumprod"), "extern: dtype ComplexFloat");
}

/// Drawn as bytes, into memory of the plan's own.
TEST(Lower, MasksAreDrawnAsTruthValues) {
  EXPECT_EQ(program([](Tensors& t) -> Tensors { return {at::empty_like(t[0]).bernoulli_(0.5)}; },
                    {grid({3})}),
            "argument 0 = %0 f32[3]:(1)\n"
            "%0: argument 0, 12 bytes\n"
            "%1: output, 12 bytes\n"
            "%2: temporary, 3 bytes\n"
            "%2 bool[3]:(1) = aten::bernoulli_.float(%2 bool[3]:(1), 0.5, None) writes %2\n"
            "[a:3] %1[a] f32 = f32(%2.bool[a])\n"
            "result 0 = %1 f32[3]:(1)\n");
}

TEST(Lower, RandomNumbersStayExtern) {
  LoweredRun run =
      lower_run([](Tensors& t) -> Tensors { return {at::rand_like(t[0]) + t[0]}; }, {grid({3})});
  EXPECT_EQ(fate(run.lowered, "aten::uniform_").rfind("extern", 0), 0u);
}

// --- Text

TEST(Lower, Text) {
  EXPECT_EQ(program([](Tensors& t) -> Tensors { return {(t[0] * t[1]).neg()}; },
                    {grid({2, 3}), grid({3})}),
            "argument 0 = %0 f32[2,3]:(3,1)\n"
            "argument 1 = %1 f32[3]:(1)\n"
            "%0: argument 0, 24 bytes\n"
            "%1: argument 1, 12 bytes\n"
            "%2: temporary, 24 bytes\n"
            "%3: output, 24 bytes\n"
            "[a:2,b:3] %2[a*3+b] f32 = (%0[a*3+b] * %1[b])\n"
            "[a:2,b:3] %3[a*3+b] f32 = neg(%2[a*3+b])\n"
            "result 0 = %3 f32[2,3]:(3,1)\n");
}

TEST(Lower, TextOfACat) {
  EXPECT_EQ(program([](Tensors& t) -> Tensors { return {at::cat({t[0], t[0].slice(1, 1)}, 1)}; },
                    {grid({2, 3}, at::kBFloat16)}),
            "argument 0 = %0 bf16[2,3]:(3,1)\n"
            "%0: argument 0, 12 bytes\n"
            "%1: output, 20 bytes\n"
            "[a:2,b:3] %1[a*5+b] bf16 = %0[a*3+b]\n"
            "[a:2,b:2] %1[a*5+b+3] bf16 = %0[a*3+b+1]\n"
            "result 0 = %1 bf16[2,5]:(5,1)\n");
}

TEST(Lower, TextOfAnActivationOnBFloat16) {
  EXPECT_EQ(
      program([](Tensors& t) -> Tensors { return {at::silu(t[0])}; }, {grid({4}, at::kBFloat16)}),
      "argument 0 = %0 bf16[4]:(1)\n"
      "%0: argument 0, 8 bytes\n"
      "%1: output, 8 bytes\n"
      "[a:4] %1[a] bf16 = bf16((t1 / (1 + VectorExp(neg(t1))))); t1 = f32(%0.bf16[a])\n"
      "result 0 = %1 bf16[4]:(1)\n");
}

TEST(Lower, DocumentationListsEveryRow) {
  std::string text = ops::operator_documentation();
  for (const ops::PointwiseRow& row : ops::pointwise_table())
    EXPECT_NE(text.find("`" + std::string(row.name) + "`"), std::string::npos) << row.name;
}

}  // namespace graft::test
