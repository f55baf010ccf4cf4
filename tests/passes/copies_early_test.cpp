// Copies early: the parts of a stack move to where they are made, and a loop has them.
#include "passes/copies_early.h"

#include <gtest/gtest.h>

#include "passes/dead_stores.h"
#include "passes/reroll.h"
#include "programs.h"

namespace graft::passes {
namespace {

using ir::Value;

TEST(CopiesEarly, AStackAtTheEndJoinsTheLoop) {
  ProgramBuilder b = stacked_states(4, 8);
  std::string late = items(remove_dead_stores(reroll(b.program)));
  EXPECT_EQ(count_of("repeat", late), 0u) << late;
  std::string early = items(remove_dead_stores(reroll(copies_early(b.program))));
  EXPECT_EQ(early,
            "[a:4] %2[a] f32 = (%0[a*8] * 2)\n"
            "[a:4] %1[a*8] f32 = %2[a]\n"
            "[a:4] %9[a] f32 = (max(neg(%2[a]), %0[a*8+1]) + %0[a*8+1])\n"
            "[a:4] %1[a*8+1] f32 = %9[a]\n"
            "repeat 6\n"
            "  [a:6,b:4] %9[b] f32 = (max(neg(%9[b]), %0[a+b*8+2]) + %0[a+b*8+2])\n"
            "  [a:6,b:4] %1[a+b*8+2] f32 = %9[b]\n");
}

TEST(CopiesEarly, CopiesStayWhereNoLoopGainsByIt) {
  ProgramBuilder b;
  auto x = b.argument({4, 6}), out = b.output({4, 6});
  std::vector<ir::View> parts;
  for (int64_t k = 0; k < 3; ++k) {
    parts.push_back(b.temporary({4, 2}));
    b.map(
        parts.back(), [k](Value v) { return k == 1 ? -v : v * (k + 2.0); },
        slice(x, 1, 2 * k, 2 * k + 2));
  }
  for (int64_t k = 0; k < 3; ++k)
    b.map(slice(out, 1, 2 * k, 2 * k + 2), copy, parts[static_cast<size_t>(k)]);
  EXPECT_EQ(items(copies_early(b.program)), items(b.program));
}

/// Part 0 is overwritten after it was copied late: moved, the copy would hold the older value.
TEST(CopiesEarly, ACopyDoesNotMovePastAWriteOfWhatItCopies) {
  ProgramBuilder b = stacked_states(4, 8);
  ir::View last = b.program.signature.results.front().view;
  auto y = b.output({4, 8});
  for (int64_t k = 0; k < 8; ++k) b.map(column(y, k), copy, column(last, 7 - k));
  std::vector<at::Tensor> arguments = whole_numbers(b);
  EXPECT_TRUE(after(copies_early(b.program), arguments) == after(b.program, arguments));
}

}  // namespace
}  // namespace graft::passes
