// Scratch: what lives inside a tile lies in thread-local memory, as far as the cache goes.
#include "passes/scratch.h"

#include <gtest/gtest.h>

#include "programs.h"

namespace graft::passes {
namespace {

using ir::Value;

/// A row's maximum is taken from the row, which both need: the row stays for the whole tile.
ProgramBuilder centred(int64_t rows, int64_t columns) {
  ProgramBuilder b;
  auto x = b.argument({rows, columns}), y = b.argument({columns});
  auto t = b.temporary(x.sizes), most = b.temporary({rows, 1}), out = b.output(x.sizes);
  b.map(t, [](Value a, Value c) { return a * c + 1.0; }, x, y);
  b.reduce_last(most, ir::ReduceOp::Max, t, kFloat);
  b.map(out, [](Value a, Value c) { return a - c; }, t, most);
  return b;
}

TEST(Scratch, ARowAndItsMaximumLieInTheTile) {
  EXPECT_EQ(schedule_of(centred(512, 256)),
            "kernel map_max_map v0:512\n"
            "  scratch %2: 1024 bytes at 0\n"
            "  scratch %3: 4 bytes at 1024\n"
            "  vector v1:256\n"
            "    %2[v1] f32 = ((%0[v0*256+v1] * %1[v1]) + 1)\n"
            "    %3[0] f32 = reduced  reduced = max.f32{v1} %2[v1]\n"
            "  vector v2:256\n"
            "    %4[v0*256+v2] f32 = (%2[v2] - %3[0])\n"
            "result 0 = %4 f32[512,256]:(256,1)\n");
}

TEST(Scratch, WhatDoesNotFitStaysInMemory) {
  Settings small;
  small.target.second_cache_bytes = 1 << 10;
  std::string text = schedule_of(centred(512, 256), {}, small);
  EXPECT_EQ(count_of("scratch %2", text), 0u) << text;
  EXPECT_EQ(count_of("scratch %3: 4 bytes at 0", text), 1u) << text;
  EXPECT_EQ(count_of("%2: arena at 0, 524288 bytes", text), 1u) << text;
}

}  // namespace
}  // namespace graft::passes
