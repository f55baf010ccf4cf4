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

/// Neither side of a transposed copy is walked with gaps: squares go through registers.
TEST(Vectors, TransposedCopiesGoBySquares) {
  ProgramBuilder b;
  auto x = b.argument({512, 768});
  auto y = b.output({768, 512});
  std::swap(x.sizes[0], x.sizes[1]), std::swap(x.strides[0], x.strides[1]);
  b.map(y, [](Value v) { return v; }, x);
  EXPECT_EQ(
      schedule_of(b, {"ahead", "stream"}),
      "kernel map v2:3 v3:2\n"
      "  vector v1:256\n"
      "    serial v0:256\n"
      "      %1[v2*131072+v0*512+v3*256+v1] f32 = %0[v2*256+v0+v3*196608+v1*768]  transposed\n"
      "result 0 = %1 f32[768,512]:(512,1)\n");
}

/// Both halves of y come from x, and its column sums share their tiles. Walking down columns each
/// vector of them would touch all rows; row by row, in a loop of its own for the sums, memory is
/// read as it lies.
TEST(Vectors, ColumnsOfSeveralLoopsRunRowByRow) {
  ProgramBuilder b;
  auto x = b.argument({1024, 1024});
  auto y = b.output({1024, 2048});
  auto sums = b.output({2048});
  b.map(slice(y, 1, 0, 1024), [](Value v) { return -v; }, x);
  b.map(slice(y, 1, 1024, 2048), [](Value v) { return v * 2.0; }, x);
  ir::StatementBuilder s(y.sizes);
  b.program.items.emplace_back(
      s.store(sums, s.reduce(ReduceOp::Sum, s.load(y), {true, false}, kDouble)));
  const std::string text = schedule_of(b, {"inline", "ahead", "stream"});
  EXPECT_EQ(text,
            "%3: arena at 0, 262144 bytes\n"
            "kernel map_sum v0:16\n"
            "  serial v2:64\n"
            "    vector v1:1024\n"
            "      %1[v0*131072+v2*2048+v1] f32 = neg(%0[v0*65536+v2*1024+v1])\n"
            "      %1[v0*131072+v2*2048+v1+1024] f32 = (%0[v0*65536+v2*1024+v1] * 2)\n"
            "  serial v4:2\n"
            "    serial v3:64\n"
            "      vector v5:1024\n"
            "        %3[v0*2048+v4*1024+v5] f64 = reduced  reduced = sum.f64{v3} "
            "%1.f32[v0*131072+v3*2048+v4*1024+v5]\n"
            "kernel sum\n"
            "  vector v0:2048\n"
            "    serial v1:16\n"
            "      %2[v0] f32 = f32(reduced)  reduced = sum.f64{v1} %3[v1*2048+v0]\n"
            "result 0 = %1 f32[1024,2048]:(2048,1)\n"
            "result 1 = %2 f32[2048]:(1)\n");
}

}  // namespace
}  // namespace graft::passes
