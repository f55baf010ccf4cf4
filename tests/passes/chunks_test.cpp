// Chunks: steps outside, neighbouring tiles inside.
#include "passes/chunks.h"

#include <gtest/gtest.h>

#include "build.h"
#include "ir/parse.h"
#include "support/text.h"

namespace graft::passes {
namespace {

/// A recurrence of 64 steps over (rows, 64, channels), its state of (rows, channels).
std::string schedule_of_steps(int64_t rows, int64_t channels) {
  auto text = [](int64_t n) { return std::to_string(n); };
  const std::string r = text(rows), c = text(channels), row = text(64 * channels),
                    state = text(4 * rows * channels), all = text(4 * rows * 64 * channels);
  return schedule_of(ir::parse(
      "argument 0 = %0 f32[" + r + ",64," + c + "]:(" + row + "," + c + ",1)\n%0: argument 0, " +
      all + " bytes\n%1: temporary, " + state + " bytes\n%2: output, " + all + " bytes\n[a:" + r +
      ",b:" + c + "] %1[a*" + c + "+b] f32 = $0\nrepeat 64\n  [a:64,b:" + r + ",c:" + c +
      "] %1[b*" + c + "+c] f32 = ArrayTanh((%1.f32[b*" + c + "+c] + %0.f32[a*" + c + "+b*" + row +
      "+c]))\n  [a:64,b:" + r + ",c:" + c + "] %2[a*" + c + "+b*" + row + "+c] f32 = %1.f32[b*" +
      c + "+c]\nresult 0 = %2 f32[" + r + ",64," + c + "]:(" + row + "," + c + ",1)\n"));
}

TEST(Chunks, StepsWalkAlongMemory) {
  std::string text = schedule_of_steps(32, 2048);
  EXPECT_NE(text.find("  step v2:64\n    vector v1:1024\n      %1[v1] f32 = ArrayTanh("),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("scratch %1: 4096 bytes"), std::string::npos) << text;
}

/// One row has tiles for the threads only if its chunks are short.
TEST(Chunks, AFewRowsLeaveTilesForThreads) {
  std::string text = schedule_of_steps(1, 1024);
  EXPECT_NE(text.find("v2:16\n"), std::string::npos) << text;
  EXPECT_NE(text.find("    vector v0:64\n"), std::string::npos) << text;
  text = schedule_of_steps(1, 64);
  EXPECT_NE(text.find("    vector v0:32\n"), std::string::npos) << text;
}

/// Lanes that lie apart are no chunk: the lanes pass turns them.
TEST(Chunks, StepsAlongMemoryStayInside) {
  std::string text = schedule_of(ir::parse(R"(
argument 0 = %0 f32[512,64]:(64,1)
%0: argument 0, 131072 bytes
repeat 63
  [a:63,b:512] %0[a+b*64+1] f32 = (%0[a+b*64] * %0[a+b*64+1])
)"));
  EXPECT_EQ(text.find("step v1:63\n    vector"), std::string::npos) << text;
}

}  // namespace
}  // namespace graft::passes
