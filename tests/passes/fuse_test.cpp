// Fuse: which statements become one kernel, and which must not.
#include "passes/fuse.h"

#include <gtest/gtest.h>

#include "build.h"
#include "ir/parse.h"
#include "support/text.h"

namespace graft::passes {
namespace {

using ir::ReduceOp;
using ir::Value;

TEST(Fuse, ResidualAndRmsNormIsOnePassOverMemory) {
  ProgramBuilder b;
  auto x = b.argument({4096, 2048}, kBFloat16), r = b.argument({4096, 2048}, kBFloat16),
       w = b.argument({2048}, kBFloat16);
  auto h = b.output(x.sizes, kBFloat16);
  auto f = b.temporary(x.sizes), square = b.temporary(x.sizes), sum = b.temporary({4096, 1}),
       scale = b.temporary({4096, 1});
  auto y = b.temporary(x.sizes, kBFloat16), out = b.output(x.sizes, kBFloat16);
  b.map(h, [](Value a, Value c) { return (a.to(kFloat) + c.to(kFloat)).to(kBFloat16); }, x, r);
  b.map(f, [](Value a) { return a.to(kFloat); }, h);
  b.map(square, [](Value a) { return a * a; }, f);
  b.reduce_last(sum, ReduceOp::Sum, square, kDouble);
  b.map(scale, [](Value a) { return 1.0 / (a / 2048.0).op(ir::Op::Sqrt); }, sum);
  b.map(y, [](Value a, Value c) { return (a * c).to(kBFloat16); }, f, scale);
  b.map(out, [](Value a, Value c) { return (a.to(kFloat) * c.to(kFloat)).to(kBFloat16); }, y, w);
  EXPECT_EQ(schedule_of(b),
            "kernel map_sum_map v0:4096\n"
            "  scratch %6: 4 bytes at 0\n"
            "  scratch %7: 4 bytes at 64\n"
            "  scratch %10: 4096 bytes at 128\n"
            "  vector v1:2048\n"
            "    %3[v0*2048+v1] bf16 = bf16((f32(%0.bf16[v0*2048+v1]) + f32(%1.bf16[v0*2048+v1]))) "
            " streamed  ahead %1 by v0+1 %0 by v0+1\n"
            "    %10[v1] bf16 = bf16((f32(%0.bf16[v0*2048+v1]) + f32(%1.bf16[v0*2048+v1])))\n"
            "    %6[0] f32 = f32(reduced)  reduced = sum.f64{v1} (t1 * t1); t1 = "
            "f32(%10.bf16[v1])\n"
            "  %7[0] f32 = (1 / sqrt((%6[0] / 2048)))\n"
            "  vector v2:2048\n"
            "    %9[v0*2048+v2] bf16 = bf16((f32(bf16((f32(%10.bf16[v2]) * %7[0]))) * "
            "f32(%2.bf16[v2])))  "
            "streamed\n"
            "result 0 = %3 bf16[4096,2048]:(2048,1)\n"
            "result 1 = %9 bf16[4096,2048]:(2048,1)\n");
}

TEST(Fuse, SoftmaxRunsRowByRowInScratch) {
  ProgramBuilder b;
  auto s = b.argument({64, 256, 256}), mask = b.argument({256, 256});
  auto t = b.temporary(s.sizes), most = b.temporary({64, 256, 1}), e = b.temporary(s.sizes),
       sum = b.temporary({64, 256, 1}), out = b.output(s.sizes);
  b.map(t, [](Value a, Value m) { return a * 0.125 + m; }, s, mask);
  b.reduce_last(most, ReduceOp::Max, t, kFloat);
  b.map(e, [](Value a, Value m) { return call(ir::Routine::NearExp, a - m); }, t, most);
  b.reduce_last(sum, ReduceOp::Sum, e, kDouble);
  b.map(out, [](Value a, Value m) { return a / m; }, e, sum);
  std::string text = schedule_of(b);
  EXPECT_NE(text.find("kernel map_max_map_sum_map v0:64 v1:256\n"), std::string::npos) << text;
  EXPECT_NE(text.find("%2[v2] f32 = ((%0[v0*65536+v1*256+v2] * 0.125) + %1[v1*256+v2])"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("arena"), std::string::npos) << text;
}

TEST(Fuse, ShiftedInPlaceReadsStayApart) {
  ProgramBuilder b;
  auto x = b.argument({1 << 16});
  auto out = b.output({(1 << 16) - 1});
  b.map(x, [](Value a) { return a + 1.0; }, x);
  b.map(
      out, [](Value a) { return a * 2.0; },
      slice(x, 0, 1, 1 << 16));  // reads what a neighbouring iteration stored
  std::string text = schedule_of(b);
  EXPECT_EQ(text.find("kernel map"), 0u);
  EXPECT_NE(text.find("kernel map", 1), std::string::npos) << text;
}

TEST(Fuse, UnrelatedUpdatesStaySeparateKernels) {
  ProgramBuilder b;
  for (int k = 0; k < 3; ++k) {
    auto p = b.argument({1 << 20}), g = b.argument({1 << 20});
    b.map(p, [](Value a, Value c) { return a - c * 0.1; }, p, g);
  }
  std::string text = schedule_of(b);
  EXPECT_EQ(count_of("kernel ", text), 3u) << text;
}

/// What is made for all of a list, before any of it is used, moves down to its use.
TEST(Fuse, ListsThatAreWalkedTwiceAreWalkedOnce) {
  ProgramBuilder b;
  std::vector<ir::View> made, used;
  for (int k = 0; k < 3; ++k) {
    auto g = b.argument({1 << 20});
    made.push_back(b.temporary({1 << 20}));
    b.map(made.back(), [](Value a) { return a * 0.5; }, g);
  }
  for (int k = 0; k < 3; ++k) {
    auto p = b.argument({1 << 20});
    b.map(p, [](Value a) { return a * 0.9; }, p);
    used.push_back(p);
  }
  for (int k = 0; k < 3; ++k)
    b.map(used[k], [](Value a, Value c) { return a - c; }, used[k], made[k]);
  std::string text = schedule_of(b);
  EXPECT_EQ(count_of("kernel ", text), 3u) << text;
}

/// What shares its input with a sum, but is used where that sum is known, is made where it is used.
TEST(Fuse, WhatIsReadBehindASumIsMadeBehindIt) {
  std::string text = schedule_of(ir::parse(R"(
argument 0 = %0 bf16[1024,1024]:(1024,1)
argument 1 = %1 f32[1024,1024]:(1024,1)
argument 2 = %2 f32[1024,1024]:(1024,1)
%0: argument 0, 2097152 bytes
%1: argument 1, 4194304 bytes
%2: argument 2, 4194304 bytes
%3: temporary, 4 bytes
%4: temporary, 4194304 bytes
[a:1024,b:1024] %3[0] f32 = reduced  reduced = max.f32{a,b} abs(f32(%0.bf16[a*1024+b]))
[a:1024,b:1024] %4[a*1024+b] f32 = ((%1.f32[a*1024+b] * $0.9) + f32(%0.bf16[a*1024+b]))
[a:1024,b:1024] %1[a*1024+b] f32 = (%4.f32[a*1024+b] * %3.f32[0])
[a:1024,b:1024] %2[a*1024+b] f32 = (%2.f32[a*1024+b] - (%4.f32[a*1024+b] / %3.f32[0]))
)"));
  EXPECT_EQ(count_of("kernel ", text), 3u) << text;
  EXPECT_GT(text.find(" %4["), text.rfind("kernel ")) << text;
}

/// The gradient of a norm of x + y, and of its weight: what is begun before the row's sum is known,
/// and needs nothing of it yet, joins the blocks of rows where it is finished.
TEST(Fuse, WhatIsFinishedBehindASumRisesToIt) {
  std::string text = schedule_of(ir::parse(R"(
argument 0 = %0 f32[4096,2048]:(2048,1)
argument 1 = %1 f32[4096,2048]:(2048,1)
argument 2 = %2 f32[2048]:(1)
argument 3 = %3 f32[4096,2048]:(2048,1)
%0: argument 0, 33554432 bytes
%1: argument 1, 33554432 bytes
%2: argument 2, 8192 bytes
%3: argument 3, 33554432 bytes
%4: temporary, 33554432 bytes
%5: output, 8192 bytes
%6: output, 33554432 bytes
%7: temporary, 16384 bytes
[a:4096,b:2048] %4[a*2048+b] f32 = (%0[a*2048+b] + %1[a*2048+b])
[a:4096,b:2048] %5[b] f32 = f32(reduced)  reduced = sum.f64{a} (%3.f32[a*2048+b] * %4[a*2048+b])
[a:4096,b:2048] %6[a*2048+b] f32 = (%3[a*2048+b] * %2[b])
[a:4096,b:2048] %7[a] f32 = f32(reduced)  reduced = sum.f64{b} ((%3.f32[a*2048+b] * %2[b]) * %4[a*2048+b])
[a:4096,b:2048] %6[a*2048+b] f32 = (%6[a*2048+b] + (%7[a] * %4[a*2048+b]))
result 0 = %6 f32[4096,2048]:(2048,1)
result 1 = %5 f32[2048]:(1)
)"));
  EXPECT_EQ(count_of("kernel ", text), 2u) << text;
  EXPECT_LT(text.find(" %6["), text.rfind("kernel ")) << text;
}

/// A number that is computed makes one tile, which a large map does not wait in.
TEST(Fuse, ALargeMapKeepsItsTilesBehindAComputedScalar) {
  std::string text = schedule_of(ir::parse(R"(
argument 0 = %0 f32[1]:(1)
argument 1 = %1 f32[67108864]:(1)
%0: argument 0, 4 bytes
%1: argument 1, 268435456 bytes
%2: temporary, 4 bytes
[] %2[0] f32 = sqrt(%0.f32[0])
[a:67108864] %1[a] f32 = (%1[a] * %2.f32[0])
)"));
  EXPECT_EQ(count_of("kernel ", text), 2u) << text;
}

/// What each row needs of itself is computed with the row.
TEST(Fuse, AFactorOfEachRowJoinsItsRow) {
  std::string text = schedule_of(ir::parse(R"(
argument 0 = %0 f32[2048,4096]:(4096,1)
%0: argument 0, 33554432 bytes
%1: temporary, 8192 bytes
%2: temporary, 8192 bytes
%3: output, 33554432 bytes
[a:2048,b:4096] %1[a] f32 = reduced  reduced = max.f32{b} abs(%0.f32[a*4096+b])
[a:2048] %2[a] f32 = (%1.f32[a] / $0.5)
[a:2048,b:4096] %3[a*4096+b] f32 = (%0.f32[a*4096+b] / %2.f32[a])
result 0 = %3 f32[2048,4096]:(4096,1)
)"));
  EXPECT_EQ(count_of("kernel ", text), 1u) << text;
}

/// Equal extents are no reason to walk one of two along its columns.
TEST(Fuse, AxesOfOtherStridesAreNotShared) {
  std::string text = schedule_of(ir::parse(R"(
argument 0 = %0 f32[1536,1536]:(1536,1)
%0: argument 0, 9437184 bytes
%1: output, 9431040 bytes
%2: output, 9431040 bytes
[a:1536,b:1535] %1[a*1535+b] f32 = (%0.f32[a*1536+b+1] - %0.f32[a*1536+b])
[a:1535,b:1536] %2[a*1536+b] f32 = (%0.f32[a*1536+b+1536] - %0.f32[a*1536+b])
result 0 = %1 f32[1536,1535]:(1535,1)
result 1 = %2 f32[1535,1536]:(1536,1)
)"));
  EXPECT_EQ(count_of("kernel ", text), 2u) << text;
}

/// A producer that lacks an axis of its reader does not take that axis from it: the softmax that
/// follows needs it.
TEST(Fuse, ABiasThatIsBroadcastLeavesItsReaderItsRows) {
  std::string text = schedule_of(ir::parse(R"(
argument 0 = %0 f32[12,1024,1024]:(1048576,1024,1)
%0: argument 0, 50331648 bytes
%1: temporary, 4194304 bytes
%2: temporary, 50331648 bytes
%3: temporary, 49152 bytes
%4: output, 50331648 bytes
[a:1024,b:1024] %1[a*1024+b] f32 = sqrt(f32(abs((b - a))))
[a:12,b:1024,c:1024] %2[a*1048576+b*1024+c] f32 = (%0.f32[a*1048576+b*1024+c] + %1.f32[b*1024+c])
[a:12,b:1024,c:1024] %3[a*1024+b] f32 = reduced  reduced = max.f32{c} %2.f32[a*1048576+b*1024+c]
[a:12,b:1024,c:1024] %4[a*1048576+b*1024+c] f32 = (%2.f32[a*1048576+b*1024+c] - %3.f32[a*1024+b])
result 0 = %4 f32[12,1024,1024]:(1048576,1024,1)
)"));
  EXPECT_EQ(count_of("kernel ", text), 2u) << text;
  EXPECT_NE(text.find("scratch %3: 4 bytes"), std::string::npos) << text;
}

TEST(Fuse, VisibleStoresStayBehindTheCheck) {
  ProgramBuilder b;
  auto x = b.argument({64});
  auto flag = b.temporary({1}, kBool);
  ir::StatementBuilder s(x.sizes);
  Value bad = s.reduce(ReduceOp::Or, lt(s.load(x), s.constant(0, kFloat)), {true}, kBool);
  b.program.items.emplace_back(s.store(flag, bad));
  b.program.items.emplace_back(ir::Abort{flag.storage, -1});
  b.map(x, [](Value a) { return a + 1.0; }, x);
  std::string text = schedule_of(b);
  EXPECT_TRUE(test::comes_before(text, "abort if", "%0[v0] f32 = "));
}

/// An address that comes from data may be anywhere before the data is checked, results or not.
TEST(Fuse, ReadsByIndexStayBehindTheCheck) {
  ProgramBuilder b;
  auto x = b.argument({64}), out = b.output({8});
  auto index = b.argument({8}, kLong);
  auto flag = b.temporary({1}, kBool);
  ir::StatementBuilder check(index.sizes);
  Value bad = check.reduce(ReduceOp::Or, ge(check.load(index), Value(check.load(index)).like(64)),
                           {true}, kBool);
  b.program.items.emplace_back(check.store(flag, bad));
  b.program.items.emplace_back(ir::Abort{flag.storage, -1});
  ir::StatementBuilder read(out.sizes);
  Value place = read.load(index);
  Value value = read.load(ir::Access{x.storage, kFloat, 0, {0}, {{place.id, 1}}});
  b.program.items.emplace_back(read.store(out, value));
  std::string text = schedule_of(b);
  EXPECT_TRUE(test::comes_before(text, "abort if", "%1[v0] f32 = "));
}

/// What each row stores where its data says is done in the row's tile, between its other steps.
TEST(Fuse, ARowsScatterJoinsWhatTheRowIsMadeOfAndReadBy) {
  std::string text = schedule_of(ir::parse(R"(
    argument 0 = %0 f32[512,4096]:(4096,1)
    argument 1 = %1 i64[2,512]:(512,1)
    %0: argument 0, 8388608 bytes
    %1: argument 1, 8192 bytes
    %2: temporary, 8388608 bytes
    %3: output, 2048 bytes
    [a:512,b:4096] %2[a*4096+b] f32 = (%0[a*4096+b] * 2)
    repeat 2 in order
      [a:2,b:512] %2[b*4096+(%1[a*512+b]:4096)] f32 = (%2[b*4096+(%1[a*512+b]:4096)] - 1)
    [a:512,b:4096] %3[a] f32 = reduced  reduced = max.f32{b} %2[a*4096+b]
    result 0 = %3 f32[512]:(1)
  )"));
  EXPECT_EQ(count_of("kernel ", text), 1u) << text;
  EXPECT_NE(text.find("scratch %2: 16384 bytes"), std::string::npos) << text;
}

}  // namespace
}  // namespace graft::passes
