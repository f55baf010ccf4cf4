// One-hot: which ordered stores become statements over the rows, held as text.
#include "passes/one_hot.h"

#include <gtest/gtest.h>

#include "build.h"

namespace graft::passes {
namespace {

/// The items of a program over rows %2[64,100], indices %1[64] and row values %3[64], after the
/// pass.
std::string after_store(const std::string& lines) {
  return items_after(
      "%0: argument 0, 25600 bytes\n%1: argument 1, 512 bytes\n%2: output, 25600 bytes\n"
      "%3: argument 2, 256 bytes\n" +
          lines + "result 0 = %2 f32[64,100]:(100,1)\n",
      one_hot);
}

const std::string kWhole = "[a:64,b:100] %2[a*100+b] f32 = (%0[a*100+b] * 2)\n";

TEST(OneHot, OneElementPerRowJoinsTheRow) {
  EXPECT_EQ(after_store(kWhole + "repeat 1 in order\n"
                                 "  [a:1,b:64] %2[b*100+(%1[b]:100)] f32 = "
                                 "(%2[b*100+(%1[b]:100)] + %3[b])\n"),
            kWhole +
                "[a:64,b:100] %2[a*100+b] f32 = select((b == %1[a]), "
                "(%2[a*100+b] + %3[a]), %2[a*100+b])\n");
}

TEST(OneHot, AStoreThatReadsNothingKeepsTheRest) {
  EXPECT_EQ(after_store(kWhole + "repeat 1 in order\n"
                                 "  [a:1,b:100] %2[b+(%1[0]:64)*100] f32 = %3[0]\n"),
            kWhole +
                "[a:64,b:100] %2[a*100+b] f32 = select((a == %1[0]), %3[0], "
                "%2[a*100+b])\n");
}

const std::string kScattered = "[a:64] %2[a*100+(%1[a]:100)] f32 = %3[a]\n";
const std::string kSelected =
    "[a:64,b:100] %2[a*100+b] f32 = select((b == %1[a]), %3[a], %2[a*100+b])\n";

TEST(OneHot, SoDoesWhatScatterStores) {
  EXPECT_EQ(after_store(kWhole + kScattered), kWhole + kSelected);
}

/// The largest five of each row would walk the rows five times.
TEST(OneHot, OnlyTheFirstOfSeveral) {
  EXPECT_EQ(after_store(kWhole + kScattered + kScattered), kWhole + kSelected + kScattered);
}

/// Several steps, rows that were not stored whole, indices of any size, and what is read elsewhere
/// in the rows stay as they are.
TEST(OneHot, OthersStayInOrder) {
  for (const char* other : {"repeat 2 in order\n"
                            "  [a:2,b:64] %2[b*100+(%1[b]:100)] f32 = %3[b]\n",
                            "repeat 1 in order\n"
                            "  [a:1,b:64] %2[b*100+(%1[b])] f32 = %3[b]\n",
                            "repeat 1 in order\n"
                            "  [a:1,b:63] %2[b*100+(%1[b]:100)] f32 = %2[b*100+100]\n",
                            "[a:16,b:4] %2[a*100+(%1[a*4+b]:100)] f32 = $3\n"}) {
    const std::string text = kWhole + other;
    EXPECT_EQ(after_store(text), text);
  }
  const std::string part =
      "[a:64,b:99] %2[a*100+b] f32 = %0[a*100+b]\n"
      "repeat 1 in order\n"
      "  [a:1,b:64] %2[b*100+(%1[b]:100)] f32 = %3[b]\n";
  EXPECT_EQ(after_store(part), part);
}

}  // namespace
}  // namespace graft::passes
