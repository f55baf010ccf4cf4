// A program as structure and numbers.
#include "ir/numbers.h"

#include <gtest/gtest.h>

#include "ir/parse.h"

namespace graft::ir {
namespace {

std::string program_of(int64_t rows, int64_t columns) {
  const std::string r = std::to_string(rows), c = std::to_string(columns),
                    size = std::to_string(4 * rows * columns),
                    view = "f32[" + r + "," + c + "]:(" + c + ",1)";
  return "argument 0 = %0 " + view + "\n%0: argument 0, " + size + " bytes\n%1: output, " + size +
         " bytes\n%2: output, " + size + " bytes\n[a:" + r + ",b:" + c + "] %1[a*" + c +
         "+b] f32 = select((b < " + c + "), (%0[a*" + c + "+b] * $0.5), " + c + ")\n%2 " + view +
         " = aten::mul.Scalar(%1 " + view + ", " + c + ") writes %2\nresult 0 = %2 " + view + "\n";
}

TEST(Numbers, ProgramsOfOneStructureDifferInThemAlone) {
  const Program small = parse(program_of(3, 5)), large = parse(program_of(7, 9));
  const Numbers of_small = numbers_of(small), of_large = numbers_of(large);
  ASSERT_TRUE(of_small.same_structure(of_large));
  EXPECT_NE(of_small.values, of_large.values);
  Program changed = small;
  Replace replace(of_large.values);
  visit(changed, replace);
  EXPECT_EQ(print(changed), print(large));
}

TEST(Numbers, OtherProgramsHaveAnotherStructure) {
  const std::string text = program_of(3, 5);
  const Numbers numbers = numbers_of(parse(text));
  for (auto [from, to] : {std::pair{" * ", " + "},
                          {"%1[a*5+b] f32 =", "%2[a*5+b] f32 ="},
                          {"aten::mul.Scalar", "aten::add.Scalar"},
                          {"result 0 = %2", "result 0 = %1"}}) {
    std::string other = text;
    const size_t at = other.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    other.replace(at, std::string(from).size(), to);
    EXPECT_FALSE(numbers.same_structure(numbers_of(parse(other)))) << from;
  }
}

}  // namespace
}  // namespace graft::ir
