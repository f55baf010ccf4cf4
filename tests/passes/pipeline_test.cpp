// What the passes make of the programs that matter, held as text.
#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include "build.h"
#include "support/text.h"

namespace graft::passes {
namespace {

using ir::ReduceOp;
using ir::Value;
constexpr auto kFloat = c10::ScalarType::Float;
constexpr auto kDouble = c10::ScalarType::Double;
constexpr auto kBFloat16 = c10::ScalarType::BFloat16;

std::string schedule_of(const ProgramBuilder& b, std::vector<std::string> skip = {},
                        Settings settings = {}) {
  settings.skip = std::move(skip);
  std::string text = ir::print(run(b.program, settings));
  // The grain is a tuning constant, not structure.
  for (size_t at; (at = text.find(" grain ")) != std::string::npos;)
    text.erase(at, text.find('\n', at) - at);
  return text;
}

ProgramBuilder rope() {
  ProgramBuilder b;
  auto q = b.argument({2, 16, 512, 128}), cos = b.argument({512, 128}),
       sin = b.argument({512, 128});
  auto scaled = b.temporary(q.sizes), negative = b.temporary({2, 16, 512, 64}),
       half = b.temporary(q.sizes), turned = b.temporary(q.sizes);
  auto out = b.output(q.sizes);
  auto copy = [](Value x) { return x; };
  auto mul = [](Value x, Value y) { return x * y; };
  b.map(scaled, mul, q, cos);
  b.map(negative, [](Value x) { return -x; }, slice(q, 3, 64, 128));
  b.map(slice(half, 3, 0, 64), copy, negative);
  b.map(slice(half, 3, 64, 128), copy, slice(q, 3, 0, 64));
  b.map(turned, mul, half, sin);
  b.map(out, [](Value x, Value y) { return x + y; }, scaled, turned);
  return b;
}

TEST(Pipeline, RopeBecomesTwoHalvesInOneLoop) {
  EXPECT_EQ(schedule_of(rope()),
            "kernel map v0:32 v1:512\n"
            "  vector v2:64\n"
            "    %7[v0*65536+v1*128+v2] f32 = ((%0[v0*65536+v1*128+v2] * %1[v1*128+v2]) + "
            "(neg(%0[v0*65536+v1*128+v2+64]) * %2[v1*128+v2]))\n"
            "    %7[v0*65536+v1*128+v2+64] f32 = ((%0[v0*65536+v1*128+v2+64] * %1[v1*128+v2+64]) + "
            "(%0[v0*65536+v1*128+v2] * %2[v1*128+v2+64]))\n"
            "result 0 = %7 f32[2,16,512,128]:(1048576,65536,128,1)\n");
}

/// The tables, 512 KiB, do not stay in a cache of 256 KiB until the next head reads them again.
TEST(Pipeline, TwoHeadsShareWhatTheCacheDoesNotKeep) {
  Settings small;
  small.target.second_cache_bytes = 256 << 10;
  EXPECT_EQ(schedule_of(rope(), {}, small).substr(0, 49),
            "kernel map v3:16 v1:512 v0:2\n"
            "  vector v2:64\n"
            "    %");
}

TEST(Pipeline, LargeResultsThatNothingReadsGoPastTheCache) {
  auto streamed = [](std::vector<int64_t> sizes, bool read) {
    ProgramBuilder b;
    auto x = b.argument(sizes), y = b.output(sizes), z = b.output(sizes);
    b.map(y, [](Value v) { return v * v; }, x);
    // Read backwards, so that no loop can pass it on.
    auto from = read ? y : x;
    from.byte_offset += (sizes[0] - 1) * from.strides[0] * 4;
    from.strides[0] = -from.strides[0];
    b.map(z, [](Value v) { return -v; }, from);
    Settings settings;
    settings.target.last_cache_bytes = 4 << 20;
    std::string text = schedule_of(b, {"inline"}, settings);
    size_t count = 0;
    for (size_t at = 0; (at = text.find("streamed", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(streamed({1024, 512}, false), 2u);
  EXPECT_EQ(streamed({1024, 512}, true), 1u);
  EXPECT_EQ(streamed({256, 512}, false), 0u) << "both fit the cache";
}

TEST(Pipeline, AResultThatIsReadWhereItIsMadeGoesPastTheCache) {
  ProgramBuilder b;
  auto x = b.argument({1024, 512}), y = b.output({1024, 512}), z = b.output({1024, 512});
  b.map(y, [](Value v) { return v * v; }, x);
  b.map(z, [](Value v) { return -v; }, y);
  Settings settings;
  settings.target.last_cache_bytes = 4 << 20;
  EXPECT_EQ(schedule_of(b, {"inline"}, settings),
            "kernel map\n"
            "  vector v0:524288\n"
            "    %1[v0] f32 = (%0[v0] * %0[v0])  streamed\n"
            "    %2[v0] f32 = neg(%1[v0])  streamed\n"
            "result 0 = %1 f32[1024,512]:(512,1)\n"
            "result 1 = %2 f32[1024,512]:(512,1)\n");
}

TEST(Pipeline, SkippedPassesLeaveOneKernelAStatement) {
  std::string text = schedule_of(rope(), {"inline", "fuse", "dead-stores"});
  size_t kernels = 0;
  for (size_t at = 0; (at = text.find("kernel ", at)) != std::string::npos; ++at) ++kernels;
  EXPECT_EQ(kernels, 6u);
}

TEST(Pipeline, ResidualAndRmsNormIsOnePassOverMemory) {
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
  EXPECT_EQ(
      schedule_of(b),
      "kernel map_sum_map v0:4096\n"
      "  scratch %6: 4 bytes at 0\n"
      "  scratch %7: 4 bytes at 64\n"
      "  scratch %10: 4096 bytes at 128\n"
      "  vector v1:2048\n"
      "    %3[v0*2048+v1] bf16 = bf16((f32(%0[v0*2048+v1]) + f32(%1[v0*2048+v1])))  streamed\n"
      "    %10[v1] bf16 = bf16((f32(%0[v0*2048+v1]) + f32(%1[v0*2048+v1])))\n"
      "    %6[0] f32 = f32(reduced)  reduced = sum.f64{v1} f64((t1 * t1)); t1 = "
      "f32(%10[v1])\n"
      "  %7[0] f32 = (1 / sqrt((%6[0] / 2048)))\n"
      "  vector v2:2048\n"
      "    %9[v0*2048+v2] bf16 = bf16((f32(bf16((f32(%10[v2]) * %7[0]))) * f32(%2[v2])))  "
      "streamed\n"
      "result 0 = %3 bf16[4096,2048]:(2048,1)\n"
      "result 1 = %9 bf16[4096,2048]:(2048,1)\n");
}

TEST(Pipeline, SoftmaxRunsRowByRowInScratch) {
  ProgramBuilder b;
  auto s = b.argument({64, 256, 256}), mask = b.argument({256, 256});
  auto t = b.temporary(s.sizes), most = b.temporary({64, 256, 1}), e = b.temporary(s.sizes),
       sum = b.temporary({64, 256, 1}), out = b.output(s.sizes);
  b.map(t, [](Value a, Value m) { return a * 0.125 + m; }, s, mask);
  b.reduce_last(most, ReduceOp::Max, t, kFloat);
  b.map(e, [](Value a, Value m) { return call(ir::Routine::InlineExp, a - m); }, t, most);
  b.reduce_last(sum, ReduceOp::Sum, e, kDouble);
  b.map(out, [](Value a, Value m) { return a / m; }, e, sum);
  std::string text = schedule_of(b);
  EXPECT_NE(text.find("kernel map_max_map_sum_map v0:64 v1:256\n"), std::string::npos) << text;
  EXPECT_NE(text.find("%2[v2] f32 = ((%0[v0*65536+v1*256+v2] * 0.125) + %1[v1*256+v2])"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("arena"), std::string::npos) << text;
}

TEST(Pipeline, LongSumIsCutIntoParts) {
  ProgramBuilder b;
  auto x = b.argument({1 << 20});
  auto out = b.output({1});
  b.reduce_last(out, ReduceOp::Sum, x, kDouble);
  std::string text = schedule_of(b);
  EXPECT_NE(text.find("kernel sum v0:128\n  vector v1:8192\n"), std::string::npos) << text;
}

TEST(Pipeline, PrimeLengthKeepsItsTail) {
  ProgramBuilder b;
  auto x = b.argument({1000003});
  auto out = b.output({1});
  b.reduce_last(out, ReduceOp::Sum, x, kDouble);
  std::string text = schedule_of(b);
  EXPECT_NE(text.find("vector v1:123\n"), std::string::npos)
      << text;  // 122 parts of 8192, and one of 579
  EXPECT_NE(text.find(":579\n"), std::string::npos) << text;
}

TEST(Pipeline, ColumnSumHasItsColumnsAsLanes) {
  ProgramBuilder b;
  auto x = b.argument({512, 768});
  auto out = b.output({768});
  ir::StatementBuilder s(x.sizes);
  Value sum = s.reduce(ReduceOp::Sum, s.load(x), {true, false}, kDouble);
  b.program.items.emplace_back(s.store(out, sum));
  std::string text = schedule_of(b);
  EXPECT_NE(text.find("  vector v0:768\n    serial v1:512\n"), std::string::npos) << text;
}

TEST(Pipeline, ReaderOfAnOverwrittenInputIsNotMovedPastTheWrite) {
  ProgramBuilder b;
  auto x = b.argument({64});
  auto t = b.temporary({64});
  auto out = b.output({64});
  b.map(t, [](Value a) { return a * 2.0; }, x);  // reads x …
  b.map(x, [](Value a) { return a + 1.0; }, x);  // … which is then changed in place
  b.map(out, [](Value a) { return a + 3.0; }, t);
  std::string text = schedule_of(b, {"fuse"});
  EXPECT_NE(text.find("%1[v0] f32 = (%0[v0] * 2)"), std::string::npos) << text;
  EXPECT_NE(text.find("%2[v0] f32 = (%1[v0] + 3)"), std::string::npos) << text;
}

TEST(Pipeline, ShiftedInPlaceReadsStayApart) {
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

TEST(Pipeline, UnrelatedUpdatesStaySeparateKernels) {
  ProgramBuilder b;
  for (int k = 0; k < 3; ++k) {
    auto p = b.argument({1 << 18}), g = b.argument({1 << 18});
    b.map(p, [](Value a, Value c) { return a - c * 0.1; }, p, g);
  }
  std::string text = schedule_of(b);
  size_t kernels = 0;
  for (size_t at = 0; (at = text.find("kernel ", at)) != std::string::npos; ++at) ++kernels;
  EXPECT_EQ(kernels, 3u);
}

TEST(Pipeline, VisibleStoresStayBehindTheCheck) {
  ProgramBuilder b;
  auto x = b.argument({64});
  auto flag = b.temporary({1}, c10::ScalarType::Bool);
  ir::StatementBuilder s(x.sizes);
  Value bad =
      s.reduce(ReduceOp::Or, lt(s.load(x), s.constant(0, kFloat)), {true}, c10::ScalarType::Bool);
  b.program.items.emplace_back(s.store(flag, bad));
  b.program.items.emplace_back(ir::Abort{flag.storage, -1});
  b.map(x, [](Value a) { return a + 1.0; }, x);
  std::string text = schedule_of(b);
  EXPECT_TRUE(test::comes_before(text, "abort if", "%0[v0] f32 = "));
}

/// An address that comes from data may be anywhere before the data is checked, results or not.
TEST(Pipeline, ReadsByIndexStayBehindTheCheck) {
  ProgramBuilder b;
  auto x = b.argument({64}), out = b.output({8});
  auto index = b.argument({8}, c10::ScalarType::Long);
  auto flag = b.temporary({1}, c10::ScalarType::Bool);
  ir::StatementBuilder check(index.sizes);
  Value bad = check.reduce(ReduceOp::Or, ge(check.load(index), Value(check.load(index)).like(64)),
                           {true}, c10::ScalarType::Bool);
  b.program.items.emplace_back(check.store(flag, bad));
  b.program.items.emplace_back(ir::Abort{flag.storage, -1});
  ir::StatementBuilder read(out.sizes);
  Value place = read.load(index);
  Value value = read.load(ir::Access{x.storage, kFloat, 0, {0}, {{place.id, 1}}});
  b.program.items.emplace_back(read.store(out, value));
  std::string text = schedule_of(b);
  EXPECT_TRUE(test::comes_before(text, "abort if", "%1[v0] f32 = "));
}

TEST(Pipeline, AMalformedProgramIsNamed) {
  ProgramBuilder b;
  auto x = b.argument({8});
  auto out = b.output({4});
  ir::StatementBuilder s({8});
  ir::Access store{out.storage, kFloat, 0, {1}, {}};
  b.program.items.emplace_back(s.store(store, s.load(x)));
  try {
    run(b.program, {});
    FAIL() << "a store past the end of its storage went through";
  } catch (const std::logic_error& error) {
    EXPECT_NE(std::string(error.what()).find("reaches bytes 0 to 32 of storage %1, which has 16"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace graft::passes
