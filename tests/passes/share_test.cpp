// Share: which values are computed once for several statements, held as text.
#include "passes/share.h"

#include <gtest/gtest.h>

#include "programs.h"

namespace graft::passes {
namespace {

/// The statements, after the pass, of a program in which %0 and %1 are arguments, %2 and %3 results
/// of [512,512], and %4 is a row of 512.
std::string after_share(const std::string& lines, bool across_calls = false) {
  const std::string bytes = std::to_string(512 * 512 * 4) + " bytes\n";
  return items_after(
      "argument 0 = %0 f32[512,512]:(512,1)\nargument 1 = %1 f32[512,512]:(512,1)\n%0: argument "
      "0, " +
          bytes + "%1: argument 1, " + bytes + "%2: output, " + bytes + "%3: output, " + bytes +
          "%4: temporary, 2048 bytes\n" + lines +
          "result 0 = %2 f32[512,512]:(512,1)\nresult 1 = %3 f32[512,512]:(512,1)\n",
      [&](const ir::Program& program) { return share(program, ir::Target(), across_calls); });
}

/// A statement over all points that stores `value` in %`to`.
std::string store(int to, const std::string& value) {
  return "[a:512,b:512] %" + std::to_string(to) + "[a*512+b] f32 = " + value + "\n";
}
const std::string kLeft = "%0[a*512+b]", kRight = "%1[a*512+b]", kStored = "%5[a*512+b]",
                  kTanh = "VectorTanh(" + kLeft + ")";

TEST(Share, AFunctionOfTheSameElements) {
  EXPECT_EQ(after_share(store(2, "(" + kLeft + " * " + kTanh + ")") +
                        store(3, "(" + kRight + " * " + kTanh + ")")),
            store(5, kTanh) + store(2, "(" + kLeft + " * " + kStored + ")") +
                store(3, "(" + kRight + " * " + kStored + ")"));
}

TEST(Share, TheLargestValueThatAllOfThemNeed) {
  const std::string all = "(1 / (1 + " + kTanh + "))";
  EXPECT_EQ(after_share(store(2, "(" + kLeft + " * " + all + ")") +
                        store(3, "((" + kRight + " * " + all + ") * " + all + ")")),
            store(5, all) + store(2, "(" + kLeft + " * " + kStored + ")") +
                store(3, "((" + kRight + " * " + kStored + ") * " + kStored + ")"));
}

TEST(Share, NoneThatTakesLittle) {
  const std::string little = "sqrt((" + kLeft + " + 1))",
                    lines = store(2, little) + store(3, "(" + kRight + " * " + little + ")");
  EXPECT_EQ(after_share(lines), lines);
}

TEST(Share, NoneOfWhatChangesInBetween) {
  const std::string lines = store(2, "(" + kLeft + " * " + kTanh + ")") + store(0, kRight) +
                            store(3, "(" + kRight + " * " + kTanh + ")");
  EXPECT_EQ(after_share(lines), lines);
}

TEST(Share, NoneOfARow) {
  const std::string of_row = "VectorTanh(%4[b])",
                    lines = store(2, "(" + kLeft + " * " + of_row + ")") +
                            store(3, "(" + kRight + " * " + of_row + ")");
  EXPECT_EQ(after_share("[a:512] %4[a] f32 = %0[a]\n" + lines),
            "[a:512] %4[a] f32 = %0[a]\n" + lines);
}

/// What a reduction's result is combined with is no value of a point.
TEST(Share, NoneBehindAReduction) {
  const std::string rows = "[a:512,b:512] ", of_row = "VectorTanh(%1.f32[a])",
                    sum = "  reduced = sum.f64{b} f64(%0.f32[a*512+b])\n",
                    lines = rows + "%4[a] f32 = (f32(reduced) * " + of_row + ")" + sum + rows +
                            "%2[a] f32 = (f32(reduced) + " + of_row + ")" + sum;
  EXPECT_EQ(after_share(lines).find("%5"), std::string::npos);
}

TEST(Share, BehindACallOnlyWhereAsked) {
  const std::string call = "%4 f32[512]:(1) = aten::made(%0 f32[512,512]:(512,1)) writes %4\n",
                    lines = store(2, "(" + kLeft + " * " + kTanh + ")") + call +
                            store(3, "(" + kRight + " * " + kTanh + ")");
  EXPECT_EQ(after_share(lines).find("%5"), std::string::npos);
  EXPECT_NE(after_share(lines, true).find("%5"), std::string::npos);
}

}  // namespace
}  // namespace graft::passes
