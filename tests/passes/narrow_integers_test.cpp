// Narrow-integers: what is int32 afterwards, and what is not, held as text.
#include "passes/narrow_integers.h"

#include <gtest/gtest.h>

#include "build.h"

namespace graft::passes {
namespace {

/// Statements over %0[64,9] of floats and %1[64] of int64; %2 to %4 are temporaries for 64 int64,
/// %5[64] is the result, of int64.
std::string narrowed(const std::string& lines, bool any_size = false) {
  Settings settings;
  settings.any_size = any_size;
  return items_after(
      "%0: argument 0, 2304 bytes\n%1: argument 1, 512 bytes\n%2: temporary, 512 bytes\n"
      "%3: temporary, 512 bytes\n%4: temporary, 512 bytes\n%5: output, 512 bytes\n" +
          lines + "result 0 = %5 i64[64]:(1)\n",
      [&](const ir::Program& program) { return narrow_integers(program, settings); });
}

const std::string kCount =
    "[a:64,b:9] %2[a] i64 = reduced  reduced = sum.i64{b} i64((%0.f32[a*9+b] < 1))\n";
const std::string kNarrowCount =
    "[a:64,b:9] %2[a] i32 = reduced  reduced = sum.i32{b} i32((%0.f32[a*9+b] < 1))\n";

TEST(NarrowIntegers, CountsAndWhatIsComputedOfThem) {
  EXPECT_EQ(
      narrowed(kCount + "[a:64] %5[a] i64 = select((%2.i64[a] > 3), (%2.i64[a] * 2), a)\n"),
      kNarrowCount + "[a:64] %5[a] i64 = i64(select((%2.i32[a] > 3), (%2[a] * 2), i32(a)))\n");
}

TEST(NarrowIntegers, QuotientsOfPlaces) {
  EXPECT_EQ(narrowed("[a:64] %5[a] i64 = irem(idiv(a, 5), 7)\n"),
            "[a:64] %5[a] i64 = i64(irem(idiv(i32(a), 5), 7))\n");
}

TEST(NarrowIntegers, WhatMayBeLargeStays) {
  for (const char* line :
       {"[a:64] %5[a] i64 = (%1[a] + 1)\n", "[a:64] %5[a] i64 = (a * 100000000)\n",
        "[a:64,b:64] %5[a] i64 = reduced  reduced = sum.i64{b} (%1[b] * 2)\n"})
    EXPECT_EQ(narrowed(line), line);
  // Only its remainder fits, which is not that of its low half.
  EXPECT_EQ(narrowed("[a:64] %5[a] i64 = (irem(%1.i64[a], 7) + 1)\n"),
            "[a:64] %5[a] i64 = i64((i32(irem(%1.i64[a], 7)) + 1))\n");
  // The low bits of a sum are those of the low halves' sum.
  EXPECT_EQ(narrowed("[a:64] %5[a] i64 = ((%1.i64[a] + 1) & 255)\n"),
            "[a:64] %5[a] i64 = i64((i32((%1.i64[a] + 1)) & 255))\n");
}

TEST(NarrowIntegers, MemoryThatOthersSeeStays) {
  // Read before it is stored; known to the caller.
  const std::string lines = "[a:64] %3[a] i64 = i64((%2.i64[a] < 5))\n" + kCount +
                            "[a:64] %5[a] i64 = (%2.i64[a] + %3.i64[a])\n";
  const std::string made = narrowed(lines);
  EXPECT_NE(made.find("%2[a] i64 = i64(reduced)"), std::string::npos) << made;
  EXPECT_NE(made.find("%3[a] i32 = i32((%2.i64[a] < 5))"), std::string::npos) << made;
  EXPECT_EQ(narrowed(kCount + "abort if %2\n").find("%2[a] i32"), std::string::npos);
  EXPECT_EQ(narrowed(kCount, /*any_size=*/true), kCount);
}

TEST(NarrowIntegers, IndicesStayLong) {
  EXPECT_EQ(narrowed(kCount + "[a:64] %5[a] i64 = %1.i64[(%2.i64[a]:10)]\n"),
            kNarrowCount + "[a:64] %5[a] i64 = %1[(i64(%2.i32[a]):10)]\n");
}

}  // namespace
}  // namespace graft::passes
