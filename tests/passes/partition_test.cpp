// Partition: what a region's backward keeps of its forward, and what it computes again.
#include "passes/partition.h"

#include <gtest/gtest.h>

#include "build.h"
#include "passes/min_cut.h"

namespace graft::passes {
namespace {

using ir::Value;

const std::vector<int64_t> kSizes = {64, 128};

Partition cut(const ProgramBuilder& b, size_t arguments, size_t results,
              bool least_memory = false) {
  ir::Program joint = b.program;
  joint.signature.arguments = b.arguments;
  Partition parts = partition(joint, {arguments, results, 0}, {ir::Target(), least_memory});
  if (parts.refused) return parts;
  EXPECT_EQ(ir::verify(parts.forward), "");
  EXPECT_EQ(ir::verify(parts.backward), "");
  return parts;
}

Value times(Value x, Value y) {
  return x * y;
}

/// h = 2 x, y = h^2, dx = g h: one argument, one result.
ProgramBuilder square_of_double(const std::vector<int64_t>& sizes) {
  ProgramBuilder b;
  auto x = b.argument(sizes), g = b.argument(sizes);
  auto h = b.temporary(sizes), y = b.output(sizes), dx = b.output(sizes);
  b.map(h, [](Value v) { return v * 2.0; }, x);
  b.map(y, [](Value v) { return v * v; }, h);
  b.map(dx, times, g, h);
  return b;
}

/// A call of ATen's, which is never made twice.
void call(ProgramBuilder& b, const ir::View& out, const ir::View& in) {
  ir::Extern made{{"aten::made", ""}, {}, {in}, {out}, {out.storage}, 0};
  made.slots.push_back({ir::Extern::Slot::Kind::Tensor, {}, {0}});
  b.program.storages[static_cast<size_t>(out.storage)].made_by_extern = true;
  b.program.items.emplace_back(made);
}

TEST(Partition, CheapStepsAreComputedAgain) {
  const ProgramBuilder b = square_of_double(kSizes);
  const Partition parts = cut(b, 1, 1);
  ASSERT_FALSE(parts.refused);
  EXPECT_TRUE(parts.kept.empty());
  EXPECT_EQ(parts.kept_bytes, 0);
  EXPECT_EQ(items(parts.forward),
            "[a:64,b:128] %2[a*128+b] f32 = (%0[a*128+b] * 2)\n"
            "[a:64,b:128] %3[a*128+b] f32 = (%2[a*128+b] * %2[a*128+b])\n");
  EXPECT_EQ(items(parts.backward),
            "[a:64,b:128] %2[a*128+b] f32 = (%0[a*128+b] * 2)\n"
            "[a:64,b:128] %4[a*128+b] f32 = (%1[a*128+b] * %2[a*128+b])\n");
}

/// What both sides compute of the argument, where that takes longer than keeping it.
TEST(Partition, SlowFunctionsOfBothSidesAreKept) {
  auto parts_of = [](bool least_memory) {
    const std::vector<int64_t> sizes = {512, 512};
    ProgramBuilder b;
    auto x = b.argument(sizes), g = b.argument(sizes), y = b.output(sizes), dx = b.output(sizes);
    auto slow = [](Value v) { return ir::call(ir::Routine::VectorErfc, v); };
    b.map(y, [&](Value v) { return v * slow(v); }, x);
    b.map(dx, [&](Value u, Value v) { return u * slow(v); }, g, x);
    return cut(b, 1, 1, least_memory);
  };
  const Partition parts = parts_of(false);
  EXPECT_EQ(parts.kept, std::vector<int>{4});
  EXPECT_EQ(items(parts.forward),
            "[a:512,b:512] %4[a*512+b] f32 = VectorErfc(%0[a*512+b])\n"
            "[a:512,b:512] %2[a*512+b] f32 = (%0[a*512+b] * %4[a*512+b])\n");
  EXPECT_EQ(items(parts.backward), "[a:512,b:512] %3[a*512+b] f32 = (%1[a*512+b] * %4[a*512+b])\n");
  EXPECT_TRUE(parts_of(true).kept.empty());
}

TEST(Partition, CallsAreKept) {
  ProgramBuilder b;
  auto x = b.argument(kSizes), g = b.argument(kSizes);
  auto h = b.temporary(kSizes), k = b.temporary(kSizes), y = b.output(kSizes),
       dx = b.output(kSizes);
  call(b, h, x);
  b.map(k, [](Value v) { return v + 1.0; }, h);
  b.map(y, [](Value v) { return v * v; }, k);
  b.map(dx, [](Value u, Value v, Value w) { return u * v * w; }, g, k, h);
  const Partition parts = cut(b, 1, 1);
  ASSERT_FALSE(parts.refused);
  EXPECT_EQ(parts.kept, std::vector<int>{h.storage}) << "k is one step from it";
  EXPECT_EQ(parts.kept_bytes, 64 * 128 * 4);
  EXPECT_EQ(parts.forward.signature.results.size(), 2u);
  EXPECT_EQ(parts.backward.signature.arguments.size(), 3u);
  EXPECT_EQ(parts.backward.storages[static_cast<size_t>(h.storage)].role, ir::Role::Argument);
  EXPECT_EQ(parts.backward.storages[static_cast<size_t>(x.storage)].role, ir::Role::Temporary)
      << "the backward does not need x";
}

TEST(Partition, AResultIsNearerThanWhatItIsMadeOf) {
  // y = x + r, z = y * w: the backward needs y, which is a result, not x and r.
  ProgramBuilder b;
  auto x = b.argument(kSizes), r = b.argument(kSizes), g = b.argument(kSizes);
  auto y = b.output(kSizes), dw = b.output(kSizes);
  b.map(y, [](Value u, Value v) { return u + v; }, x, r);
  b.map(dw, times, g, y);
  const Partition parts = cut(b, 2, 1);
  ASSERT_FALSE(parts.refused);
  EXPECT_EQ(parts.kept, std::vector<int>{y.storage});
  EXPECT_EQ(parts.kept_bytes, 0) << "it is there anyway";
}

TEST(Partition, RowSumsAreKeptRatherThanRowsReadTwice) {
  ProgramBuilder b;
  auto x = b.argument({64, 4096}), g = b.argument({64, 4096});
  auto s = b.temporary({64}), y = b.output({64, 4096}), dx = b.output({64, 4096});
  b.reduce_last(s, ir::ReduceOp::Sum, x, kDouble);
  auto rows = s;
  rows.sizes.push_back(4096), rows.strides.push_back(0);
  b.map(y, times, x, rows);
  b.map(dx, times, g, rows);
  const Partition parts = cut(b, 1, 1);
  ASSERT_FALSE(parts.refused);
  EXPECT_EQ(parts.kept, std::vector<int>{s.storage});
}

/// What a product makes far larger than its operands is computed again, of itself or by maps.
TEST(Partition, ExpandedProductsAreComputedAgain) {
  auto kept = [](int64_t terms) {
    const std::vector<int64_t> left = {1024, terms}, right = {terms, 1024}, large = {1024, 1024};
    ProgramBuilder b;
    auto x = b.argument(left), w = b.argument(right), g = b.argument(large);
    auto s = b.temporary(large), p = b.temporary(large), y = b.output(large), dx = b.output(large);
    ir::Extern product{{"aten::mm", ""}, {}, {x, w}, {s}, {s.storage}, 0};
    for (int k : {0, 1}) product.slots.push_back({OperandKind::Tensor, {}, {k}});
    product.may_be_loops = true;
    b.program.storages[static_cast<size_t>(s.storage)].made_by_extern = true;
    b.program.items.emplace_back(product);
    b.map(p, [](Value v) { return v * 0.5; }, s);
    b.map(y, times, p, p);
    b.map(dx, times, g, p);
    return cut(b, 2, 1).kept;
  };
  EXPECT_TRUE(kept(64).empty());
  EXPECT_EQ(kept(1024).size(), 1u) << "as large as its operands, and long to compute";
}

TEST(Partition, LeastMemoryComputesWhatItCan) {
  EXPECT_EQ(cut(square_of_double({4}), 1, 1, /*least_memory=*/true).kept_bytes, 0);
}

TEST(Partition, WhatIsOverwrittenIsNotKept) {
  // h is read, then changed: what lies in it in the end is not what the backward's t was made of.
  ProgramBuilder b;
  auto x = b.argument(kSizes), g = b.argument(kSizes);
  auto h = b.temporary(kSizes), t = b.temporary(kSizes), y = b.output(kSizes),
       dx = b.output(kSizes);
  call(b, h, x);
  b.map(t, [](Value v) { return v + 1.0; }, h);
  b.map(h, [](Value v) { return v * 2.0; }, h);
  b.map(y, times, h, t);
  b.map(dx, times, g, t);
  const Partition parts = cut(b, 1, 1);
  ASSERT_FALSE(parts.refused);
  EXPECT_EQ(parts.kept, std::vector<int>{t.storage});
}

TEST(Partition, RefusesABackwardThatNeedsWhatTheForwardChanged) {
  ProgramBuilder b;
  auto x = b.argument(kSizes), g = b.argument(kSizes);
  auto dx = b.output(kSizes), y = b.output(kSizes);
  std::swap(b.program.signature.results[0], b.program.signature.results[1]);
  b.map(y, [](Value v) { return v + 1.0; }, x);
  b.map(x, [](Value v) { return v * 2.0; }, x);
  b.map(dx, times, g, x);
  EXPECT_TRUE(cut(b, 1, 1).refused);
}

TEST(MinCut, TakesTheCheapestSeparation) {
  // source → 2 → sink and source → 2 → 3 → sink
  MinCut graph(4);
  graph.edge(0, 2, 5);
  graph.edge(2, 1, 2);
  graph.edge(2, 3, 4);
  graph.edge(3, 1, 1);
  EXPECT_EQ(graph.cut(0, 1), (std::vector<bool>{true, false, true, true}));
  MinCut hopeless(2);
  hopeless.edge(0, 1, MinCut::kNever);
  EXPECT_TRUE(hopeless.cut(0, 1).empty());
}

}  // namespace
}  // namespace graft::passes
