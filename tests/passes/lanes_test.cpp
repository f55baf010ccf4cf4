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

/// A vector of rows at a time: each is loaded and stored whole, and none of their elements alone.
TEST(Lanes, ShortRowsAreLanes) {
  std::string text = schedule_of(short_rows());
  EXPECT_EQ(text.find("kernel max_sum_map\n"), 0u) << text;
  EXPECT_EQ(count_of("  vector v0:1000\n", text), 1u) << text;
  EXPECT_EQ(count_of("transposed", text), 2u) << text;
}

/// Matrices are lanes, and what goes on within one are loops inside.
TEST(Lanes, SmallMatricesAreLanes) {
  std::string text = schedule_of(small_matrices());
  EXPECT_EQ(count_of("kernel ", text), 1u) << text;
  EXPECT_EQ(count_of("  vector v0:1000\n", text), 1u) << text;
  EXPECT_EQ(count_of("transposed", text), 4u) << text;
}

/// In blocks: of the two sides of the matrix one goes through squares, the other is walked along.
TEST(Lanes, TransposedOperandsGoByBlocks) {
  ProgramBuilder b = symmetric();
  std::string text = schedule_of(b);
  EXPECT_EQ(count_of("transposed", text), 1u) << text;
  EXPECT_EQ(count_of("by lane", text), 1u) << text;
  for (int lanes : {16, 8, 4}) {
    std::vector<at::Tensor> arguments = whole_numbers(b);
    Settings settings;
    settings.target.lanes = lanes;
    EXPECT_TRUE(after(b.program, arguments) == after(run(b.program, settings), arguments)) << lanes;
  }
}

/// Nor are elements beside each other as lanes worth it where rows are long.
TEST(Lanes, LongRowsAreWalkedAlong) {
  EXPECT_EQ(count_of("transposed", schedule_of(short_rows(100, 3000))), 0u);
}

TEST(Lanes, ShortRowsAndSmallMatricesKeepTheirResults) {
  for (int64_t columns : {2, 3, 5, 7, 8, 12, 16, 17, 21, 30, 33})
    for (int lanes : {16, 8, 4})
      for (const bool matrices : {false, true}) {
        if (matrices && columns > 8) continue;
        ProgramBuilder b = matrices ? small_matrices(70, columns) : short_rows(70, columns);
        std::vector<at::Tensor> arguments = whole_numbers(b);
        Settings settings;
        settings.target.lanes = lanes;
        EXPECT_TRUE(after(b.program, arguments) == after(run(b.program, settings), arguments))
            << columns << " columns, " << lanes << " lanes";
      }
}

}  // namespace
}  // namespace graft::passes
