// Schedules broken by hand: each is refused, and the text names what is wrong.
#include "ir/verify.h"

#include <gtest/gtest.h>

#include <functional>

#include "ir/builder.h"

namespace graft::ir {
namespace {

constexpr auto kFloat = ScalarType::Float;

View row(int storage, int64_t count = 64) {
  return {storage, kFloat, 0, {count}, {1}};
}

/// to[…] = from[…] + 1 in one vector loop.
Kernel kernel(const std::string& name, int to, int from) {
  Kernel made;
  made.name = name;
  made.vars = {{64, LoopKind::Vector}};
  StatementBuilder s({64});
  made.placed.push_back({s.store(row(to), s.load(row(from)) + 1.0), {0}});
  auto loop = std::make_unique<Loop>(Loop{0, {}});
  loop->body.push_back({nullptr, 0});
  made.body.push_back({std::move(loop), -1});
  return made;
}

/// Adds to[…] = from[…] + 1 to a kernel, in a loop of its own.
void add(Kernel& kernel, int to, int from) {
  int var = static_cast<int>(kernel.vars.size()), placed = static_cast<int>(kernel.placed.size());
  kernel.vars.push_back({64, LoopKind::Vector});
  StatementBuilder s({64});
  kernel.placed.push_back({s.store(row(to), s.load(row(from)) + 1.0), {var}});
  auto loop = std::make_unique<Loop>(Loop{var, {}});
  loop->body.push_back({nullptr, placed});
  kernel.body.push_back({std::move(loop), -1});
}

Extern call(int out, int in) {
  Extern e{{"aten::abs", ""}, {}, {}, {}, {}, -1};
  e.slots.push_back({Extern::Slot::Kind::Tensor, {}, {0}});
  e.inputs = {row(in)};
  e.outputs = {row(out)};
  e.written = {out};
  return e;
}

/// %0 the argument, %1 and %2 temporaries in the arena, %3 made by an extern, %4 the result, %5 and
/// %6 in scratch of the last kernel.
Schedule good() {
  Schedule s;
  s.storages = {{Role::Argument, 256, 0, false},   {Role::Temporary, 256, -1, false},
                {Role::Temporary, 256, -1, false}, {Role::Temporary, 256, -1, true},
                {Role::Output, 256, -1, false},    {Role::Temporary, 256, -1, false},
                {Role::Temporary, 256, -1, false}};
  s.steps.emplace_back(kernel("first", 1, 0));
  s.steps.emplace_back(kernel("second", 2, 1));
  s.steps.emplace_back(call(3, 2));
  Kernel last = kernel("last", 5, 3);
  add(last, 6, 5);
  add(last, 4, 6);
  last.scratch = {{5, 0, 256}, {6, 256, 256}};
  last.scratch_bytes = 512;
  s.steps.emplace_back(std::move(last));
  s.arena_offset = {-1, 0, 256, -1, -1, -1, -1};
  s.arena_bytes = 512;
  Result result;
  result.view = row(4);
  s.signature.results = {result};
  return s;
}
Kernel& kernel_at(Schedule& s, size_t step) {
  return std::get<Kernel>(s.steps[step]);
}
Extern& extern_at(Schedule& s, size_t step) {
  return std::get<Extern>(s.steps[step]);
}

struct Broken {
  std::function<void(Schedule&)> change;
  const char* wrong;
};

void expect_refused(const std::vector<Broken>& all) {
  for (const Broken& one : all) {
    Schedule s = good();
    one.change(s);
    EXPECT_EQ(verify(s), one.wrong);
  }
}

TEST(VerifySchedule, AGoodOnePasses) {
  EXPECT_EQ(verify(good()), "");
  Schedule unplanned = good();
  unplanned.arena_offset.clear();
  EXPECT_EQ(verify(unplanned), "");
}

TEST(VerifySchedule, Scratch) {
  expect_refused({
      {[](Schedule& s) { kernel_at(s, 3).scratch[1].offset = 192; },
       "step 3 (kernel last): scratch of %5 and of %6 share bytes"},
      {[](Schedule& s) { kernel_at(s, 3).scratch_bytes = 511; },
       "step 3 (kernel last): scratch of %6 lies at bytes 256 to 512 of a block of 511"},
      {[](Schedule& s) { kernel_at(s, 3).scratch[0].offset = -64; },
       "step 3 (kernel last): scratch of %5 lies at bytes -64 to 192 of a block of 512"},
      {[](Schedule& s) {
         kernel_at(s, 3).scratch_bytes = 640, kernel_at(s, 3).scratch[1].offset = 300;
       },
       "step 3 (kernel last): scratch of %6 lies at byte 300, no multiple of 64"},
      {[](Schedule& s) { s.storages[5].role = Role::Output; },
       "step 3 (kernel last): scratch of %5, which is no temporary of the plan"},
      {[](Schedule& s) {
         kernel_at(s, 3).scratch.push_back({5, 512, 256}), kernel_at(s, 3).scratch_bytes = 768;
       },
       "step 3 (kernel last): scratch of %5 twice"},
      {[](Schedule& s) {
         kernel_at(s, 0).scratch = {{1, 0, 256}}, kernel_at(s, 0).scratch_bytes = 256;
       },
       "step 1 (kernel second): touches %1, scratch of step 0"},
      {[](Schedule& s) { kernel_at(s, 3).scratch[0].storage = 9; },
       "step 3 (kernel last): no such storage: %9"},
  });
}

TEST(VerifySchedule, Own) {
  auto kernel = [](Schedule& s, size_t step) -> Kernel& { return std::get<Kernel>(s.steps[step]); };
  expect_refused({
      {[&](Schedule& s) { kernel(s, 0).placed[0].ahead = {{0, 7, 1}}; },
       "step 0 (kernel first): statement 0 asks ahead for load 0 along v7"},
      {[&](Schedule& s) { kernel(s, 1).own = {2}; },
       "step 1 (kernel second): has %2 for its own, which other steps touch, or none"},
      {[&](Schedule& s) { kernel(s, 0).own = {0}; },
       "step 0 (kernel first): has %0 for its own, which is no temporary"},
      {[&](Schedule& s) { kernel(s, 3).own = {3}; },
       "step 3 (kernel last): has %3 for its own, which is no temporary"},
  });
}

TEST(VerifySchedule, Arena) {
  expect_refused({
      {[](Schedule& s) { s.arena_offset[2] = 192; },
       "%1 and %2 share bytes of the arena, and both live at step 1"},
      {[](Schedule& s) { s.arena_offset[2] = 320; },
       "%2 lies at bytes 320 to 576 of an arena of 512"},
      {[](Schedule& s) { s.arena_offset[1] = 16; },
       "%1 lies at byte 16 of the arena, no multiple of 64"},
      {[](Schedule& s) { s.arena_offset[1] = -1; }, "temporary %1 has no memory"},
      {[](Schedule& s) { s.arena_offset[4] = 0; },
       "%4 lies in the arena, and is no temporary of the plan"},
      {[](Schedule& s) { s.arena_offset[3] = 0; },
       "%3 lies in the arena, and is no temporary of the plan"},
      {[](Schedule& s) { s.arena_offset[6] = 0; }, "%6 lies in the arena and in scratch"},
      {[](Schedule& s) { s.arena_offset.pop_back(); }, "6 arena offsets for 7 storages"},
  });
}

/// One after the other they may share.
TEST(VerifySchedule, TemporariesThatNeverMeetShareTheArena) {
  Schedule s = good();
  s.storages.push_back({Role::Temporary, 256, -1, false});
  s.arena_offset.push_back(0);
  s.steps.emplace_back(kernel("fourth", 7, 0));
  EXPECT_EQ(verify(s), "");
  add(kernel_at(s, 4), 4, 1);
  EXPECT_EQ(verify(s), "%1 and %7 share bytes of the arena, and both live at step 4");
}

TEST(VerifySchedule, Order) {
  expect_refused({
      {[](Schedule& s) { std::swap(s.steps[0], s.steps[1]); },
       "step 0 (kernel second): reads %1 before anything wrote it"},
      {[](Schedule& s) { std::swap(s.steps[1], s.steps[2]); },
       "step 1 (extern aten::abs): reads %2 before anything wrote it"},
      {[](Schedule& s) { std::swap(kernel_at(s, 3).body[0], kernel_at(s, 3).body[1]); },
       "step 3 (kernel last): reads %5 before anything wrote it"},
      {[](Schedule& s) { s.steps.insert(s.steps.begin(), Abort{1, 0}); },
       "step 0 (abort): reads %1 before anything wrote it"},
  });
}

TEST(VerifySchedule, NamesAndViews) {
  expect_refused({
      {[](Schedule& s) { extern_at(s, 2).inputs[0].sizes = {65}; },
       "step 2 (extern aten::abs): a tensor reaches bytes 0 to 260 of storage %2, which has 256"},
      {[](Schedule& s) { extern_at(s, 2).outputs[0].byte_offset = -4; },
       "step 2 (extern aten::abs): a tensor reaches bytes -4 to 252 of storage %3, which has 256"},
      {[](Schedule& s) { extern_at(s, 2).inputs[0].storage = 7; },
       "step 2 (extern aten::abs): no such storage: %7"},
      {[](Schedule& s) { extern_at(s, 2).slots[0].views = {1}; },
       "step 2 (extern aten::abs): no such input: 1"},
      {[](Schedule& s) { s.steps.emplace_back(Abort{-1, 0}); },
       "step 4 (abort): no such storage: %-1"},
      {[](Schedule& s) { kernel_at(s, 1).placed[0].statement.store.storage = 12; },
       "step 1 (kernel second): no such storage: %12"},
      {[](Schedule& s) { s.signature.results[0].view.storage = 1; },
       "result 0: lies in %1, a temporary that goes with the run"},
      {[](Schedule& s) { s.signature.results[0].view.storage = 8; },
       "result 0: no such storage: %8"},
      {[](Schedule& s) { s.signature.results[0].view.strides = {2}; },
       "result 0: a tensor reaches bytes 0 to 508 of storage %4, which has 256"},
      {[](Schedule& s) { s.signature.results[0].same_as = 0; },
       "result 0: is the same as a later result"},
  });
}

/// A kernel is checked as it always was, and named with its step.
TEST(VerifySchedule, Kernels) {
  Schedule s = good();
  kernel_at(s, 0).placed[0].statement.store.offset = 1;
  std::string wrong = verify(s);
  EXPECT_EQ(wrong.find("step 0 (kernel first): kernel first: store: reaches bytes 4 to 260 of "
                       "storage %1, which has 256"),
            0u)
      << wrong;
}

}  // namespace
}  // namespace graft::ir
