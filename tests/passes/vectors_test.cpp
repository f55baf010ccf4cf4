// Vectors: which loop of a kernel has its iterations as lanes.
#include "passes/vectors.h"

#include <gtest/gtest.h>

#include "build.h"

namespace graft::passes {
namespace {

using ir::ReduceOp;
using ir::Value;

TEST(Vectors, ColumnSumHasItsColumnsAsLanes) {
  ProgramBuilder b;
  auto x = b.argument({256, 768});
  auto out = b.output({768});
  ir::StatementBuilder s(x.sizes);
  Value sum = s.reduce(ReduceOp::Sum, s.load(x), {true, false}, kDouble);
  b.program.items.emplace_back(s.store(out, sum));
  std::string text = schedule_of(b);
  EXPECT_NE(text.find("  vector v0:768\n    serial v1:256\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace graft::passes
