// Split-reduce: long sums with few results, cut into parts.
#include "passes/split_reduce.h"

#include <gtest/gtest.h>

#include "build.h"

namespace graft::passes {
namespace {

using ir::ReduceOp;
using ir::Value;

TEST(SplitReduce, LongSumIsCutIntoParts) {
  ProgramBuilder b;
  auto x = b.argument({1 << 20});
  auto out = b.output({1});
  b.reduce_last(out, ReduceOp::Sum, x, kDouble);
  std::string text = schedule_of(b);
  EXPECT_NE(text.find("kernel sum v0:128\n  vector v1:8192\n"), std::string::npos) << text;
}

TEST(SplitReduce, PrimeLengthKeepsItsTail) {
  ProgramBuilder b;
  auto x = b.argument({1000003});
  auto out = b.output({1});
  b.reduce_last(out, ReduceOp::Sum, x, kDouble);
  std::string text = schedule_of(b);
  EXPECT_NE(text.find("vector v1:123\n"), std::string::npos)
      << text;  // 122 parts of 8192, and one of 579
  EXPECT_NE(text.find(":579\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace graft::passes
