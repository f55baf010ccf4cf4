// Turn: the vector loop around a tile goes inside of the tile's loops, so that routines that want
// whole arrays get rows of them.
#include "passes/turn.h"

#include <gtest/gtest.h>

#include "programs.h"

namespace graft::passes {
namespace {

using ir::ReduceOp;
using ir::Value;

/// out[a, c] = 2 sum_b exp(x[a, b] t[c]): lanes over c, of which exp would get a vector at a time.
TEST(Turn, RoutinesGetRowsOfColumns) {
  ProgramBuilder b;
  auto x = b.argument({64, 32}), t = b.argument({1024});
  auto sums = b.temporary({64, 1024}), out = b.output({64, 1024});
  ir::StatementBuilder s({64, 1024, 32});
  ir::View wide_x = x, wide_t = t;
  wide_x.sizes = {64, 1024, 32}, wide_x.strides = {32, 0, 1};
  wide_t.sizes = {64, 1024, 32}, wide_t.strides = {0, 1, 0};
  const Value power = call(ir::Routine::ArrayExp, s.load(wide_x) * s.load(wide_t));
  b.program.items.emplace_back(
      s.store(sums, s.reduce(ReduceOp::Sum, power, {false, false, true}, kDouble)));
  b.map(out, [](Value v) { return v * 2.0; }, sums);
  EXPECT_EQ(schedule_of(b),
            "kernel sum_map v0:64\n"
            "  scratch %2: 4096 bytes at 0\n"
            "  serial v2:32\n"
            "    vector v1:1024\n"
            "      %2[v1] f32 = f32(reduced)  reduced = sum.f64{v2} "
            "ArrayExp((%0.f32[v0*32+v2] * %1[v1]))\n"
            "  vector v3:1024\n"
            "    %3[v0*1024+v3] f32 = (%2[v3] * 2)\n"
            "result 0 = %3 f32[64,1024]:(1024,1)\n");
}

/// Sums of `rows` x 5 neighbours, of which a row is 512 numbers long.
std::string schedule_of_neighbours(int64_t rows) {
  ProgramBuilder b;
  auto x = b.argument({64 + rows, 512}), out = b.output({64, 508});
  ir::StatementBuilder s({64, 508, rows, 5});
  ir::View near = x;
  near.sizes = {64, 508, rows, 5}, near.strides = {512, 1, 512, 1};
  b.program.items.emplace_back(
      s.store(out, s.reduce(ReduceOp::Sum, s.load(near), {false, false, true, true}, kDouble)));
  return schedule_of(b);
}
TEST(Turn, FewRowsAreReadSideBySide) {
  const std::string few = schedule_of_neighbours(5), many = schedule_of_neighbours(32);
  EXPECT_NE(few.find("  vector v1:508\n"
                     "    serial v2:5\n"
                     "      serial v3:5\n"),
            std::string::npos)
      << few;
  EXPECT_NE(many.find("  serial v2:32\n"
                      "    serial v3:5\n"
                      "      vector v1:508\n"),
            std::string::npos)
      << many;
}

/// A recurrence over steps, h = f(x_t + a) h + x_t for each channel and state, and y_t = sum h: the
/// channels are lanes. `routine`: f, the identity without it.
ProgramBuilder turned_recurrence(bool routine) {
  constexpr int64_t kSteps = 12, kChannels = 256, kStates = 4;
  ProgramBuilder b;
  auto x = b.argument({kSteps, kChannels}), rates = b.argument({kChannels, kStates});
  auto y = b.output({kSteps, kChannels});
  ir::View state = b.temporary({kChannels, kStates});
  b.map(state, [](Value r) { return r * 0.0; }, rates);
  for (int64_t t = 0; t < kSteps; ++t) {
    ir::View row = slice(x, 0, t, t + 1), out = slice(y, 0, t, t + 1);
    out.sizes = {kChannels}, out.strides = {1};
    row.sizes = {kChannels, kStates}, row.strides = {1, 0};
    const ir::View next = b.temporary({kChannels, kStates});
    b.map(
        next,
        [&](Value v, Value a, Value h) {
          const Value sum = v + a;
          return (routine ? call(ir::Routine::ArrayExp, sum) : sum) * h + v;
        },
        row, rates, state);
    b.reduce_last(out, ReduceOp::Sum, next, kDouble);
    state = next;
  }
  return b;
}

TEST(Turn, LanesOfStepsTurnForRoutines) {
  const std::string turned = schedule_of(turned_recurrence(true)),
                    plain = schedule_of(turned_recurrence(false));
  EXPECT_GT(count_of("step v", turned), 0u) << turned;
  EXPECT_EQ(count_of("by lane", turned), 0u) << turned;
  EXPECT_GT(count_of("      vector v", turned), 0u) << turned;
  EXPECT_GT(count_of("by lane", plain), 0u) << plain;
}

/// The interpreter runs the turned loops as the program.
TEST(Turn, KeepsTheResults) {
  const ProgramBuilder b = turned_recurrence(true);
  const std::vector<at::Tensor> arguments = whole_numbers(b);
  const std::string expected = after(b.program, arguments);
  for (int lanes : {16, 8, 4}) {
    Settings settings;
    settings.target.lanes = lanes;
    EXPECT_TRUE(after(run(b.program, settings), arguments) == expected) << lanes;
  }
}

}  // namespace
}  // namespace graft::passes
