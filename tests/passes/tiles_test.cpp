// Tiles: their order, and which run side by side.
#include "passes/tiles.h"

#include <gtest/gtest.h>

#include "programs.h"

namespace graft::passes {
namespace {

/// The tables, 512 KiB, do not stay in a cache of 256 KiB until the next head reads them again.
TEST(Tiles, TwoHeadsShareWhatTheCacheDoesNotKeep) {
  Settings small;
  small.target.second_cache_bytes = 256 << 10;
  EXPECT_EQ(schedule_of(rope(), {}, small).substr(0, 49),
            "kernel map v3:16 v1:512 v0:2\n"
            "  vector v2:64\n"
            "    %");
}

}  // namespace
}  // namespace graft::passes
