// The interpreter that the other tests trust: its scalars against c10 and the C++ language, its
// rules against programs that break them.
#include "support/interpreter.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/builder.h"
#include "support/compare.h"
#include "support/scalars.h"

namespace graft::test {
namespace {

using c10::ScalarType;
using ir::Op;
using ir::ReduceOp;
using ir::StatementBuilder;
using ir::Value;
using ir::View;

template <class T>
T apply(Op op, ScalarType type, T a, T b = T{}, ScalarType result = ScalarType::Undefined) {
  ir::Node node{op, result == ScalarType::Undefined ? type : result};
  return from_bits<T>(evaluate(node, type, to_bits(a), to_bits(b), 0));
}

TEST(Interpreter, IntegersWrapAndDivideAsTheNodesSay) {
  using Limits = std::numeric_limits<int8_t>;
  EXPECT_EQ(apply<int8_t>(Op::Add, at::kChar, 127, 1), -128);
  EXPECT_EQ(apply<int8_t>(Op::Mul, at::kChar, 100, 100), static_cast<int8_t>(10000));
  EXPECT_EQ(apply<int8_t>(Op::Neg, at::kChar, Limits::min()), Limits::min());
  EXPECT_EQ(apply<int8_t>(Op::Abs, at::kChar, Limits::min()), Limits::min());
  EXPECT_EQ(apply<uint8_t>(Op::Sub, at::kByte, 1, 2), 255);
  EXPECT_EQ(apply<int32_t>(Op::IDiv, at::kInt, -7, 2), -3);
  EXPECT_EQ(apply<int32_t>(Op::IRem, at::kInt, -7, 2), -1);
  EXPECT_EQ(apply<int32_t>(Op::IDiv, at::kInt, 7, 0), 0);
  EXPECT_EQ(apply<int32_t>(Op::IRem, at::kInt, 7, 0), 0);
  int64_t least = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(apply<int64_t>(Op::IDiv, at::kLong, least, -1), least);
  EXPECT_EQ(apply<int64_t>(Op::IRem, at::kLong, least, -1), 0);
  EXPECT_EQ(apply<int32_t>(Op::Shl, at::kInt, 3, 32), 0);
  EXPECT_EQ(apply<int32_t>(Op::Shl, at::kInt, 3, -1), 0);
  EXPECT_EQ(apply<int32_t>(Op::Shl, at::kInt, 1, 31), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(apply<int32_t>(Op::Shr, at::kInt, -8, 1), -4);
  EXPECT_EQ(apply<int32_t>(Op::Shr, at::kInt, -8, 40), -1);
  EXPECT_EQ(apply<uint8_t>(Op::Shr, at::kByte, 200, 40), 0);
  EXPECT_EQ(apply<uint8_t>(Op::Not, at::kByte, 1), 254);
}

TEST(Interpreter, FloatingEdges) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(apply<float>(Op::Max, at::kFloat, nan, 1)));
  EXPECT_TRUE(std::isnan(apply<float>(Op::Min, at::kFloat, 1, nan)));
  EXPECT_EQ(apply<float>(Op::RoundEven, at::kFloat, 2.5f), 2.0f);
  EXPECT_EQ(apply<float>(Op::Trunc, at::kFloat, -2.5f), -2.0f);
  EXPECT_EQ(apply<float>(Op::CopySign, at::kFloat, 3, -0.0f), -3.0f);
  EXPECT_EQ(evaluate({Op::Eq, at::kBool}, at::kFloat, to_bits(nan), to_bits(nan), 0), 0u);
  EXPECT_EQ(evaluate({Op::Ne, at::kBool}, at::kFloat, to_bits(nan), to_bits(nan), 0), 1u);
}

TEST(Interpreter, CastsAreC10s) {
  auto cast = [](float value, ScalarType to) { return convert(to_bits(value), at::kFloat, to); };
  // A tie, to even.
  EXPECT_EQ(cast(1.00390625f, at::kBFloat16), to_bits(c10::BFloat16(1.00390625f)));
  EXPECT_EQ(cast(65520.0f, at::kHalf), to_bits(c10::Half(65520.0f)));
  EXPECT_EQ(from_bits<int32_t>(cast(-2.9f, at::kInt)), -2);
  EXPECT_EQ(from_bits<uint8_t>(cast(-1.0f, at::kByte)), 255);
  EXPECT_EQ(cast(std::numeric_limits<float>::quiet_NaN(), at::kBool), 1u);
  EXPECT_EQ(cast(-0.0f, at::kBool), 0u);
}

/// A program over arguments: each its own storage.
class Programs {
 public:
  View argument(const at::Tensor& tensor) {
    args.push_back(tensor);
    int id = static_cast<int>(program.storages.size());
    program.storages.push_back({ir::Role::Argument, static_cast<int64_t>(tensor.nbytes()), id});
    return {id, tensor.scalar_type(), 0, tensor.sizes().vec(), tensor.strides().vec()};
  }
  void add(ir::Statement statement) { program.items.emplace_back(std::move(statement)); }
  std::string error() {
    try {
      interpret(program, args);
    } catch (const std::logic_error& wrong) {
      return wrong.what();
    }
    return "";
  }

  ir::Program program;
  std::vector<at::Tensor> args;
};

TEST(Interpreter, ArgMaxTakesTheFirst) {
  Programs p;
  View in = p.argument(at::tensor({1.0f, 5.0f, 5.0f, 2.0f, NAN, 3.0f, NAN, 9.0f}).reshape({2, 4}));
  View out = p.argument(at::zeros({2}, at::kLong));
  StatementBuilder s({2, 4});
  p.add(s.store(out, s.reduce(ReduceOp::ArgMax, s.load(in), {false, true}, at::kLong)));
  EXPECT_EQ(p.error(), "");
  EXPECT_TRUE(same(p.args[1], at::tensor({int64_t{1}, int64_t{0}})));
}

TEST(Interpreter, AScanStoresEveryStep) {
  Programs p;
  View io = p.argument(at::arange(6, at::kLong).reshape({3, 2}));
  StatementBuilder s({3, 2});
  p.add(s.store(io, s.reduce(ReduceOp::Sum, s.load(io), {true, false}, at::kLong, /*scan=*/true)));
  EXPECT_EQ(p.error(), "");
  EXPECT_TRUE(same(p.args[0], at::arange(6, at::kLong).reshape({3, 2}).cumsum(0)));
}

TEST(Interpreter, AnAbortEndsTheRun) {
  Programs p;
  View flag = p.argument(at::ones({1}, at::kBool)), out = p.argument(at::zeros({1}));
  p.program.items.emplace_back(ir::Abort{flag.storage, 3});
  StatementBuilder s({1});
  p.add(s.store(out, s.constant(1, at::kFloat)));
  EXPECT_THROW(interpret(p.program, p.args), Aborted);
  EXPECT_EQ(p.args[1].item<float>(), 0);
}

TEST(Interpreter, NoticesAnIndexOutsideTheStorage) {
  Programs p;
  View table = p.argument(at::zeros({4})), index = p.argument(at::full({1}, 4, at::kLong)),
       out = p.argument(at::zeros({1}));
  StatementBuilder s({1});
  Value i = s.load(index);
  p.add(s.store(out, s.load(ir::Access{table.storage, at::kFloat, 0, {0}, {{i.id, 1}}})));
  EXPECT_NE(p.error().find("bytes 16 to 20 of storage %0, which has 16"), std::string::npos)
      << p.error();
}

TEST(Interpreter, NoticesPointsThatMeet) {
  Programs p;
  View io = p.argument(at::arange(4, at::kFloat));
  View from{io.storage, at::kFloat, 0, {3}, {1}}, to{io.storage, at::kFloat, 4, {3}, {1}};
  StatementBuilder s({3});
  p.add(s.store(to, s.load(from)));
  EXPECT_NE(p.error().find("a point reads what another"), std::string::npos) << p.error();

  Programs q;
  View index = q.argument(at::zeros({2}, at::kLong)),
       values = q.argument(at::arange(2, at::kFloat)), out = q.argument(at::zeros({2}));
  StatementBuilder t({2});
  Value i = t.load(index);
  q.add(t.store(ir::Access{out.storage, at::kFloat, 0, {0}, {{i.id, 1}}}, t.load(values)));
  EXPECT_NE(q.error().find("two points store different values in the same place"),
            std::string::npos)
      << q.error();
}

TEST(Interpreter, NoticesAnEpilogueThatUsesAReducedAxis) {
  Programs p;
  View in = p.argument(at::ones({2, 3})), out = p.argument(at::zeros({2}));
  StatementBuilder s({2, 3});
  Value sum = s.reduce(ReduceOp::Sum, s.load(in), {false, true}, at::kFloat);
  p.add(s.store(out, sum + s.load(in)));
  EXPECT_NE(p.error().find("the stored value loads along a reduced axis"), std::string::npos)
      << p.error();
}

/// One tile per row: row sums in scratch, then the row divided by its sum.
TEST(Interpreter, RunsAKernelWithScratch) {
  Programs p;
  View in = p.argument(at::rand({3, 4}) + 1), out = p.argument(at::zeros({3, 4}));
  p.program.storages.push_back({ir::Role::Temporary, 4});
  View sum{2, at::kFloat, 0, {1, 1}, {0, 0}};
  ir::Schedule schedule;
  schedule.storages = p.program.storages;
  ir::Kernel kernel;
  kernel.vars = {{3, ir::LoopKind::Range}, {4, ir::LoopKind::Serial}, {4, ir::LoopKind::Vector}};
  kernel.range = {0};
  kernel.scratch = {{2, 0, 4}};
  StatementBuilder add({3, 4}), divide({3, 4});
  Value total = add.reduce(ReduceOp::Sum, add.load(in), {false, true}, at::kFloat);
  kernel.placed.push_back({add.store(ir::Access{2, at::kFloat, 0, {0, 0}, {}}, total), {0, 1}});
  kernel.placed.push_back({divide.store(out, divide.load(in) / divide.load(sum)), {0, 2}});
  for (int k : {0, 1}) {
    ir::TreeNode loop;
    loop.loop = std::make_unique<ir::Loop>();
    loop.loop->var = k + 1;
    loop.loop->body.emplace_back();
    loop.loop->body.back().placed = k;
    kernel.body.push_back(std::move(loop));
  }
  schedule.steps.emplace_back(std::move(kernel));
  interpret(schedule, p.args);
  EXPECT_TRUE(at::allclose(p.args[1], p.args[0] / p.args[0].sum(1, true)));
}

}  // namespace
}  // namespace graft::test
