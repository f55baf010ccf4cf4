// Lanes: rows side by side in a vector where a row is sequential, in scratch that holds them so.
#include "passes/lanes.h"

#include <gtest/gtest.h>

#include "programs.h"

namespace graft::passes {
namespace {

TEST(Lanes, RowsOfAColumnLoopAreLanes) {
  std::string text = schedule_of(columns_in_place());
  EXPECT_EQ(text.find("kernel map\n"), 0u) << text;
  EXPECT_EQ(count_of("  vector v0:48\n", text), 1u) << text;
  EXPECT_EQ(count_of("by lane", text), 2u) << text;  // the matrix, and the result
  EXPECT_EQ(count_of("transposed", text), 3u) << text;
}

TEST(Lanes, LeftOutTheRowsStayTiles) {
  std::string text = schedule_of(columns_in_place(), {"lanes"});
  EXPECT_EQ(count_of("by lane", text), 0u) << text;
  EXPECT_EQ(count_of("step v", text), 1u) << text;
}

/// Half a vector of rows at least: with fewer the lanes would idle.
TEST(Lanes, TooFewRowsStayTiles) {
  EXPECT_EQ(count_of("by lane", schedule_of(columns_in_place(7, 20))), 0u);
}

TEST(Lanes, EveryWidthKeepsTheResults) {
  ProgramBuilder b = columns_in_place(70, 12);
  std::vector<at::Tensor> arguments = whole_numbers(b);
  std::string expected = after(b.program, arguments);
  for (int lanes : {16, 8, 4}) {
    Settings settings;
    settings.target.lanes = lanes;
    ir::Schedule schedule = run(b.program, settings);
    EXPECT_NE(ir::print(schedule).find("by lane"), std::string::npos) << lanes;
    EXPECT_TRUE(after(schedule, arguments) == expected) << lanes;
  }
}

}  // namespace
}  // namespace graft::passes
