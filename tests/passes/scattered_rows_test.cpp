// Scattered rows: steps shared between threads by the rows that they store to.
#include "passes/scattered_rows.h"

#include <gtest/gtest.h>

#include "build.h"
#include "ir/parse.h"

namespace graft::passes {
namespace {

/// 131072 rows of so many columns, each added to one of `places` rows.
std::string schedule_of_adding(int64_t columns, int64_t places,
                               const std::string& value = "%0[a*COLUMNS+b]") {
  std::string text = R"(
argument 0 = %0 f32[131072,COLUMNS]:(COLUMNS,1)
argument 1 = %1 i64[131072]:(1)
%0: argument 0, BYTES bytes
%1: argument 1, 1048576 bytes
%2: output, MADE bytes
[a:PLACES,b:COLUMNS] %2[a*COLUMNS+b] f32 = $0
repeat 131072 in order
  [a:131072,b:COLUMNS] %2[b+(%1[a]:PLACES)*COLUMNS] f32 = (%2[b+(%1[a]:PLACES)*COLUMNS] + VALUE)
result 0 = %2 f32[PLACES,COLUMNS]:(COLUMNS,1)
)";
  auto replace = [&](const std::string& what, const std::string& by) {
    for (size_t at; (at = text.find(what)) != std::string::npos;) text.replace(at, what.size(), by);
  };
  replace("VALUE", value);
  replace("BYTES", std::to_string(131072 * columns * 4));
  replace("MADE", std::to_string(places * columns * 4));
  replace("COLUMNS", std::to_string(columns));
  replace("PLACES", std::to_string(places));
  return schedule_of(ir::parse(text));
}

TEST(ScatteredRows, FewColumnsAreSharedByRows) {
  const std::string text = schedule_of_adding(64, 16384);
  EXPECT_NE(text.find("kernel map rows 16384\n  step v1:131072\n    vector v0:64\n"),
            std::string::npos)
      << text;
}

TEST(ScatteredRows, ManyColumnsAreSharedByColumns) {
  EXPECT_EQ(schedule_of_adding(1024, 16384).find("rows"), std::string::npos);
}

TEST(ScatteredRows, FewRowsAreNotWorthIt) {
  EXPECT_EQ(schedule_of_adding(64, 16).find("rows"), std::string::npos);
}

/// Points in space: each thread would walk over all steps, and a load of a vector with lanes to
/// spare would wait for the store through a mask before it.
TEST(ScatteredRows, RowsOfThreeAreOneThreadsNumbers) {
  const std::string text = schedule_of_adding(3, 16384);
  EXPECT_NE(text.find("  step v1:131072\n    serial v0:3\n"), std::string::npos) << text;
}

/// Forces on both atoms of a pair: by columns, two threads would write to the same lines.
TEST(ScatteredRows, TwoSumsInTheSameShortRowsStayApart) {
  const std::string text = schedule_of(ir::parse(R"(
argument 0 = %0 f32[131072,3]:(3,1)
argument 1 = %1 i64[131072]:(1)
argument 2 = %2 i64[131072]:(1)
%0: argument 0, 1572864 bytes
%1: argument 1, 1048576 bytes
%2: argument 2, 1048576 bytes
%3: output, 60000 bytes
[a:5000,b:3] %3[a*3+b] f32 = $0
repeat 131072 in order
  [a:131072,b:3] %3[b+(%1[a]:5000)*3] f32 = (%3[b+(%1[a]:5000)*3] + %0[a*3+b])
repeat 131072 in order
  [a:131072,b:3] %3[b+(%2[a]:5000)*3] f32 = (%3[b+(%2[a]:5000)*3] - %0[a*3+b])
result 0 = %3 f32[5000,3]:(3,1)
)"));
  EXPECT_EQ(text.find("v0:3\n  step"), std::string::npos) << text;
  EXPECT_NE(text.find("  step v1:131072\n    serial v0:3\n"), std::string::npos) << text;
}

/// What a step reads of other rows, another task may be writing.
TEST(ScatteredRows, StepsThatReadOtherRowsStayInOrder) {
  const std::string text = schedule_of_adding(64, 16384, "%2[b]");
  EXPECT_EQ(text.find("rows"), std::string::npos) << text;
}

}  // namespace
}  // namespace graft::passes
