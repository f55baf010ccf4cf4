// Memory: temporaries share an arena where they do not live at the same time.
#include "passes/memory.h"

#include <gtest/gtest.h>

#include "build.h"

namespace graft::passes {
namespace {

using ir::Value;

/// x → t0 → t1 → … → out, each in a kernel of its own.
ProgramBuilder chain(size_t temporaries) {
  ProgramBuilder b;
  auto from = b.argument({256});
  for (size_t k = 0; k < temporaries; ++k) {
    auto to = b.temporary({256});
    b.map(to, [](Value v) { return v + 1.0; }, from);
    from = to;
  }
  b.map(b.output({256}), [](Value v) { return v * 2.0; }, from);
  return b;
}

TEST(Memory, AChainNeedsTwoPlaces) {
  Settings settings;
  settings.skip = {"inline", "reroll", "fuse"};
  ir::Schedule schedule = run(chain(5).program, settings);
  EXPECT_EQ(schedule.arena_bytes, 2 * 1024);
  for (int k = 0; k < 5; ++k)
    EXPECT_EQ(schedule.arena_offset[static_cast<size_t>(k + 1)], k % 2 == 0 ? 0 : 1024) << k;
  EXPECT_EQ(schedule.arena_offset[0], -1) << "an argument";
  EXPECT_EQ(schedule.arena_offset[6], -1) << "a result";
}

TEST(Memory, WhatIsReadLateKeepsItsPlace) {
  ProgramBuilder b;
  auto x = b.argument({256}), out = b.output({256});
  auto first = b.temporary({256}), second = b.temporary({64}), third = b.temporary({256});
  b.map(first, [](Value v) { return v + 1.0; }, x);
  b.map(second, [](Value v) { return v + 2.0; }, slice(x, 0, 0, 64));
  b.map(third, [](Value v) { return v + 3.0; }, slice(x, 0, 0, 256));
  b.map(slice(out, 0, 0, 64), copy, second);
  b.map(out, [](Value a, Value c) { return a + c; }, first, third);
  Settings settings;
  settings.skip = {"inline", "fuse"};
  ir::Schedule schedule = run(b.program, settings);
  // The fourth statement's result is overwritten: it and `second` are dead.
  EXPECT_EQ(schedule.arena_offset[3], -1);
  EXPECT_EQ(schedule.arena_offset[2], 0);
  EXPECT_EQ(schedule.arena_offset[4], 1024);
  EXPECT_EQ(schedule.arena_bytes, 2048);
}

/// The arena lives as long as the run.
TEST(Memory, LargeTemporariesAreBlocksOfTheirOwn) {
  ProgramBuilder b;
  auto x = b.argument({1 << 18}), large = b.temporary({1 << 18}), small = b.temporary({64}),
       out = b.output({1 << 18});
  b.map(large, [](Value v) { return v + 1.0; }, x);
  b.map(small, [](Value v) { return v + 2.0; }, slice(x, 0, 0, 64));
  b.map(out, [](Value v) { return v * 2.0; }, large);
  b.map(slice(out, 0, 0, 64), copy, small);
  Settings settings;
  settings.skip = {"inline", "fuse"};
  const ir::Schedule schedule = run(b.program, settings);
  EXPECT_EQ(schedule.arena_offset[1], ir::kOwnBlock);
  EXPECT_EQ(schedule.arena_offset[2], 0);
  EXPECT_EQ(schedule.arena_bytes, 256);
}

}  // namespace
}  // namespace graft::passes
