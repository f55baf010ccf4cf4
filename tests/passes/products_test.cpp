// Matrix products as statements of kernels: which calls become some, and which stay calls.
#include "passes/products.h"

#include <gtest/gtest.h>

#include <array>

#include "build.h"

namespace graft::passes {
namespace {

struct Products : ProgramBuilder {
  /// A call of bmm that may be loops.
  ir::View bmm(ir::View left, ir::View right, ir::View out) {
    ir::Extern call;
    call.op = {"aten::bmm", ""};
    call.inputs = {left, right};
    for (int k : {0, 1}) call.slots.push_back({OperandKind::Tensor, {}, {k}});
    call.outputs = {out};
    call.written = {out.storage};
    call.record = static_cast<int>(program.items.size());
    call.may_be_loops = true;
    program.storages[static_cast<size_t>(out.storage)].made_by_extern = true;
    program.items.emplace_back(std::move(call));
    return out;
  }
  /// The softmax of `x` over its last axis.
  ir::View softmax(const ir::View& x) {
    std::vector<int64_t> rows = x.sizes;
    rows.back() = 1;
    ir::View most = temporary(rows), sum = temporary(rows), out = temporary(x.sizes);
    reduce_last(most, ir::ReduceOp::Max, x, kFloat);
    ir::View powers = temporary(x.sizes);
    map(
        powers, [](ir::Value a, ir::Value m) { return ir::call(ir::Routine::NearExp, a - m); }, x,
        most);
    reduce_last(sum, ir::ReduceOp::Sum, powers, kFloat);
    map(out, [](ir::Value a, ir::Value s) { return a / s; }, powers, sum);
    return out;
  }
};

ir::View transposed(ir::View view) {
  std::swap(view.sizes[1], view.sizes[2]);
  std::swap(view.strides[1], view.strides[2]);
  return view;
}

Products attention(int64_t queries, int64_t keys) {
  Products b;
  const ir::View q = b.argument({4, queries, 32}), k = b.argument({4, keys, 32}),
                 v = b.argument({4, keys, 32});
  const ir::View scores = b.bmm(q, transposed(k), b.temporary({4, queries, keys}));
  b.bmm(b.softmax(scores), v, b.output({4, queries, 32}));
  return b;
}

TEST(ProductsPass, AttentionIsOneKernel) {
  const std::string text = schedule_of(attention(512, 512));
  EXPECT_EQ(count_of("  product", text), 2u) << text;
  EXPECT_EQ(count_of("kernel ", text), 2u) << "one copies the keys\n" << text;
  EXPECT_EQ(count_of("aten::", text), 0u) << text;
}

/// A product that `recompute` made again has its record.
TEST(ProductsPass, ProductsThatAreMadeAgainAreInKernels) {
  Products b;
  const ir::View q = b.argument({4, 512, 32}), k = b.argument({4, 512, 32});
  std::vector<int> records;
  for (int made = 0; made < 2; ++made) {
    const ir::View v = b.argument({4, 512, 32}),
                   scores = b.bmm(q, transposed(k), b.temporary({4, 512, 512}));
    records.push_back(static_cast<int>(b.program.items.size()) - 1);
    b.bmm(b.softmax(scores), v, b.output({4, 512, 32}));
  }
  auto& again = std::get<ir::Extern>(b.program.items[static_cast<size_t>(records[1])]);
  again.record = records[0];
  const std::string text = schedule_of(b);
  EXPECT_EQ(count_of("  product", text), 4u) << text;
  EXPECT_EQ(count_of("aten::", text), 0u) << text;
}

/// The last rows are a kernel of their own, with scratch of its own.
TEST(ProductsPass, RowsThatAreLeftAreAKernel) {
  const std::string text = schedule_of(attention(515, 512));
  EXPECT_EQ(count_of("  product", text), 4u) << text;
  EXPECT_EQ(count_of("aten::", text), 0u) << text;
}

/// They multiply with what the one before them multiplied with; not with the next head's, though
/// heads lie closer in the result.
TEST(ProductsPass, BlocksOfRowsFollowEachOther) {
  Products b;
  const ir::View q = b.argument({4, 512, 32}), k = b.argument({4, 512, 32}),
                 v = b.argument({4, 512, 32});
  const ir::View scores = b.bmm(q, transposed(k), b.temporary({4, 512, 512}));
  ir::View out = b.output({512, 4, 32});
  std::swap(out.sizes[0], out.sizes[1]);
  std::swap(out.strides[0], out.strides[1]);
  const ir::View sums = b.bmm(b.softmax(scores), v, b.temporary({4, 512, 32}));
  b.map(out, [](ir::Value x) { return x; }, sums);
  const std::string text = schedule_of(b);
  EXPECT_EQ(count_of(" v0:4 v1:8", text), 1u) << text;
}

/// Scores take over by the probabilities' rows: one of them in scratch.
TEST(ProductsPass, ProbabilitiesLieInTheScoresPlace) {
  const std::string text = schedule_of(attention(512, 512));
  EXPECT_EQ(count_of(": " + std::to_string(64 * 528 * 4) + " bytes", text), 1u) << text;
}

/// Scores under a causal mask; `kept`: another statement reads all of them.
std::string masked(bool kept) {
  Products b;
  const ir::View q = b.argument({4, 512, 32}), k = b.argument({4, 512, 32}),
                 v = b.argument({4, 512, 32}), seen = b.temporary({4, 512, 512});
  const ir::View scores = b.bmm(q, transposed(k), b.temporary({4, 512, 512}));
  ir::StatementBuilder s(seen.sizes);
  const ir::Value x = s.load(scores);
  b.program.items.emplace_back(
      s.store(seen, ir::select(ir::gt(s.axis(2), s.axis(1)), x.like(-1e9), x)));
  if (kept) b.reduce_last(b.output({4, 512, 1}), ir::ReduceOp::Max, scores, kFloat);
  b.bmm(b.softmax(seen), v, b.output({4, 512, 32}));
  return schedule_of(b);
}

TEST(ProductsPass, ColumnsThatAMaskLeavesOutAreNotNeeded) {
  const std::string text = masked(false);
  EXPECT_EQ(count_of("  product where %", text), 1u) << text;
  EXPECT_EQ(count_of("reduced = or.bool", text), 1u) << text;
  EXPECT_EQ(count_of("  product where %", masked(true)), 0u) << "all are read";
}

TEST(ProductsPass, WhatDoesNotFitTheCacheStaysCalls) {
  const std::string text = schedule_of(attention(512, 200000));
  EXPECT_EQ(count_of("  product", text), 0u) << text;
  EXPECT_EQ(count_of("aten::bmm", text), 2u) << text;
}

TEST(ProductsPass, AProductAloneStaysACall) {
  Products b;
  b.bmm(b.argument({4, 512, 32}), b.argument({4, 32, 512}), b.output({4, 512, 512}));
  EXPECT_EQ(count_of("aten::bmm", schedule_of(b)), 1u);
}

/// The left operand's matrix is the same for all experts, whose matrices are columns to a product.
TEST(ProductsPass, ExpertsOfOneInputAreOneKernel) {
  Products b;
  ir::View x = b.argument({1, 256, 256});
  x.sizes[0] = 8, x.strides[0] = 0;
  const ir::View wide = b.bmm(x, b.argument({8, 256, 512}), b.temporary({8, 256, 512})),
                 gate = b.bmm(x, b.argument({8, 256, 512}), b.temporary({8, 256, 512})),
                 both = b.temporary({8, 256, 512});
  b.map(both, [](ir::Value a, ir::Value g) { return a * g; }, wide, gate);
  b.bmm(both, b.argument({8, 512, 256}), b.output({8, 256, 256}));
  const std::string text = schedule_of(b);
  EXPECT_EQ(count_of("kernel ", text), 1u) << text;
  EXPECT_EQ(count_of("  product", text), 3u) << text;
  EXPECT_EQ(count_of(" v0:8 v1:", text), 1u) << "an expert at a time: " << text;
}

/// Columns that stay in half the second cache, of 1 MiB, while blocks of rows come to them.
TEST(ProductsPass, ColumnsOfATileStayInTheCacheForAMX) {
  const auto tiles = [](int64_t terms, int64_t columns) {
    Products b;
    b.bmm(b.argument({1, 1024, terms}, at::kBFloat16),
          b.argument({1, terms, columns}, at::kBFloat16),
          b.output({1, 1024, columns}, at::kBFloat16));
    std::get<ir::Extern>(b.program.items.back()).may_be_alone = true;
    Settings settings;
    settings.target.lanes = 16;
    settings.target.short_products = settings.target.matrix_tiles = true;
    return schedule_of(b, {}, settings);
  };
  for (auto [terms, columns, wanted] :
       {std::array<int64_t, 3>{2048, 704, 11}, {2048, 1024, 8}, {1024, 1024, 4}, {8192, 1120, 7}}) {
    const std::string text = tiles(terms, columns);
    EXPECT_EQ(count_of(":" + std::to_string(wanted) + " v0:16\n", text), 1u) << text;
  }
}

/// Blocks of a few rows would walk all of a large right operand; 1200 columns are 75 vectors.
TEST(ProductsPass, ColumnsAreCutAtVectors) {
  Products b;
  const ir::View all = b.temporary({1, 256, 1200});
  b.bmm(b.argument({1, 256, 512}), b.argument({1, 512, 1200}), all);
  b.map(
      b.output({1, 256, 1200}), [](ir::Value a, ir::Value m) { return a * m; }, all,
      b.argument({1, 256, 1200}));
  Settings settings;
  settings.target.times.product_flop = 0.00175;
  const std::string text = schedule_of(b, {}, settings);
  EXPECT_EQ(count_of("kernel ", text), 1u) << text;
  EXPECT_EQ(count_of("  product", text), 1u) << text;
  EXPECT_EQ(count_of(":240\n", text), 2u) << "both in tiles of 240: " << text;
}

/// What is added stays with the product, which alone would be a call, though the softmax behind it
/// gained more by it.
TEST(ProductsPass, KeepTheirCompany) {
  Products b;
  const ir::View made = b.temporary({1, 512, 384}), added = b.temporary({1, 512, 384});
  b.bmm(b.argument({1, 512, 1536}), b.argument({1, 1536, 384}), made);
  b.map(added, [](ir::Value a, ir::Value r) { return a + r; }, made, b.argument({1, 512, 384}));
  b.map(b.output({1, 512, 384}), [](ir::Value a) { return -a; }, b.softmax(added));
  Settings settings;
  settings.target.times.product_flop = 0.00175;
  const std::string text = schedule_of(b, {}, settings);
  EXPECT_EQ(count_of("aten::bmm", text), 0u) << text;
  EXPECT_EQ(count_of("kernel ", text), 3u) << "one puts columns side by side: " << text;
}

TEST(ProductsPass, AreWorthIt) {
  ir::Target target;
  auto count = [&](std::vector<int64_t> left, int64_t columns) {
    Products b;
    b.bmm(b.argument(left), b.argument({left[0], left[2], columns}),
          b.output({left[0], left[1], columns}));
    return worth_loops(b.program, target).size();
  };
  EXPECT_EQ(count({8, 512, 64}, 512), 1u);
  EXPECT_EQ(count({8, 512, 512}, 64), 1u);
  EXPECT_EQ(count({8, 64, 64}, 64), 0u) << "in the cache";
  EXPECT_EQ(count({1, 2048, 2048}, 2048), 0u) << "arithmetic";
  target.times.product_flop = target.times.call_flop / 2;
  EXPECT_EQ(count({8, 64, 64}, 64), 1u) << "faster than ATen's";
}

/// Without instructions for fp16 ATen multiplies it by loops of its own.
TEST(ProductsPass, OfHalfPrecisionAreWorthItAlone) {
  const auto half = ScalarType::Half;
  Products b;
  b.bmm(b.argument({1, 64, 64}, half), b.argument({1, 64, 64}, half), b.output({1, 64, 64}, half));
  const auto worth = worth_loops(b.program, {});
  ASSERT_EQ(worth.size(), 1u);
  EXPECT_TRUE(worth[0].alone);
  ir::Target able;
  able.half_instructions = true;
  EXPECT_TRUE(worth_loops(b.program, able).empty());
}

}  // namespace
}  // namespace graft::passes
