// Recompute: what is computed again instead of lying in memory for long, and what is not.
#include "passes/recompute.h"

#include <gtest/gtest.h>

#include "ir/parse.h"
#include "ir/touch.h"
#include "programs.h"

namespace graft::passes {
namespace {

/// Of a program in which %1 is made by a call, %2 by `makes`, and both are read behind `calls`
/// others: the lines that compute something again.
std::string computed_again(const std::string& makes, int calls = 12,
                           const std::string& between = "") {
  const std::string whole = " f32[512,512]:(512,1)";
  auto product = [&](int of, int made) {
    const std::string m = "%" + std::to_string(made);
    return m + whole + " = aten::mm(%" + std::to_string(of) + whole + ", %0" + whole + ") writes " +
           m + "\n";
  };
  std::string text = "argument 0 = %0" + whole + "\n%0: argument 0, 1048576 bytes\n";
  const int last = 5 + calls;
  for (int s = 1; s <= last + 1; ++s) {
    const bool small = s == 3, call = s != 2 && s != 3;
    text += "%" + std::to_string(s) + (s == 4 ? ": output, " : ": temporary, ") +
            (small ? "2048" : "1048576") + " bytes" + (call ? ", made by extern\n" : "\n");
  }
  text += product(0, 1) + makes + "\n" + product(2, 5);
  for (int s = 6; s <= last; ++s) text += product(s - 1, s);
  text += between + "\n";
  text += "%4" + whole + " = aten::addmm(%1" + whole + ", %2" + whole + ", %" +
          std::to_string(last) + whole + ") writes %4\nresult 0 = %4" + whole + "\n";
  const ir::Program program = ir::parse(text);
  EXPECT_EQ(ir::verify(program), "");
  const ir::Program again = recompute(program, {});
  EXPECT_EQ(ir::verify(again), "");
  std::string lines;
  for (size_t i = 0; i < again.items.size(); ++i)
    ir::each_touch(again.items[i], [&](int storage, bool writes) {
      if (!writes || static_cast<size_t>(storage) < program.storages.size()) return;
      const auto* s = std::get_if<ir::Statement>(&again.items[i]);
      lines += s ? ir::print(*s) + "\n" : "a call\n";
    });
  return lines;
}

constexpr const char* kMap = "[a:512,b:512] %2[a*512+b] f32 = (min(%1[a*512+b], 3) * %1[a*512+b])";

TEST(Recompute, AMapOfWhatIsThereAnyway) {
  EXPECT_EQ(computed_again(kMap),
            "[a:512,b:512] %19[a*512+b] f32 = (min(%1[a*512+b], 3) * %1[a*512+b])  after %17\n");
}

/// A row's factor stays in memory for it.
TEST(Recompute, AMapOfASmallResult) {
  EXPECT_EQ(computed_again("[a:512,b:512] %3[a] f32 = reduced  reduced = max.f32{b} %1[a*512+b]\n"
                           "[a:512,b:512] %2[a*512+b] f32 = (%1[a*512+b] - %3[a])"),
            "[a:512,b:512] %19[a*512+b] f32 = (%1[a*512+b] - %3[a])  after %17\n");
}

/// Across rows: a twentieth of the one product.
TEST(Recompute, NotWhereItTakesTooLong) {
  EXPECT_EQ(
      computed_again("[a:512,b:512] %2[a*512+b] f32 = (min(%1[b*512+a], 3) * %1[a*512+b])", 1), "");
}

TEST(Recompute, NotARunningSum) {
  EXPECT_EQ(computed_again("[a:512,b:512] %2[a*512+b] f32 = reduced  scan sum.f32{b} %1[a*512+b]"),
            "");
}

TEST(Recompute, NotOfWhatChangesMeanwhile) {
  const std::string of_argument =
      "[a:512,b:512] %2[a*512+b] f32 = (min(%0[a*512+b], 3) * %0[a*512+b])";
  EXPECT_NE(computed_again(of_argument), "");
  EXPECT_EQ(computed_again(of_argument, 12, "[a:512,b:512] %0[a*512+b] f32 = %1[a*512+b]"), "");
}

/// Fusing would otherwise move it up to what else reads its inputs.
TEST(Recompute, WhatIsComputedAgainRunsBehindTheCallsBetween) {
  const std::string text = schedule_of(kept_for_long());
  EXPECT_EQ(count_of("min(", text), 2u) << text;
  EXPECT_EQ(count_of("kernel ", text), 3u) << text;
  EXPECT_LT(text.find("aten::mm"), text.rfind("min(")) << text;
}

}  // namespace
}  // namespace graft::passes
