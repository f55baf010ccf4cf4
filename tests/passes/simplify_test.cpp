// Simplify, rule by rule: where it fires, what special values say about it, and where a near miss
// must not fire.
#include "passes/simplify.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "build.h"
#include "support/compare.h"

namespace graft::passes {
namespace {

using c10::ScalarType;
using ir::Op;
using ir::Value;
constexpr auto kHalf = ScalarType::Half;
constexpr auto kInt = ScalarType::Int;
constexpr auto kByte = ScalarType::Byte;
constexpr auto kChar = ScalarType::Char;

using Formula = std::function<Value(Value, Value)>;

/// NaN, infinities, zeros of both signs, the edges of the type and what lies next to 1.
at::Tensor special_values(ScalarType type) {
  if (type == kBool) return at::tensor({0, 1}).to(type);
  if (!is_float(type)) {
    std::vector<int64_t> values = {0, 1, 2, 3, 7, 100, 127};
    if (type != kByte) values.insert(values.end(), {-1, -2, -7, -127, -128});
    if (type == kByte) values.insert(values.end(), {128, 254, 255});
    if (type == kInt || type == kLong)
      values.insert(values.end(),
                    {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()});
    if (type == kLong)
      values.insert(values.end(), {std::numeric_limits<int64_t>::min(),
                                   std::numeric_limits<int64_t>::max(), (int64_t{1} << 53) + 1});
    return at::tensor(values).to(type);
  }
  using Limits = std::numeric_limits<float>;
  return at::tensor(std::vector<float>{Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(),
                                       0.0f, -0.0f, 1.0f, -1.0f, 1.0078125f, 1.00000012f, 0.1f,
                                       -2.5f, 3.0f, 65504.0f, 65520.0f, Limits::max(),
                                       Limits::lowest(), Limits::min(), Limits::denorm_min()})
      .to(type);
}

/// The text of the value that simplify makes of formula(x, y); results on all pairs of special
/// values must be as before (all NaNs count as one).
std::string simplified(ScalarType type, const Formula& formula) {
  at::Tensor values = special_values(type);
  int64_t count = values.numel();
  ProgramBuilder b;
  auto x = b.argument({count, count}, type), y = b.argument({count, count}, type);
  ir::StatementBuilder s(x.sizes);
  Value made = formula(s.load(x), s.load(y));
  auto out = b.output(x.sizes, made.type());
  b.program.items.emplace_back(s.store(out, made));
  EXPECT_EQ(ir::verify(b.program), "");
  ir::Program after_rules = simplify(b.program);
  EXPECT_EQ(ir::verify(after_rules), "");
  std::vector<at::Tensor> arguments = {values.unsqueeze(1).expand({count, count}).contiguous(),
                                       values.unsqueeze(0).expand({count, count}).contiguous()};
  std::string differs = test::content_difference(test::interpret(b.program, arguments).front(),
                                                 test::interpret(after_rules, arguments).front());
  EXPECT_EQ(differs, "") << ir::print(b.program) << ir::print(after_rules);
  std::string text = ir::print(std::get<ir::Statement>(after_rules.items.front()));
  return text.substr(text.find(" = ") + 3);
}

struct Case {
  ScalarType type;
  Formula formula;
  const char* becomes;
};
struct Row {
  const char* rule;
  std::vector<Case> fires, near_misses;
};

const char* const kX = "%0[a*18+b]";

Value flag(Value x, bool value) {
  return x.builder->integer(value, kBool);
}

/// Floating types have 18 special values, Bool 2; integers are named by type below.
std::vector<Row> table() {
  return {
      {"x * 1 = x",
       {{kFloat, [](Value x, Value) { return x * 1.0; }, kX},
        {kDouble, [](Value x, Value) { return 1.0 * x; }, kX},
        {kChar, [](Value x, Value) { return x * 1.0; }, "%0[a*12+b]"},
        {kLong, [](Value x, Value) { return 1.0 * x; }, "%0[a*17+b]"}},
       {{kFloat, [](Value x, Value) { return x * 1.00000012; }, "(%0[a*18+b] * 1.0000001)"},
        {kFloat, [](Value x, Value) { return x * -1.0; }, "(%0[a*18+b] * -1)"},
        {kFloat, [](Value x, Value) { return x + 1.0; }, "(%0[a*18+b] + 1)"}}},
      {"x / 1 = x",
       {{kFloat, [](Value x, Value) { return x / 1.0; }, kX},
        {kDouble, [](Value x, Value) { return x / 1.0; }, kX}},
       {{kFloat, [](Value x, Value) { return 1.0 / x; }, "(1 / %0[a*18+b])"},
        {kFloat, [](Value x, Value) { return x / -1.0; }, "(%0[a*18+b] / -1)"}}},
      {"integer x + 0 = x, x - 0 = x",
       {{kLong, [](Value x, Value) { return x + 0.0; }, "%0[a*17+b]"},
        {kInt, [](Value x, Value) { return 0.0 + x; }, "%0[a*14+b]"},
        {kByte, [](Value x, Value) { return x - 0.0; }, "%0[a*10+b]"}},
       {{kInt, [](Value x, Value) { return 0.0 - x; }, "(0 - %0[a*14+b])"},
        // -0 + 0 is +0.
        {kFloat, [](Value x, Value) { return x + 0.0; }, "(%0[a*18+b] + 0)"},
        {kFloat, [](Value x, Value) { return x - -0.0; }, "(%0[a*18+b] - -0)"}}},
      {"- - x = x, ~ ~ x = x",
       {{kFloat, [](Value x, Value) { return -(-x); }, kX},
        {kInt, [](Value x, Value) { return -(-x); }, "%0[a*14+b]"},
        {kChar, [](Value x, Value) { return ~(~x); }, "%0[a*12+b]"},
        {kBool, [](Value x, Value) { return ~(~x); }, "%0[a*2+b]"}},
       {{kInt, [](Value x, Value) { return -(~x); }, "neg(~(%0[a*14+b]))"},
        {kFloat, [](Value x, Value) { return -x; }, "neg(%0[a*18+b])"}}},
      {"select(constant, a, b)",
       {{kFloat, [](Value x, Value y) { return ir::select(flag(x, true), x, y); }, kX},
        {kFloat, [](Value x, Value y) { return ir::select(flag(x, false), y, x); }, kX}},
       {{kBool, [](Value x, Value y) { return ir::select(x, flag(x, true), y); },
         "select(%0[a*2+b], true, %1[a*2+b])"}}},
      {"select(c, a, a) = a",
       {{kFloat, [](Value x, Value y) { return ir::select(ir::lt(x, y), x, x); }, kX}},
       {{kFloat, [](Value x, Value y) { return ir::select(ir::lt(x, y), x, -x); },
         "select((%0.f32[a*18+b] < %1[a*18+b]), %0[a*18+b], neg(%0[a*18+b]))"}}},
      {"narrow(wide(x)) = x",
       {{kBFloat16, [](Value x, Value) { return x.to(kFloat).to(kBFloat16); }, kX},
        {kHalf, [](Value x, Value) { return x.to(kDouble).to(kHalf); }, kX},
        {kFloat, [](Value x, Value) { return x.to(kDouble).to(kFloat); }, kX},
        {kByte, [](Value x, Value) { return x.to(kInt).to(kByte); }, "%0[a*10+b]"},
        {kChar, [](Value x, Value) { return x.to(kLong).to(kChar); }, "%0[a*12+b]"}},
       {{kFloat, [](Value x, Value) { return x.to(kBFloat16).to(kFloat); },
         "f32(bf16(%0.f32[a*18+b]))"},
        {kHalf, [](Value x, Value) { return x.to(kBFloat16).to(kHalf); },
         "f16(bf16(%0.f16[a*18+b]))"},
        {kLong, [](Value x, Value) { return x.to(kInt).to(kLong); }, "i64(i32(%0.i64[a*17+b]))"},
        {kInt, [](Value x, Value) { return x.to(kFloat).to(kInt); }, "i32(f32(%0.i32[a*14+b]))"},
        {kBFloat16, [](Value x, Value) { return x.to(kFloat).to(kHalf); },
         "f16(f32(%0.bf16[a*18+b]))"}}},
      {"float(half(x)) = x where x is made of halves",
       {{kBFloat16,
         [](Value x, Value y) {
           return ir::max(x.to(kFloat), -y.to(kFloat)).to(kBFloat16).to(kFloat);
         },
         "max(f32(%0.bf16[a*18+b]), neg(f32(%1.bf16[a*18+b])))"},
        {kHalf,
         [](Value x, Value y) {
           Value wide = x.to(kFloat);
           return ir::select(ir::lt(x, y), wide.op(Op::Abs), wide.like(0.5)).to(kHalf).to(kFloat);
         },
         "select((%0.f16[a*18+b] < %1[a*18+b]), abs(f32(%0.f16[a*18+b])), 0.5)"}},
       {{kBFloat16,
         [](Value x, Value y) { return (x.to(kFloat) + y.to(kFloat)).to(kBFloat16).to(kFloat); },
         "f32(bf16((f32(%0.bf16[a*18+b]) + f32(%1.bf16[a*18+b]))))"},
        {kBFloat16,
         [](Value x, Value) {
           Value wide = x.to(kFloat);
           return ir::max(wide, wide.like(0.1)).to(kBFloat16).to(kFloat);
         },
         "f32(bf16(max(f32(%0.bf16[a*18+b]), 0.1)))"},
        {kBFloat16, [](Value x, Value) { return x.to(kFloat).to(kHalf).to(kFloat); },
         "f32(f16(f32(%0.bf16[a*18+b])))"}}},
      {"double(float(x)) = double(x) for narrow x",
       {{kBFloat16, [](Value x, Value) { return x.to(kFloat).to(kDouble); },
         "f64(%0.bf16[a*18+b])"},
        {kHalf, [](Value x, Value) { return x.to(kFloat).to(kDouble); }, "f64(%0.f16[a*18+b])"}},
       {{kLong, [](Value x, Value) { return x.to(kFloat).to(kDouble); },
         "f64(f32(%0.i64[a*17+b]))"},
        {kDouble, [](Value x, Value) { return x.to(kFloat).to(kDouble); },
         "f64(f32(%0.f64[a*18+b]))"}}},
  };
}

TEST(Simplify, EachRuleFiresAndKeepsEveryBit) {
  for (const Row& row : table())
    for (const Case& one : row.fires)
      EXPECT_EQ(simplified(one.type, one.formula), one.becomes) << row.rule;
}

TEST(Simplify, NearMissesStay) {
  for (const Row& row : table())
    for (const Case& one : row.near_misses)
      EXPECT_EQ(simplified(one.type, one.formula), one.becomes) << row.rule;
}

TEST(Simplify, EveryRuleHasItsRow) {
  std::vector<std::string> rules, tested;
  for (const char* rule : simplify_rules()) rules.emplace_back(rule);
  for (const Row& row : table()) {
    tested.emplace_back(row.rule);
    EXPECT_FALSE(row.fires.empty()) << row.rule;
    EXPECT_FALSE(row.near_misses.empty()) << row.rule;
  }
  EXPECT_EQ(tested, rules);
}

TEST(Simplify, RulesWorkOnWhatOtherRulesLeft) {
  EXPECT_EQ(simplified(kFloat, [](Value x, Value y) { return -(-(x * 1.0)) / 1.0 + y * 1.0; }),
            "(%0[a*18+b] + %1[a*18+b])");
}

/// A reduction of values that are the same along the second axis.
std::string reduced(ir::ReduceOp op, std::vector<bool> over) {
  ProgramBuilder b;
  auto x = b.argument({5}, kFloat);
  ir::View wide = x;
  wide.sizes = {5, 8}, wide.strides = {1, 0};
  const ScalarType type = op == ir::ReduceOp::Sum  ? kDouble
                          : op == ir::ReduceOp::Or ? kBool
                                                   : kFloat;
  auto out = b.output({over[0] ? 1 : 5}, type);
  ir::View rows = out;
  rows.sizes = {5, 8}, rows.strides = {over[0] ? 0 : 1, 0};
  ir::StatementBuilder s({5, 8});
  Value input = s.load(wide);
  if (op == ir::ReduceOp::Or) input = lt(input, s.constant(0, kFloat));
  b.program.items.emplace_back(s.store(rows, s.reduce(op, input, std::move(over), type)));
  EXPECT_EQ(ir::verify(b.program), "");
  const ir::Program after = simplify(b.program);
  EXPECT_EQ(ir::verify(after), "") << ir::print(after);
  const std::vector<at::Tensor> arguments = {at::tensor({1.0F, -2.0F, 0.0F, 7.0F, -0.5F})};
  EXPECT_EQ(test::content_difference(test::interpret(b.program, arguments).front(),
                                     test::interpret(after, arguments).front()),
            "");
  const auto& statement = std::get<ir::Statement>(after.items.front());
  return ir::print(statement).substr(0, ir::print(statement).find(']') + 1);
}

TEST(Simplify, WhatIsTheSameAlongAnAxisIsReducedOnce) {
  EXPECT_EQ(reduced(ir::ReduceOp::Or, {true, true}), "[a:5]");
  EXPECT_EQ(reduced(ir::ReduceOp::Max, {true, true}), "[a:5]");
  EXPECT_EQ(reduced(ir::ReduceOp::Min, {false, true}), "[a:5,b:1]") << "still a reduction";
  EXPECT_EQ(reduced(ir::ReduceOp::Sum, {true, true}), "[a:5,b:8]") << "adds each";
}

}  // namespace
}  // namespace graft::passes
