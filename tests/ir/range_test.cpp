// Ranges of integers: each holds what the interpreter computes, and those that spare a check are
// tight.
#include "ir/range.h"

#include <gtest/gtest.h>

#include "ir/parse.h"

namespace graft::ir {
namespace {

/// Of what the one statement stores, with nothing known of its loads but their dtypes.
Range stored(const std::string& value, const std::string& extents = "[a:8,b:16]") {
  const Program program = parse(
      "argument 0 = %0 i64[8,16]:(16,1)\nargument 1 = %1 u8[8,16]:(16,1)\n%0: argument 0, 1024 "
      "bytes\n%1: argument 1, 128 bytes\n%2: output, 1024 bytes\n" +
      extents + " %2[a*16+b] i64 = " + value + "\nresult 0 = %2 i64[8,16]:(16,1)\n");
  const auto& s = std::get<Statement>(program.items.front());
  return range_of(s, s.value, [](const Access& load) { return range_of(load.dtype); });
}
void expect(const std::string& value, int64_t low, int64_t high) {
  Range range = stored(value);
  EXPECT_EQ(range.low, low) << value;
  EXPECT_EQ(range.high, high) << value;
}

TEST(Range, WhatAnIndexMayBe) {
  expect("a", 0, 7);
  expect("((a * 16) + b)", 0, 127);
  expect("(a - b)", -15, 7);
  expect("i64(%1.u8[a*16+b])", 0, 255);
  expect("max(min(%0[a*16+b], 31), 0)", 0, 31);
  expect("irem(%0[a*16+b], 10)", -9, 9);
  expect("irem((a + 20), 10)", 0, 9);
  expect("(%0[a*16+b] & 63)", 0, 63);
  expect("idiv((a + 2), 2)", 1, 4);
  expect("select((%0.i64[a*16+b] < 3), a, 12)", 0, 12);
  expect("select((a < 0), -5, a)", 0, 7);
}

/// As clamp with bounds of its own writes it.
TEST(Range, WhatASelectLetsThrough) {
  const std::string x = "%0.i64[a*16+b]", low = "select((" + x + " < 3), 3, " + x + ")";
  expect("select((" + x + " < 3), 3, 8)", 3, 8);
  expect("select((" + low + " > 90), 90, " + low + ")", 3, 90);
  expect("select((" + low + " >= 90), 90, " + low + ")", 3, 90);
  expect("select((90 < " + low + "), 90, " + low + ")", 3, 90);
  expect("select((a > 7), -9, b)", 0, 15);
}

TEST(Range, WhatBitsLeave) {
  const std::string byte = "i64(%1.u8[a*16+b])";
  expect("(" + byte + " >> 4)", 0, 15);
  expect("((" + byte + " - 256) >> 4)", -16, 0);
  expect("(" + byte + " << 2)", 0, 1020);
  expect("((" + byte + " >> 4) | 16)", 16, 31);
  expect("((" + byte + " >> 4) ^ 16)", 0, 31);
  expect("abs((" + byte + " - 100))", 0, 155);
  expect("neg(" + byte + ")", -255, 0);
}

TEST(Range, WhatMayWrapIsAnything) {
  const Range all = range_of(ScalarType::Long);
  expect("(%0[a*16+b] + 1)", all.low, all.high);
  expect("(%0[a*16+b] * 2)", all.low, all.high);
  expect("i64(u8((a + 250)))", 0, 255);
  expect("irem(%0[a*16+b], %0[a*16+b])", all.low, all.high);
  expect("abs(%0[a*16+b])", all.low, all.high);
  expect("(%0[a*16+b] << 2)", all.low, all.high);
  expect("select((%0.i64[a*16+b] < 3), %0[a*16+b], 9)", all.low, 9);
}

}  // namespace
}  // namespace graft::ir
