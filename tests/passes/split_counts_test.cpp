// Split-counts: what is counted in parts, and what is not, held as text.
#include "passes/split_counts.h"

#include <gtest/gtest.h>

#include "build.h"

namespace graft::passes {
namespace {

/// Items over the indices %0[200000] of int64 and the numbers %1[200000]; %2[8] is the result.
std::string counted(const std::string& lines, const std::string& type = "f32",
                    bool any_size = false) {
  Settings settings;
  settings.any_size = any_size;
  return items_after("%0: argument 0, 1600000 bytes\n%1: argument 1, 800000 bytes\n%2: output, " +
                         std::to_string(type == "f32" ? 32 : 64) + " bytes\n" + lines +
                         "result 0 = %2 " + type + "[8]:(1)\n",
                     [&](const ir::Program& program) { return split_counts(program, settings); });
}

std::string adding(const std::string& term, const std::string& type = "f32") {
  return "repeat 200000 in order\n  [a:200000] %2[(%0[a]:8)] " + type + " = (%2[(%0[a]:8)] + " +
         term + ")\n";
}
const std::string kZeros = "[a:8] %2[a] f32 = 0\n";

TEST(SplitCounts, PartsHaveTablesOfTheirOwn) {
  EXPECT_EQ(
      counted(kZeros + adding("1")),
      kZeros +
          "[a:512] %3[a] f32 = 0\n"
          "repeat 3125 in order\n"
          "  [a:3125,b:16] %3[b*32+(%0[a+b*12500]:8)] f32 = "
          "(%3[b*32+(%0[a+b*12500]:8)] + 1)\n"
          "  [a:3125,b:16] %3[b*32+(%0[a+b*12500+3125]:8)+8] f32 = "
          "(%3[b*32+(%0[a+b*12500+3125]:8)+8] + 1)\n"
          "  [a:3125,b:16] %3[b*32+(%0[a+b*12500+6250]:8)+16] f32 = "
          "(%3[b*32+(%0[a+b*12500+6250]:8)+16] + 1)\n"
          "  [a:3125,b:16] %3[b*32+(%0[a+b*12500+9375]:8)+24] f32 = "
          "(%3[b*32+(%0[a+b*12500+9375]:8)+24] + 1)\n"
          "[a:64,b:8] %2[b] f32 = (%2[b] + f32(reduced))  reduced = sum.f64{a} %3.f32[a*8+b]\n");
}

TEST(SplitCounts, WhatDependsOnTheOrderStays) {
  for (const char* term : {"%1[a]", "0.5", "200", "f32(%0.i64[a])"})
    EXPECT_EQ(counted(kZeros + adding(term)), kZeros + adding(term)) << term;
  // What was there before is not known, or no whole number, or -0.
  EXPECT_EQ(counted(adding("1")), adding("1"));
  for (const std::string first : {"0.5", "-0", "%1[a]"}) {
    const std::string fill = "[a:8] %2[a] f32 = " + first + "\n";
    EXPECT_EQ(counted(fill + adding("1")), fill + adding("1")) << first;
  }
  // A step looks at what another one made.
  EXPECT_EQ(counted(kZeros + adding("select((%2.f32[(%0[a]:8)] < 3), 1, 0)")),
            kZeros + adding("select((%2.f32[(%0[a]:8)] < 3), 1, 0)"));
  const std::string through = "%1.f32[(i64(%2.f32[(%0[a]:8)]):200000)]";
  EXPECT_EQ(counted(kZeros + adding("f32((" + through + " < 3))")),
            kZeros + adding("f32((" + through + " < 3))"));
  // Of other sizes there may be too many.
  EXPECT_EQ(counted(kZeros + adding("1"), "f32", true), kZeros + adding("1"));
}

TEST(SplitCounts, IntegersInAnyOrder) {
  EXPECT_NE(counted(adding("%0[a]", "i64"), "i64").find("[a:64,b:8] %2[b] i64"), std::string::npos);
  EXPECT_NE(counted(kZeros + adding("select((%1.f32[a] < 3), 2, -1)")).find("[a:64,b:8]"),
            std::string::npos);
}

}  // namespace
}  // namespace graft::passes
