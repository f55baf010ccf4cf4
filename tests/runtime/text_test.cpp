// Programs written as text, compiled and run with no trace at all.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "ir/parse.h"
#include "runtime/function/compile.h"

namespace graft::runtime {
namespace {

std::unique_ptr<Plan> plan_of(const char* text) {
  CompileSettings settings;
  settings.name = "text";
  settings.target = codegen::host_target(1);
  return generate(schedule(ir::parse(text), settings), settings.target, settings.name).plan;
}

std::vector<at::Tensor> run_text(const Plan& plan, const std::vector<at::Tensor>& arguments,
                                 const std::vector<at::Tensor>& captured = {}) {
  detail::FlatArgs args;
  for (const at::Tensor& tensor : arguments) args.tensors.push_back(&tensor);
  std::vector<at::Tensor> results(plan.result_count());
  EXPECT_EQ(plan.run(args, captured.data(), results.data()), Plan::Outcome::Done);
  return results;
}

TEST(Text, AProgramRuns) {
  auto plan = plan_of(R"(
    argument 0 = %0 f32[4,6]:(6,1)
    argument 1 = %1 bf16[6]:(1)
    %0: argument 0, 96 bytes
    %1: argument 1, 12 bytes
    %2: temporary, 96 bytes
    %3: output, 16 bytes
    [a:4,b:6] %2[a*6+b] f32 = (%0[a*6+b] * f32(%1.bf16[b]))
    [a:4,b:6] %3[a] f32 = f32(reduced)  reduced = sum.f64{b} f64(%2.f32[a*6+b])
    result 0 = %3 f32[4]:(1)
  )");
  at::Tensor x = at::arange(24, at::kFloat).view({4, 6}), w = at::ones({6}, at::kBFloat16) * 2;
  EXPECT_TRUE(at::equal(run_text(*plan, {x, w})[0], (x * 2).sum(1)));
}

TEST(Text, WhatTheSignatureSaysHolds) {
  auto plan = plan_of(R"(
    argument 0 = %0 f32[8]:(1)  bumped
    captured 0 = %1 f32[8]:(1)
    %0: argument 0, 32 bytes
    %1: captured 0, 32 bytes
    %2: output, 256 bytes, made by extern
    [a:8] %0[a] f32 = (%0[a] + %1[a])
    %2 f32[8,8]:(8,1) = aten::outer(%0 f32[8]:(1), %1 f32[8]:(1)) writes %2
    result 0 = argument 0
    result 1 = %0 f32[4]:(1)@16
    result 2 = %2 f32[8,8]:(8,1)
    result 3 = result 2
    result 4 = undefined
    result 5 = captured 0
  )");
  at::Tensor x = at::zeros({8}), held = at::arange(8, at::kFloat);
  auto version = x._version();
  std::vector<at::Tensor> results = run_text(*plan, {x}, {held});
  EXPECT_TRUE(results.at(0).is_same(x));
  EXPECT_EQ(x._version(), version + 1);
  EXPECT_TRUE(at::equal(x, held));
  EXPECT_TRUE(results[1].is_alias_of(x));
  EXPECT_TRUE(at::equal(results[1], x.slice(0, 4, 8)));
  EXPECT_TRUE(at::equal(results[2], at::outer(held, held)));
  EXPECT_TRUE(results[3].is_same(results[2]));
  EXPECT_FALSE(results[4].defined());
  EXPECT_TRUE(results[5].is_same(held));
}

TEST(Text, AValueWithoutATextFormIsRefused) {
  EXPECT_THROW(plan_of(R"(
    argument 0 = %0 f32[8]:(1)
    %0: argument 0, 32 bytes
    aten::uniform_(%0 f32[8]:(1), 0.0, 1.0, opaque "Generator") writes %0
    result 0 = argument 0
  )"),
               std::logic_error);
}

}  // namespace
}  // namespace graft::runtime
