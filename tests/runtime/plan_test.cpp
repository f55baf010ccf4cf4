// Plans from schedules built by hand, with kernels written in C++.
#include "runtime/plan/plan.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include "ir/builder.h"
#include "support/compare.h"

namespace graft::runtime {
namespace {

using codegen::LaunchArgs;
using test::same;

/// y[i] = x[i] + 1 over pointers {y, x}.
void add_one(const LaunchArgs* args, char*, int64_t begin, int64_t end) {
  auto* y = reinterpret_cast<float*>(args->pointers[0]);
  auto* x = reinterpret_cast<const float*>(args->pointers[1]);
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] + 1;
}
/// flag = any x[i] < 0
void any_negative(const LaunchArgs* args, char*, int64_t begin, int64_t end) {
  auto* x = reinterpret_cast<const float*>(args->pointers[1]);
  for (int64_t i = begin; i < end; ++i) *args->pointers[0] = *args->pointers[0] == 1 || x[i] < 0;
}

class Program {
 public:
  explicit Program(const std::vector<at::Tensor>& arguments) {
    for (const at::Tensor& tensor : arguments) {
      int storage = add({ir::Role::Argument, static_cast<int64_t>(tensor.nbytes()),
                         static_cast<int>(schedule.signature.arguments.size())});
      schedule.signature.arguments.push_back(
          {storage, tensor.scalar_type(), 0, tensor.sizes().vec(), tensor.strides().vec()});
    }
  }

  int add(ir::Storage storage, int64_t arena = -1) {
    schedule.storages.push_back(storage);
    schedule.arena_offset.push_back(arena);
    return static_cast<int>(schedule.storages.size()) - 1;
  }
  int output(int64_t count) { return add({ir::Role::Output, count * 4}); }
  int temporary(int64_t count) {
    int made = add({ir::Role::Temporary, count * 4}, schedule.arena_bytes);
    schedule.arena_bytes += (count * 4 + 63) / 64 * 64;
    return made;
  }
  ir::View view(int storage, std::vector<int64_t> sizes, int64_t offset = 0) {
    auto strides = ir::contiguous_strides(sizes);
    return {storage, at::kFloat, offset * 4, std::move(sizes), std::move(strides)};
  }
  void kernel(codegen::KernelFn fn, int to, int from, int64_t count, int64_t grain = 1 << 20) {
    ir::Kernel kernel;
    ir::Placed placed;
    placed.statement.store.storage = to;
    kernel.placed.push_back(std::move(placed));
    schedule.steps.emplace_back(std::move(kernel));
    ReadyKernel ready;
    ready.binding.pointers = {{to, 0}, {from, 0}};
    ready.binding.range_extent = count;
    ready.binding.grain = grain;
    ready.code.fn = fn;
    kernels.push_back(std::move(ready));
  }
  ir::Extern& call(const char* name, const char* overload, std::vector<ir::View> inputs) {
    ir::Extern step{{name, overload}, {}, std::move(inputs), {}, {}, -1};
    for (size_t i = 0; i < step.inputs.size(); ++i)
      step.slots.push_back({OperandKind::Tensor, {}, {static_cast<int>(i)}});
    schedule.steps.emplace_back(std::move(step));
    return std::get<ir::Extern>(schedule.steps.back());
  }
  ir::View extern_output(ir::Extern& step, std::vector<int64_t> sizes,
                         ir::Role role = ir::Role::Temporary) {
    ir::Storage storage{role, ir::numel(sizes) * 4};
    storage.made_by_extern = true;
    ir::View made = view(add(storage), std::move(sizes));
    step.outputs.push_back(made);
    step.written.push_back(made.storage);
    return made;
  }
  void result(ir::View view) {
    ir::Result made;
    made.view = std::move(view);
    schedule.signature.results.push_back(std::move(made));
  }
  Plan plan() { return Plan(schedule, kernels); }

  ir::Schedule schedule;
  std::vector<ReadyKernel> kernels;
};

struct Ran {
  Plan::Outcome outcome;
  std::vector<at::Tensor> results;
};
Ran run(const Plan& plan, const std::vector<at::Tensor>& arguments) {
  detail::FlatArgs args;
  for (const at::Tensor& tensor : arguments) args.tensors.push_back(&tensor);
  Ran ran{Plan::Outcome::Done, std::vector<at::Tensor>(plan.result_count())};
  ran.outcome = plan.run(args, nullptr, ran.results.data());
  return ran;
}

TEST(Plan, RunsKernelsThroughTemporariesIntoAFreshOutput) {
  at::Tensor x = at::arange(100, at::kFloat);
  Program p({x});
  int t = p.temporary(100), y = p.output(100);
  p.kernel(add_one, t, 0, 100);
  p.kernel(add_one, y, t, 100);
  p.result(p.view(y, {10, 10}));
  Plan plan = p.plan();
  Ran first = run(plan, {x}), second = run(plan, {x});
  EXPECT_TRUE(same(first.results[0], (x + 2).view({10, 10})));
  EXPECT_NE(first.results[0].data_ptr(), second.results[0].data_ptr());
  EXPECT_TRUE(first.results[0].is_contiguous());
  EXPECT_EQ(first.results[0]._version(), 0);
  first.results[0].resize_({20, 20});  // as any tensor of at::empty's
}

TEST(Plan, SplitsARangeAmongThreads) {
  at::Tensor x = at::arange(100000, at::kFloat);
  Program p({x});
  int y = p.output(100000);
  p.kernel(add_one, y, 0, 100000, 1000);
  p.result(p.view(y, {100000}));
  Plan plan = p.plan();
  int threads = at::get_num_threads();
  for (int n : {1, 3, threads}) {
    at::set_num_threads(n);  // read at launch
    EXPECT_TRUE(same(run(plan, {x}).results[0], x + 1));
  }
}

/// Profilers see each kernel as an operator.
TEST(Plan, TellsProfilersOfItsKernels) {
  const at::Tensor x = at::arange(100, at::kFloat);
  Program p({x});
  const int t = p.temporary(100), y = p.output(100);
  p.kernel(add_one, t, 0, 100);
  p.kernel(add_one, y, t, 100);
  p.result(p.view(y, {100}));
  const Plan plan = p.plan();
  static std::vector<std::string> seen;
  seen.clear();
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(
      [](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
        seen.emplace_back(call.name());
        return nullptr;
      }));
  run(plan, {x});
  at::removeCallback(handle);
  std::erase_if(seen, [](const std::string& name) { return !name.starts_with("graft::"); });
  EXPECT_EQ(seen, (std::vector<std::string>{"graft::kernel-0-", "graft::kernel-1-"}));
}

TEST(Plan, WritesArgumentsAndBumpsTheirVersions) {
  at::Tensor x = at::zeros({8});
  Program p({x});
  p.kernel(add_one, 0, 0, 8);
  ir::Result own;
  own.argument = 0;
  p.schedule.signature.results.push_back(own);
  p.schedule.signature.bumped = {0};
  Plan plan = p.plan();
  auto version = x._version();
  Ran ran = run(plan, {x});
  EXPECT_TRUE(ran.results[0].is_same(x));
  EXPECT_EQ(x._version(), version + 1);
  EXPECT_TRUE(same(x, at::ones({8})));
  EXPECT_TRUE(plan.blocks()[0].written);
}

TEST(Plan, AViewOfAnArgumentIsARealView) {
  at::Tensor x = at::arange(12, at::kFloat).view({3, 4});
  Program p({x});
  p.result(p.view(0, {4}, 4));
  p.schedule.signature.results.back().lineage = {
      .root = Lineage::Root::Argument, .index = 0, .view = true};
  Plan plan = p.plan();
  at::Tensor row = run(plan, {x}).results[0];
  EXPECT_TRUE(row.is_alias_of(x));
  EXPECT_TRUE(row.is_view());
  EXPECT_TRUE(same(row, x[1]));
  row.fill_(7);
  EXPECT_EQ(x[1][2].item<float>(), 7);
  EXPECT_EQ(x._version(), row._version());
  c10::InferenceMode mode;
  EXPECT_TRUE(run(plan, {x}).results[0].is_alias_of(x));
}

TEST(Plan, CallsOperatorsAndTakesTheirMemory) {
  at::Tensor a = at::randn({4, 5}), b = at::randn({5, 6});
  Program p({a, b});
  ir::Extern& mm = p.call("aten::mm", "", {p.view(0, {4, 5}), p.view(1, {5, 6})});
  ir::View c = p.extern_output(mm, {4, 6});
  int y = p.output(24);
  p.kernel(add_one, y, c.storage, 24);
  p.result(p.view(y, {4, 6}));
  Plan plan = p.plan();
  EXPECT_TRUE(same(run(plan, {a, b}).results[0], at::mm(a, b) + 1));
}

TEST(Plan, OperatorsSeeViewsOfTemporariesAndOutputs) {
  at::Tensor x = at::randn({2, 3});
  Program p({x});
  int t = p.temporary(6), y = p.output(6);
  p.kernel(add_one, t, 0, 6);
  p.kernel(add_one, y, 0, 6);
  ir::View transposed = p.view(y, {3, 2});
  transposed.strides = {1, 3};
  ir::Extern& mm = p.call("aten::mm", "", {p.view(t, {2, 3}), transposed});
  p.result(p.extern_output(mm, {2, 2}, ir::Role::Output));
  p.result(p.view(y, {2, 3}));
  Plan plan = p.plan();
  Ran ran = run(plan, {x});
  EXPECT_TRUE(at::allclose(ran.results[0], at::mm(x + 1, (x + 1).t())));
  EXPECT_TRUE(same(ran.results[1], x + 1));
}

TEST(Plan, GivesUpWhenAnAbortFlagIsSet) {
  at::Tensor x = at::ones({8});
  Program p({x});
  int flag = p.temporary(1), y = p.output(8);
  p.kernel(add_one, flag, 0, 0);
  p.kernel(any_negative, flag, 0, 8);
  p.schedule.steps.emplace_back(ir::Abort{flag, 0});
  p.kernel(add_one, y, 0, 8);
  p.result(p.view(y, {8}));
  Plan plan = p.plan();
  EXPECT_EQ(run(plan, {x}).outcome, Plan::Outcome::Done);
  EXPECT_EQ(run(plan, {-x}).outcome, Plan::Outcome::GivenUp);
}

TEST(Plan, AThrowingOperatorMeansEagerOrPassesThrough) {
  at::Tensor a = at::randn({2, 3}), b = at::randn({2, 3});
  Program before({a, b});
  ir::Extern& bad = before.call("aten::mm", "", {before.view(0, {2, 3}), before.view(1, {2, 3})});
  before.result(before.extern_output(bad, {2, 3}, ir::Role::Output));
  EXPECT_EQ(run(before.plan(), {a, b}).outcome, Plan::Outcome::GivenUp);

  Program after({a, b});
  after.kernel(add_one, 0, 0, 6);
  ir::Extern& worse = after.call("aten::mm", "", {after.view(0, {2, 3}), after.view(1, {2, 3})});
  after.result(after.extern_output(worse, {2, 3}, ir::Role::Output));
  EXPECT_THROW(run(after.plan(), {a, b}), c10::Error);
}

/// Before anything visible was written eager can run; afterwards it is an error.
TEST(Plan, AnotherLayoutThanRecorded) {
  at::Tensor a = at::randn({4, 5}), b = at::randn({5, 6});
  Program before({a, b});
  ir::Extern& mm = before.call("aten::mm", "", {before.view(0, {4, 5}), before.view(1, {5, 6})});
  before.result(before.extern_output(mm, {6, 4}, ir::Role::Output));
  EXPECT_EQ(run(before.plan(), {a, b}).outcome, Plan::Outcome::GivenUp);

  Program after({a, b});
  after.kernel(add_one, 0, 0, 20);
  ir::Extern& other = after.call("aten::mm", "", {after.view(0, {4, 5}), after.view(1, {5, 6})});
  after.result(after.extern_output(other, {6, 4}, ir::Role::Output));
  try {
    run(after.plan(), {a, b});
    FAIL();
  } catch (const PlanError& error) {
    EXPECT_TRUE(error.visible);
    EXPECT_STREQ(error.what(),
                 "aten::mm returned another dtype or other sizes than when it was recorded");
  }
}

TEST(Plan, RefusesWhatCannotBeExecuted) {
  at::Tensor x = at::zeros({8});
  Program scratch({x});
  int t = scratch.add({ir::Role::Temporary, 32}), y = scratch.output(8);
  scratch.kernel(add_one, y, t, 8);
  EXPECT_THROW(scratch.plan(), std::logic_error) << "the temporary has no memory";

  Program unknown({x});
  unknown.call("aten::no_such_operator", "", {unknown.view(0, {8})});
  EXPECT_THROW(unknown.plan(), std::logic_error);
  Program few({x});
  few.call("aten::mm", "", {few.view(0, {2, 4})});
  EXPECT_THROW(few.plan(), std::logic_error) << "mm takes two";
}

TEST(Plan, ResultsOverOneOutputShareItsVersionCounter) {
  at::Tensor x = at::zeros({8});
  Program p({x});
  int y = p.output(8);
  p.kernel(add_one, y, 0, 8);
  p.result(p.view(y, {8}));
  p.result(p.view(y, {2}, 2));
  p.schedule.signature.results.back().lineage = {.root = Lineage::Root::Result, .index = 0};
  ir::Result again;
  again.same_as = 0;
  p.schedule.signature.results.push_back(again);
  Plan plan = p.plan();
  Ran ran = run(plan, {x});
  EXPECT_TRUE(ran.results[2].is_same(ran.results[0]));
  EXPECT_TRUE(ran.results[1].is_alias_of(ran.results[0]));
  ran.results[1].add_(1);
  EXPECT_EQ(ran.results[0]._version(), 1);
}

TEST(Plan, EmptyOutputs) {
  at::Tensor x = at::zeros({0, 3});
  Program p({x});
  p.result(p.view(p.output(0), {0, 3}));
  EXPECT_EQ(run(p.plan(), {x}).results[0].sizes(), x.sizes());
}

}  // namespace
}  // namespace graft::runtime
