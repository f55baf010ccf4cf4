// Which operators are recorded, and with what.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "recording.h"

namespace graft::record {
namespace {

using Names = std::vector<std::string>;

class Leaf : public ::testing::Test {
 protected:
  at::NoGradGuard no_grad;
  at::Tensor x = at::randn({4, 8});
  at::Tensor w = at::randn({8, 8});
  at::Tensor b = at::randn({8});
};

TEST_F(Leaf, CompositesAreSeenAsTheirParts) {
  EXPECT_EQ(names(trace_of({x, w, b}, [&] { return Tensors{at::linear(x, w, b)}; })),
            (Names{"aten::t", "aten::addmm"}));
  EXPECT_EQ(names(trace_of({x, w, b}, [&] { return Tensors{at::layer_norm(x, {8}, w[0], b)}; })),
            (Names{"aten::select.int", "aten::native_layer_norm"}));
  EXPECT_EQ(names(trace_of({x}, [&] { return Tensors{x.softmax(-1)}; })),
            (Names{"aten::_softmax"}));
  EXPECT_EQ(names(trace_of({x}, [&] { return Tensors{x.contiguous()}; })), Names{});
  EXPECT_EQ(names(trace_of({x}, [&] { return Tensors{x.t().contiguous()}; })),
            (Names{"aten::t", "aten::clone"}));
}

TEST_F(Leaf, WhatRunsInsideALeafIsNotSeen) {
  const at::Tensor q = at::randn({1, 2, 4, 8});
  const Trace trace = trace_of({q}, [&] {
    return Tensors{at::scaled_dot_product_attention(q, q, q, {}, 0.0, /*is_causal=*/true)};
  });
  expect_whole(trace);
  EXPECT_EQ(names(trace), (Names{"aten::_scaled_dot_product_flash_attention_for_cpu"}));
  EXPECT_EQ(trace.ops[0].outputs.size(), 2U);
  // stack runs cat, and mul.Scalar runs mul.Tensor: both are leaves themselves.
  EXPECT_EQ(names(trace_of({x}, [&] { return Tensors{at::stack({x, x * 2})}; })),
            (Names{"aten::mul.Scalar", "aten::stack"}));
}

TEST_F(Leaf, OperandsKeepTheirKinds) {
  const at::Tensor index = at::arange(2);
  const Trace trace = trace_of({x, index}, [&] {
    return Tensors{at::cat({x, x}, -1), at::index(x, {std::nullopt, index}),
                   x.clamp(0.5, std::nullopt)};
  });
  expect_whole(trace);
  ASSERT_EQ(names(trace), (Names{"aten::cat", "aten::index.Tensor", "aten::clamp"}));
  EXPECT_EQ(trace.ops[0].inputs[0].kind, Operand::Kind::TensorList);
  EXPECT_EQ(trace.ops[0].inputs[0].tensors, (TensorIds{trace.arguments[0], trace.arguments[0]}));
  EXPECT_EQ(trace.ops[0].inputs[1].constant.toInt(), -1);
  EXPECT_EQ(trace.ops[1].inputs[1].kind, Operand::Kind::OptionalTensorList);
  EXPECT_EQ(trace.ops[1].inputs[1].tensors, (TensorIds{-1, trace.arguments[1]}));
  EXPECT_EQ(trace.ops[2].inputs[1].constant.toDouble(), 0.5);
  EXPECT_TRUE(trace.ops[2].inputs[2].constant.isNone());
}

TEST_F(Leaf, AbsentTensorsAreMinusOne) {
  const Trace trace = trace_of({x}, [&] { return Tensors{at::layer_norm(x, {8})}; });
  ASSERT_EQ(trace.ops.size(), 1U);
  EXPECT_EQ(trace.ops[0].inputs[2].kind, Operand::Kind::Tensor);
  EXPECT_EQ(trace.ops[0].inputs[2].tensors, TensorIds{-1});
}

TEST_F(Leaf, RandomOperatorsAreRecordedInOrder) {
  const Trace trace = trace_of({x}, [&] {
    const at::Tensor dropped = at::dropout(x, 0.5, true);
    return Tensors{dropped + at::rand({4, 8}), at::bernoulli(at::full({4}, 0.5))};
  });
  expect_whole(trace);
  EXPECT_EQ(names(trace), (Names{"aten::empty_like", "aten::bernoulli_.float", "aten::div_.Scalar",
                                 "aten::mul.Tensor", "aten::empty.memory_format", "aten::uniform_",
                                 "aten::add.Tensor", "aten::full", "aten::bernoulli"}));
}

TEST_F(Leaf, NumbersOnTheLeft) {
  const Trace trace = trace_of({x}, [&] { return Tensors{1 - x, 2 / x}; });
  expect_whole(trace);
  EXPECT_EQ(names(trace), (Names{"aten::empty_like", "aten::fill_.Scalar", "aten::sub_.Tensor",
                                 "aten::empty_like", "aten::fill_.Scalar", "aten::div_.Tensor"}));
}

TEST_F(Leaf, ANumberInATensorsClothesIsAConstant) {
  at::Tensor number = at::scalar_tensor(2.5, at::kDouble);
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  const Trace trace = trace_of({x}, [&] { return Tensors{x * number}; });
  expect_whole(trace);
  const TensorInfo& info = input(trace, 0, 1);
  EXPECT_EQ(info.storage, -1);
  EXPECT_TRUE(info.wrapped_number);
  ASSERT_TRUE(info.constant);
  EXPECT_EQ(info.constant->toDouble(), 2.5);
  EXPECT_TRUE(trace.captured.empty());
}

TEST_F(Leaf, AutocastCastsAreOperators) {
  const at::Tensor parameter = at::randn({8, 8}).set_requires_grad(true);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  const Trace trace =
      trace_of({x}, [&] { return Tensors{at::mm(x, parameter), at::mm(x, parameter)}; });
  at::autocast::set_autocast_enabled(at::kCPU, false);
  expect_whole(trace);
  // Autocast would cast a parameter once and remember it; a plan must cast it at each call.
  EXPECT_EQ(names(trace), (Names{"aten::_to_copy", "aten::_to_copy", "aten::mm", "aten::_to_copy",
                                 "aten::_to_copy", "aten::mm"}));
  EXPECT_EQ(input(trace, 2, 0).dtype, at::kBFloat16);
  EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
}

TEST_F(Leaf, ABoxedCallTakesItsArgumentsFromTheTopOfTheStack) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor");
  const Trace trace = trace_of({x, w}, [&] {
    torch::jit::Stack stack{c10::IValue("below"), c10::IValue(w), x, x, 1};
    op.callBoxed(stack);
    return Tensors{stack.back().toTensor()};
  });
  expect_whole(trace);
  ASSERT_EQ(trace.ops.size(), 1U);
  EXPECT_EQ(trace.ops[0].inputs[0].tensors[0], trace.arguments[0]);
  EXPECT_EQ(trace.ops[0].inputs.size(), 3U);
  EXPECT_EQ(trace.ops[0].outputs.size(), 1U);
}

TEST_F(Leaf, AListThatTheCallerChangesLaterIsCopied) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::sum", "dim_IntList");
  const Trace trace = trace_of({x}, [&] {
    c10::List<int64_t> dims({0});
    torch::jit::Stack stack{x, dims, false, c10::IValue()};
    op.callBoxed(stack);
    dims[0] = 1;
    return Tensors{stack.back().toTensor()};
  });
  expect_whole(trace);
  EXPECT_EQ(trace.ops[0].inputs[1].constant.toIntVector(), std::vector<int64_t>{0});
}

at::Tensor twice_composite(const at::Tensor& t) {
  return t + t;
}
at::Tensor twice_leaf(const at::Tensor& t) {
  return t + t;
}

TORCH_LIBRARY(graft_record_test, m) {
  m.def("composite(Tensor t) -> Tensor", twice_composite);
  m.def("leaf(Tensor t) -> Tensor");
}
TORCH_LIBRARY_IMPL(graft_record_test, CPU, m) {
  m.impl("leaf", twice_leaf);
}

TEST_F(Leaf, CustomOperatorsFollowTheSameRule) {
  const auto call = [&](const char* name) {
    return c10::Dispatcher::singleton()
        .findSchemaOrThrow(name, "")
        .typed<at::Tensor(const at::Tensor&)>()
        .call(x);
  };
  EXPECT_EQ(names(trace_of({x}, [&] { return Tensors{call("graft_record_test::composite")}; })),
            (Names{"aten::add.Tensor"}));
  EXPECT_EQ(names(trace_of({x}, [&] { return Tensors{call("graft_record_test::leaf")}; })),
            (Names{"graft_record_test::leaf"}));
}

TEST_F(Leaf, PrintsOneOperatorPerLine) {
  const at::Tensor y = at::ones({2, 3});
  const at::Tensor c = at::ones({3});
  const Trace trace = trace_of({y}, [&] {
    y.mul_(c);
    return Tensors{y.t().to(at::kBFloat16), y, at::Tensor()};
  });
  EXPECT_EQ(print(trace),
            "%0 = argument 0 -> f32[2,3] in s0\n"
            "%1 = captured 0 -> f32[3] in s1\n"
            "%0 = aten::mul_.Tensor(%0 f32[2,3], %1 f32[3]) -> f32[2,3] in s0  writes s0\n"
            "%2 = aten::t(%0 f32[2,3]) -> f32[3,2:1,3] in s0\n"
            "%3 = aten::_to_copy(%2 f32[3,2:1,3], dtype=bf16) -> bf16[3,2:1,3] in s2\n"
            "result 0: %3 bf16[3,2:1,3] in s2\n"
            "result 1: argument 0\n"
            "result 2: undefined\n");
}

}  // namespace
}  // namespace graft::record
