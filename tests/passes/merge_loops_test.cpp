// Merge-loops: which loops walk memory as one.
#include "passes/merge_loops.h"

#include <gtest/gtest.h>

#include "build.h"

namespace graft::passes {
namespace {

using ir::Value;

/// The text of a map from an argument of that shape to a dense result.
std::string map_of(const ir::View& shape, std::vector<std::string> skip = {}) {
  ProgramBuilder b;
  auto x = b.argument(shape.sizes);
  b.program.storages[0].bytes = 1 << 20;
  x.strides = shape.strides;
  b.map(b.output(shape.sizes), [](Value v) { return -v; }, x);
  return schedule_of(b, std::move(skip));
}

TEST(MergeLoops, DenseAxesAreOneLoop) {
  ir::View dense{0, kFloat, 0, {4, 5, 6}, {30, 6, 1}};
  EXPECT_EQ(map_of(dense),
            "kernel map\n"
            "  vector v0:120\n"
            "    %1[v0] f32 = neg(%0[v0])\n"
            "result 0 = %1 f32[4,5,6]:(30,6,1)\n");
  EXPECT_EQ(map_of(dense, {"merge-loops"}),
            "kernel map v0:4 v1:5\n"
            "  vector v2:6\n"
            "    %1[v0*30+v1*6+v2] f32 = neg(%0[v0*30+v1*6+v2])\n"
            "result 0 = %1 f32[4,5,6]:(30,6,1)\n");
}

TEST(MergeLoops, AGapKeepsLoopsApart) {
  EXPECT_EQ(map_of({0, kFloat, 0, {4, 5, 6}, {60, 12, 2}}).find("kernel map\n  vector v0:120\n"),
            0u);
  EXPECT_EQ(map_of({0, kFloat, 0, {4, 5, 6}, {35, 7, 1}}).find("kernel map v0:20\n  vector v1:6\n"),
            0u);
  EXPECT_EQ(map_of({0, kFloat, 0, {4, 5, 6}, {31, 6, 1}}).find("kernel map v0:4\n  vector v1:30\n"),
            0u);
}

/// Its index is part of the value.
TEST(MergeLoops, AnAxisThatIsReadStays) {
  ProgramBuilder b;
  auto out = b.output({4, 8}, kLong);
  ir::StatementBuilder s({4, 8});
  b.program.items.emplace_back(s.store(out, s.axis(0) * 2.0 + s.axis(1)));
  std::string text = schedule_of(b);
  EXPECT_EQ(count_of("v0:32", text), 0u) << text;
}

}  // namespace
}  // namespace graft::passes
