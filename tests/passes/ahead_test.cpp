// Ahead: which loads ask for a later row.
#include "passes/ahead.h"

#include <gtest/gtest.h>

#include "build.h"

namespace graft::passes {
namespace {

using ir::ReduceOp;
using ir::Value;

Settings small_cache() {
  Settings settings;
  settings.target.second_cache_bytes = 64 << 10;
  return settings;
}

/// x / max over rows: x is read from memory once, then from the cache.
std::string normalised(std::vector<int64_t> sizes) {
  ProgramBuilder b;
  auto x = b.argument(sizes), most = b.temporary({sizes[0], 1}), y = b.output(sizes);
  auto kept = most;
  kept.sizes.pop_back(), kept.strides.pop_back();
  b.reduce_last(kept, ReduceOp::Max, x, kFloat);
  auto rows = most;
  rows.sizes[1] = sizes[1], rows.strides[1] = 0;
  b.map(y, [](Value v, Value by) { return v / by; }, x, rows);
  return schedule_of(b, {}, small_cache());
}

TEST(Ahead, TheFirstReadOfARowAsksForTheNext) {
  const std::string text = normalised({128, 1024});
  EXPECT_EQ(count_of("ahead", text), 1u) << text;
  EXPECT_NE(text.find("max.f32{v1} %0[v0*1024+v1]  ahead %0 by v0+1\n"), std::string::npos) << text;
}

TEST(Ahead, ShortRowsAskFurther) {
  // Rows of 128 bytes that lie 4 KiB apart.
  ProgramBuilder b;
  auto x = b.argument({256, 32, 32}), y = b.output({32, 256, 32});
  auto turned = x;
  std::swap(turned.sizes[0], turned.sizes[1]), std::swap(turned.strides[0], turned.strides[1]);
  b.map(y, [](Value v) { return v + 1.0; }, turned);
  const std::string text = schedule_of(b, {}, small_cache());
  EXPECT_NE(text.find("ahead %0 by v1+8\n"), std::string::npos) << text;
}

TEST(Ahead, NobodyAsksForWhatIsInTheCacheOrNear) {
  EXPECT_EQ(count_of("ahead", normalised({8, 1024})), 0u) << "32 KiB";
  EXPECT_EQ(count_of("ahead", normalised({1024, 64})), 0u) << "the next row follows at once";
}

/// A machine on which loops that work on what they read are faster if they ask for it.
Settings that_asks() {
  Settings settings = small_cache();
  settings.target.times.unasked_stream = 1.2;
  return settings;
}

TEST(Ahead, StreamsAskTwoKilobytesAheadWhereThatPays) {
  const auto doubled = [](int64_t elements, const Settings& settings) {
    ProgramBuilder b;
    auto x = b.argument({elements}), y = b.output({elements});
    b.map(y, [](Value v) { return v + v; }, x);
    return schedule_of(b, {}, settings);
  };
  const std::string text = doubled(1 << 20, that_asks());
  EXPECT_EQ(count_of("ahead", text), 1u) << text;
  EXPECT_EQ(count_of("+512\n", text), 1u) << text;
  EXPECT_EQ(count_of("ahead", doubled(1 << 20, small_cache())), 0u) << "not measured to pay";
  EXPECT_EQ(count_of("ahead", doubled(1 << 10, that_asks())), 0u) << "in the cache";
}

TEST(Ahead, StreamsGoOnWhereTheirRowsEnd) {
  // Sums of groups of 512 bytes, one behind the other; and of every second group, which are not.
  const auto summed = [](int64_t step) {
    ProgramBuilder b;
    auto x = b.argument({512, 16, step}), y = b.output({512, 16});
    auto groups = x;
    groups.sizes[2] = 128;
    b.reduce_last(y, ReduceOp::Sum, groups, kFloat);
    return schedule_of(b, {}, that_asks());
  };
  EXPECT_EQ(count_of("+512\n", summed(128)), 1u) << summed(128);
  EXPECT_EQ(count_of("+512\n", summed(256)), 0u) << summed(256);
}

TEST(Ahead, OfAStencilsRowsTheLastAsks) {
  ProgramBuilder b;
  auto x = b.argument({130, 1024}), y = b.output({128, 1024});
  b.map(
      y, [](Value above, Value here, Value below) { return above + below - here * 2.0; },
      slice(x, 0, 0, 128), slice(x, 0, 1, 129), slice(x, 0, 2, 130));
  const std::string text = schedule_of(b, {"merge-loops"}, small_cache());
  EXPECT_EQ(count_of(" by ", text), 1u) << text;
}

}  // namespace
}  // namespace graft::passes
