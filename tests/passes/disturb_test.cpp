#include "passes/disturb.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "passes/build.h"
#include "support/interpreter.h"

namespace graft::passes {
namespace {

constexpr double kFloatSpacing = 0x1p-23;

/// How far the results of `program` move, in double.
at::Tensor moved(const ir::Program& program, int which, const at::Tensor& x) {
  const ir::Program other = disturb(program, which);
  EXPECT_EQ(ir::verify(other), "") << ir::print(other);
  return test::interpret(other, {x})[0] - test::interpret(program, {x})[0];
}

/// Sums of rows of float, kept as double.
ir::Program row_sums(int64_t rows, int64_t columns, ir::ReduceOp op = ir::ReduceOp::Sum,
                     c10::ScalarType type = c10::ScalarType::Float) {
  ProgramBuilder b;
  const ir::View in = b.argument({rows, columns}, type);
  b.reduce_last(b.output({rows}, c10::ScalarType::Double), op, in, c10::ScalarType::Double);
  return b.program;
}

TEST(Disturb, MovesASumByAPartOfWhatIsAdded) {
  const at::Tensor x = at::tensor({1000.F, -1000.F, 3.F, -3.F}).view({1, 4});
  const double part = kFloatSpacing * (4 + std::sqrt(4.0) / 16);
  const at::Tensor by = moved(row_sums(1, 4), 1, x);
  EXPECT_NEAR(by.item<double>(), part * 2006, part);
}

TEST(Disturb, LongSumsLoseMore) {
  const at::Tensor x = at::ones({1, 25600});
  const double part = kFloatSpacing * (4 + 10), last = kFloatSpacing;
  const at::Tensor by = moved(row_sums(1, 25600), 1, x);
  EXPECT_NEAR(by.item<double>(), (part + last) * 25600, kFloatSpacing);
}

TEST(Disturb, TheFirstIsTheProgramItself) {
  const at::Tensor x = at::ones({4, 3});
  EXPECT_TRUE(at::equal(moved(row_sums(4, 3), 0, x), at::zeros({4}, at::kDouble)));
  EXPECT_NE(ir::print(disturb(row_sums(4, 3), 0)), ir::print(row_sums(4, 3)));
}

TEST(Disturb, OtherElementsTheOtherWay) {
  const at::Tensor x = at::ones({4, 3});
  const at::Tensor up = moved(row_sums(4, 3), 1, x), turns = moved(row_sums(4, 3), 3, x);
  EXPECT_TRUE(at::equal(turns, up * at::tensor({1, -1, 1, -1}, at::kDouble)));
}

/// A product of few terms that is written out: by 4 units and one of the result's own.
TEST(Disturb, MovesProductsWithoutASum) {
  constexpr int kProduct = 7;
  const std::map<int, int64_t> written_out{{kProduct, 1}};
  for (const auto& [type, units] :
       {std::pair(at::kFloat, 5.0625 * 0x1p-23), std::pair(at::kDouble, 5.0625 * 0x1p-52),
        std::pair(at::kBFloat16, 0x1p-7)}) {
    ProgramBuilder b;
    const ir::View in = b.argument({4, 2}, type), out = b.output({4}, type);
    const auto product = [to = type](ir::Value p, ir::Value q) {
      return (p.to(opmath(to)) * q.to(opmath(to))).to(to);
    };
    b.map(out, product, column(in, 0), column(in, 1));
    std::get<ir::Statement>(b.program.items.back()).record = kProduct;
    const at::Tensor x = at::tensor({1., 8., 2., 8., 1., 8., 2., 8.}).view({4, 2}).to(type);
    EXPECT_TRUE(at::equal(moved(b.program, 1, x), at::zeros({4}, type)));
    const ir::Program other = disturb(b.program, 3, written_out);
    EXPECT_EQ(ir::verify(other), "") << ir::print(other);
    const at::Tensor by = test::interpret(other, {x})[0].to(at::kDouble) -
                          test::interpret(b.program, {x})[0].to(at::kDouble);
    const at::Tensor part = by / at::tensor({8., 16., 8., 16.}) / units;
    EXPECT_TRUE(at::allclose(part, at::tensor({1., -1., 1., -1.}), 0.25)) << type << part;
  }
}

TEST(Disturb, LeavesInfiniteSumsAlone) {
  const at::Tensor x = at::full({1, 3}, std::numeric_limits<float>::infinity());
  for (int way = 0; way < kDisturbances; ++way)
    EXPECT_TRUE(at::isinf(test::interpret(disturb(row_sums(1, 3), way), {x})[0]).item<bool>());
}

TEST(Disturb, EachWayAlsoBack) {
  const at::Tensor x = at::ones({4, 3});
  for (int way = 1; way <= kWays; ++way)
    EXPECT_TRUE(at::equal(moved(row_sums(4, 3), way + kWays, x), -moved(row_sums(4, 3), way, x)))
        << way;
}

TEST(Disturb, OtherSumsTheOtherWay) {
  ProgramBuilder b;
  const ir::View in = b.argument({2, 3});
  const ir::View first = b.temporary({2}, c10::ScalarType::Double),
                 second = b.temporary({2}, c10::ScalarType::Double),
                 out = b.output({2}, c10::ScalarType::Double);
  b.reduce_last(first, ir::ReduceOp::Sum, in, c10::ScalarType::Double);
  b.reduce_last(second, ir::ReduceOp::Sum, in, c10::ScalarType::Double);
  b.map(out, [](ir::Value p, ir::Value q) { return p - q; }, first, second);
  const at::Tensor x = at::ones({2, 3});
  EXPECT_TRUE(at::equal(moved(b.program, 1, x), at::zeros({2}, at::kDouble)));
  EXPECT_TRUE((moved(b.program, 2, x) > 0).all().item<bool>());
}

TEST(Disturb, AProductByAPartOfItself) {
  const at::Tensor x = at::full({1, 9}, 2.0, at::kFloat);
  ProgramBuilder b;
  const ir::View in = b.argument({1, 9});
  b.reduce_last(b.output({1}), ir::ReduceOp::Prod, in, c10::ScalarType::Double);
  const double by = moved(b.program, 1, x).item<double>();
  EXPECT_NEAR(by, 512 * kFloatSpacing * (3 + 1), 512 * kFloatSpacing);
}

TEST(Disturb, LeavesExactReductionsAlone) {
  EXPECT_EQ(
      moved(row_sums(2, 3, ir::ReduceOp::Max), 1, at::ones({2, 3})).abs().sum().item<double>(), 0);
  ProgramBuilder b;
  const ir::View in = b.argument({2, 3}, c10::ScalarType::Long);
  b.reduce_last(b.output({2}, c10::ScalarType::Long), ir::ReduceOp::Sum, in, c10::ScalarType::Long);
  EXPECT_EQ(ir::print(disturb(b.program, 1)), ir::print(b.program));
}

}  // namespace
}  // namespace graft::passes
