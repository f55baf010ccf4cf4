// Lowering as a whole: roles, views, hazards, checks, externs; and the operators that move elements.
#include "ops/lower.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "ops/documentation.h"
#include "ops/overlap.h"
#include "ops/pointwise.h"
#include "support/interpreter.h"
#include "support/lowered.h"

namespace graft::test {

namespace {

using at::Tensor;

Tensor grid(std::vector<int64_t> sizes, at::ScalarType type = at::kFloat) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return at::arange(count).sub(count / 2).to(type).reshape(sizes);
}

std::string program(const Function& fn, const Tensors& args) {
  LoweredRun run = lower_run(fn, args);
  return run.lowered.broken ? "broken: " + *run.lowered.broken : ir::print(run.lowered.program);
}

std::string why_broken(const Function& fn, const Tensors& args) {
  return lower_run(fn, args).lowered.broken.value_or("");
}

}  // namespace

// --- Roles, views and order -------------------------------------------------------------------------

TEST(Lower, ViewsVanishIntoAccesses) {
  expect_as_eager([](Tensors& t) -> Tensors { return {t[0].t().slice(1, 1, 4) * 2 + t[0][1][2]}; }, {grid({5, 6})});
  expect_as_eager([](Tensors& t) -> Tensors { return {at::add(t[0].unsqueeze(1).expand({4, 3, 5}), 1).flatten()}; },
                  {grid({4, 5})});
}

TEST(Lower, AnOperatorThatReturnsItsInputIsAView) {
  LoweredRun run = lower_run([](Tensors& t) -> Tensors { return {t[0].contiguous().to(at::kFloat) + 1}; }, {grid({3})});
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
                  {grid({3, 4}), grid({5, 4})}, Fates::AnyExtern);
  LoweredRun run =
      lower_run([](Tensors& t) -> Tensors { return {at::mm(t[0] + 1, t[0].t()).relu()}; }, {grid({3, 4})});
  EXPECT_EQ(fate(run.lowered, "aten::mm"), "extern: no lowering");
  EXPECT_EQ(fate(run.lowered, "aten::t"), "view");
  EXPECT_EQ(fate(run.lowered, "aten::relu"), "fused");
}

// --- Memory hazards ---------------------------------------------------------------------------------

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
        t[0].slice(0, 0, 8, 2).add_(t[0].slice(0, 0, 4));  // eager reads what it stored a step before
        return {t[0] + 1};
      },
      {grid({8})});
  EXPECT_EQ(fate(run.lowered, "aten::add_.Tensor"), "extern: the output overlaps an operand elsewhere");
}

TEST(Lower, OverlapIsExactForNestedStrides) {
  auto view = [](int64_t offset, std::vector<int64_t> sizes, std::vector<int64_t> strides) {
    return ir::View{0, at::kFloat, offset * 4, std::move(sizes), std::move(strides)};
  };
  EXPECT_FALSE(ops::overlap(view(0, {3, 4}, {8, 1}), view(4, {3, 4}, {8, 1})));
  EXPECT_TRUE(ops::overlap(view(0, {3, 4}, {8, 1}), view(3, {3, 4}, {8, 1})));
  EXPECT_FALSE(ops::overlap(view(0, {4}, {2}), view(1, {4}, {2})));
  EXPECT_TRUE(ops::overlap(view(0, {4}, {2}), view(1, {4}, {3})));
  EXPECT_FALSE(ops::overlap(view(0, {4}, {6}), view(1, {4}, {3})));
  EXPECT_FALSE(ops::overlap(view(7, {4}, {-1}), view(0, {4}, {1})));
  EXPECT_TRUE(ops::overlap(view(7, {5}, {-1}), view(0, {4}, {1})));
  ir::View bytes{0, at::kByte, 3, {1}, {1}};
  EXPECT_TRUE(ops::overlap(view(0, {1}, {1}), bytes));
  EXPECT_FALSE(ops::overlap(view(1, {1}, {1}), bytes));
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
  expect_as_eager([](Tensors& t) -> Tensors { return {t[0] * 0.1, t[0] + 0.1, t[0] / 0.3, 0.1 * t[0]}; }, {x});
  Tensor scale = at::full({}, 0.1f);
  expect_as_eager([scale](Tensors& t) -> Tensors { return {t[0] * scale, t[0] + scale}; }, {x});
}

// --- What eager checks ------------------------------------------------------------------------------

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
        return {at::remainder(t[0], t[1])};
      },
      {grid({6}, at::kLong), at::full({6}, 3, at::kLong)});
  EXPECT_EQ(fate(run.lowered, "aten::remainder.Tensor"),
            "extern: eager may raise here, and caller-visible memory was written before");
}

// --- What cannot be compiled ------------------------------------------------------------------------

TEST(Lower, SaysWhyItIsBroken) {
  EXPECT_EQ(why_broken([](Tensors& t) -> Tensors { return {at::mm(t[0], t[0])}; }, {grid({3, 3})}),
            "no operator of this function is one Graft fuses");
  EXPECT_EQ(why_broken(
                [](Tensors& t) -> Tensors {
                  t[0].unsqueeze_(0);
                  return {t[0] + 1};
                },
                {grid({3})}),
            "aten::unsqueeze_ changes the layout of argument 0 itself, which a plan cannot repeat; use the operator's form "
            "without the underscore, or call it outside the compiled function");
}

TEST(Lower, UnsupportedDtypesStayExtern) {
  LoweredRun run = lower_run(
      [](Tensors& t) -> Tensors {
        return {t[0] + 1, t[1] * t[1]};
      },
      {grid({3}), grid({3}).to(at::kComplexFloat)});
  EXPECT_EQ(fate(run.lowered, "aten::mul.Tensor"), "extern: dtype ComplexFloat");
}

TEST(Lower, RandomNumbersStayExtern) {
  LoweredRun run = lower_run([](Tensors& t) -> Tensors { return {at::rand_like(t[0]) + t[0]}; }, {grid({3})});
  EXPECT_EQ(fate(run.lowered, "aten::rand_like").rfind("extern", 0), 0u);
}

// --- Text -------------------------------------------------------------------------------------------

TEST(Lower, Text) {
  EXPECT_EQ(program([](Tensors& t) -> Tensors { return {(t[0] * t[1]).neg()}; }, {grid({2, 3}), grid({3})}),
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
            "%0: argument 0, 12 bytes\n"
            "%1: output, 20 bytes\n"
            "[a:2,b:3] %1[a*5+b] bf16 = %0[a*3+b]\n"
            "[a:2,b:2] %1[a*5+b+3] bf16 = %0[a*3+b+1]\n"
            "result 0 = %1 bf16[2,5]:(5,1)\n");
}

TEST(Lower, TextOfAnActivationOnBFloat16) {
  EXPECT_EQ(program([](Tensors& t) -> Tensors { return {at::silu(t[0])}; }, {grid({4}, at::kBFloat16)}),
            "%0: argument 0, 8 bytes\n"
            "%1: output, 8 bytes\n"
            "[a:4] %1[a] bf16 = bf16((t1 / (1 + SleefExp(neg(t1))))); t1 = f32(%0[a])\n"
            "result 0 = %1 bf16[4]:(1)\n");
}

TEST(Lower, DocumentationListsEveryRow) {
  std::string text = ops::operator_documentation();
  for (const ops::PointwiseRow& row : ops::pointwise_table())
    EXPECT_NE(text.find("`" + std::string(row.name) + "`"), std::string::npos) << row.name;
}

// --- Copies, fills and ranges -----------------------------------------------------------------------

class Moves : public testing::TestWithParam<at::ScalarType> {
 protected:
  Tensor of(std::vector<int64_t> sizes) { return grid(std::move(sizes), GetParam()); }
};

TEST_P(Moves, Joins) {
  expect_as_eager([](Tensors& t) -> Tensors {
    return {at::cat({t[0], t[1], t[0].t().t()}, -1), at::stack({t[0], t[0].mul(1)}, 1), at::cat({t[0], t[1]}, 1).t()};
  }, {of({3, 4}), of({3, 2})});
  expect_as_eager([](Tensors& t) -> Tensors { return {at::cat({t[0], t[1]}), at::stack({t[0], t[0]}, -1)}; },
                  {of({0}), of({3})});
  expect_as_eager([](Tensors& t) -> Tensors { return {at::cat({t[0], t[1]})}; }, {of({4}), grid({3}, at::kDouble)});
}

TEST_P(Moves, Pads) {
  expect_as_eager([](Tensors& t) -> Tensors {
    return {at::constant_pad_nd(t[0], {1, 2, 3, 0}, 1), at::constant_pad_nd(t[0], {-1, 2}, 0),
            at::constant_pad_nd(t[0], {2, -2, -1, -1}, 1), at::constant_pad_nd(t[0], {0, 0, 0, 0})};
  }, {of({3, 4})});
}

TEST_P(Moves, Repeats) {
  expect_as_eager([](Tensors& t) -> Tensors {
    return {t[0].repeat({2, 1, 3}), t[0].t().repeat({1, 2}), t[0].repeat({0, 1}), t[1].repeat({3})};
  }, {of({2, 3}), of({})});
}

TEST_P(Moves, Rolls) {
  expect_as_eager([](Tensors& t) -> Tensors {
    return {at::roll(t[0], {1}, {0}), at::roll(t[0], {-5, 2}, {1, 0}), at::roll(t[0], {3}), at::roll(t[0].t(), {3}),
            at::roll(t[0], {8}, {1})};
  }, {of({3, 4})});
}

TEST_P(Moves, Flips) {
  expect_as_eager([](Tensors& t) -> Tensors {
    return {at::flip(t[0], {0}), at::flip(t[0], {1, 0}), at::flip(t[0].t(), {-1}), at::flip(t[1], {})};
  }, {of({3, 4}), of({})});
}

TEST_P(Moves, Triangles) {
  expect_as_eager([](Tensors& t) -> Tensors {
    t[1].tril_(-1);
    t[1].triu_(-2);
    return {at::tril(t[0]), at::triu(t[0], 1), at::tril(t[0].transpose(1, 2), -1)};
  }, {of({2, 4, 5}), of({4, 4})});
}

TEST_P(Moves, Fills) {
  expect_as_eager([](Tensors& t) -> Tensors {
    auto options = t[0].options();
    t[0].slice(1, 1).fill_(1);
    t[0].select(0, 1).zero_();
    t[1].fill_(t[0][0][0]);
    return {at::zeros({3}, options), at::ones({2, 2}, options), at::full({3}, 1, options), at::full_like(t[0], 1),
            t[0].new_zeros({2}), at::zeros_like(t[0]), at::ones_like(t[1]), t[0].new_ones({2}), t[0].new_full({2}, 1),
            at::eye(3, 4, options)};
  }, {of({3, 4}), of({5})});
}

TEST_P(Moves, Converts) {
  for (at::ScalarType to : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong, at::kChar, at::kBool})
    expect_as_eager([to](Tensors& t) -> Tensors {
      Tensor copied = at::empty(t[0].sizes(), t[0].options().dtype(to));
      copied.copy_(t[0][0]);
      return {t[0].to(to) == 1, copied, t[0].t().contiguous(), t[0].to(to).clone()};
    }, {of({5, 7})});
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Moves, testing::Values(at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong,
                                                        at::kChar, at::kBool),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

TEST(Ranges, AreExact) {
  expect_as_eager([](Tensors& t) -> Tensors {
    auto options = t[0].options();
    return {at::arange(5, options) + t[0], at::arange(10, 0, -2, options), at::arange(3, 8, at::kLong),
            at::arange(100, at::kBFloat16), at::arange(40000, options)};
  }, {grid({5})});
  LoweredRun run = lower_run([](Tensors& t) -> Tensors { return {at::arange(0, 1, 0.1) + t[0]}; }, {grid({10})});
  EXPECT_EQ(fate(run.lowered, "aten::arange.start_step"), "extern: values that its dtype rounds");
}

TEST(Ranges, BackwardOfViews) {
  expect_as_eager([](Tensors& t) -> Tensors {
    return {at::slice_backward(t[0], {4, 9}, 1, 1, 9, 2), at::select_backward(t[0], {4, 3, 4}, 1, -1)};
  }, {grid({4, 4})});
}

}  // namespace graft::test
