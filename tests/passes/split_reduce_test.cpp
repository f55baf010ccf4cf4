// Split-reduce: long sums with few results, cut into parts.
#include "passes/split_reduce.h"

#include <gtest/gtest.h>

#include "build.h"
#include "ir/parse.h"

namespace graft::passes {
namespace {

/// The schedule of one sum of so many elements.
std::string schedule_of_sum(int64_t count) {
  const std::string n = std::to_string(count);
  return schedule_of(ir::parse("argument 0 = %0 f32[" + n + "]:(1)\n%0: argument 0, " +
                               std::to_string(4 * count) + " bytes\n%1: output, 4 bytes\n[a:" + n +
                               "] %1[0] f32 = f32(reduced)  reduced = sum.f64{a} f64(%0.f32[a])\n" +
                               "result 0 = %1 f32[1]:(1)\n"));
}

TEST(SplitReduce, LongSumIsCutIntoParts) {
  std::string text = schedule_of_sum(1 << 20);
  EXPECT_NE(text.find("kernel sum v0:128\n  vector v1:8192\n"), std::string::npos) << text;
}

TEST(SplitReduce, PrimeLengthKeepsItsTail) {
  std::string text = schedule_of_sum(1000003);
  EXPECT_NE(text.find("vector v1:123\n"), std::string::npos)
      << text;  // 122 parts of 8192, and one of 579
  EXPECT_NE(text.find(":579\n"), std::string::npos) << text;
}

TEST(SplitReduce, AShortSumStaysWhole) {
  std::string text = schedule_of_sum(1000);
  EXPECT_EQ(count_of("kernel ", text), 1u) << text;
}

}  // namespace
}  // namespace graft::passes
