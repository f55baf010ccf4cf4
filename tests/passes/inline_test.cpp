// Inline: readers that compute what a producer would have stored, and those that must not.
#include "passes/inline.h"

#include <gtest/gtest.h>

#include "build.h"
#include "ir/parse.h"

namespace graft::passes {
namespace {

/// What inline makes of a program, and what dead stores leave of that.
std::string inlined(const char* text) {
  const ir::Program program = ir::parse(text);
  EXPECT_EQ(ir::verify(program), "");
  return schedule_of(program, {"fuse"});
}

TEST(Inline, ACheapProducerIsComputedWhereItIsRead) {
  EXPECT_EQ(inlined(R"(
              argument 0 = %0 f32[64]:(1)
              %0: argument 0, 256 bytes
              %1: temporary, 256 bytes
              %2: output, 256 bytes
              [a:64] %1[a] f32 = (%0[a] * 2)
              [a:64] %2[a] f32 = (%1[a] + 3)
              result 0 = %2 f32[64]:(1)
            )"),
            "kernel map\n"
            "  vector v0:64\n"
            "    %2[v0] f32 = ((%0[v0] * 2) + 3)\n"
            "result 0 = %2 f32[64]:(1)\n");
}

TEST(Inline, ReaderOfAnOverwrittenInputIsNotMovedPastTheWrite) {
  std::string text = inlined(R"(
    argument 0 = %0 f32[64]:(1)
    %0: argument 0, 256 bytes
    %1: temporary, 256 bytes
    %2: output, 256 bytes
    [a:64] %1[a] f32 = (%0[a] * 2)
    [a:64] %0[a] f32 = (%0[a] + 1)
    [a:64] %2[a] f32 = (%1[a] + 3)
    result 0 = %2 f32[64]:(1)
  )");
  EXPECT_NE(text.find("%1[v0] f32 = (%0[v0] * 2)"), std::string::npos) << text;
  EXPECT_NE(text.find("%2[v0] f32 = (%1[v0] + 3)"), std::string::npos) << text;
}

}  // namespace
}  // namespace graft::passes
