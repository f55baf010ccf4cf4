// The identity of memory: who shares it, where a tensor lies in it, who writes it.
#include <ATen/ATen.h>

#include "recording.h"

namespace graft::record {
namespace {

using Origin = StorageInfo::Origin;

class Memory : public ::testing::Test {
 protected:
  at::NoGradGuard no_grad;
  at::Tensor x = at::randn({4, 8});
};

TEST_F(Memory, InPlaceWritesTheArgument) {
  const Trace trace = trace_of({x}, [&] {
    x.slice(1, 2, 4).mul_(2);
    return Tensors{};
  });
  expect_whole(trace);
  ASSERT_EQ(trace.ops.size(), 2U);
  EXPECT_TRUE(trace.ops[0].mutated.empty());
  EXPECT_EQ(trace.ops[1].mutated, std::vector<int>{0});
  EXPECT_EQ(trace.storages[0].origin, Origin::Argument);
  EXPECT_EQ(trace.storages[0].bytes, 4 * 8 * 4);
  const TensorInfo& slice = input(trace, 1, 0);
  EXPECT_EQ(slice.byte_offset, 2 * 4);
  EXPECT_EQ(slice.sizes, (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(slice.strides, (std::vector<int64_t>{8, 1}));
  EXPECT_EQ(trace.bumped, std::vector<int>{0});
}

TEST_F(Memory, LayoutIsTakenAtTheStartForInputsAndAtTheEndForOutputs) {
  const Trace trace = trace_of({x}, [&] {
    at::Tensor y = x + 1;
    y.unsqueeze_(0);
    return Tensors{y};
  });
  expect_whole(trace);
  ASSERT_EQ(trace.ops.size(), 2U);
  EXPECT_EQ(input(trace, 1, 0).sizes, (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(output(trace, 1).sizes, (std::vector<int64_t>{1, 4, 8}));
  EXPECT_TRUE(trace.ops[1].mutated.empty());  // its layout changes, its data does not
}

TEST_F(Memory, OutVariantsWriteTheirBuffer) {
  at::Tensor buffer = at::empty({4, 8});
  const Trace trace = trace_of({x, buffer}, [&] {
    at::add_out(buffer, x, x);
    at::Tensor made = at::empty({0});
    at::mul_out(made, buffer, x);  // enlarges it
    return Tensors{made};
  });
  expect_whole(trace);
  EXPECT_EQ(trace.ops[0].mutated, std::vector<int>{1});
  EXPECT_EQ(names(trace)[1], "aten::empty.memory_format");
  const int made = output(trace, 2).storage;
  EXPECT_EQ(trace.storages[made].origin, Origin::Made);
  EXPECT_EQ(trace.storages[made].maker, 1);
  EXPECT_EQ(trace.storages[made].bytes, 4 * 8 * 4);
  EXPECT_EQ(trace.ops[2].mutated, std::vector<int>{made});
  EXPECT_EQ(trace.bumped, std::vector<int>{1});
}

TEST_F(Memory, ListsOfTensorsAreWrittenToo) {
  const at::Tensor first = at::zeros({3}), second = at::zeros({3}), both = at::ones({2, 3});
  const Trace trace = trace_of({first, second, both}, [&] {
    Tensors out{first, second};
    at::unbind_copy_out(out, both);
    return Tensors{};
  });
  expect_whole(trace);
  ASSERT_EQ(trace.ops.size(), 1U);
  EXPECT_EQ(trace.ops[0].mutated, (std::vector<int>{0, 1}));
  EXPECT_TRUE(trace.ops[0].outputs.empty());
  EXPECT_EQ(trace.bumped, (std::vector<int>{0, 1}));
}

TEST_F(Memory, ForeachOperatorsAreTheirLoops) {
  const at::Tensor y = at::zeros({3});
  const Trace trace = trace_of({x, y}, [&] {
    at::_foreach_add_({x, y}, 1);
    return Tensors{};
  });
  expect_whole(trace);
  ASSERT_EQ(trace.ops.size(), 2U);
  EXPECT_EQ(trace.ops[0].mutated, std::vector<int>{0});
  EXPECT_EQ(trace.ops[1].mutated, std::vector<int>{1});
  EXPECT_EQ(trace.bumped, (std::vector<int>{0, 1}));
}

TEST_F(Memory, BatchNormWritesItsStatisticsOnlyInTraining) {
  const at::Tensor mean = at::zeros({8}), variance = at::ones({8});
  const auto run = [&](bool training) {
    return trace_of({x, mean, variance}, [&] {
      return Tensors{at::batch_norm(x, {}, {}, mean, variance, training, 0.1, 1e-5, false)};
    });
  };
  Trace trace = run(true);
  expect_whole(trace);
  EXPECT_EQ(trace.ops.back().mutated, (std::vector<int>{1, 2}));
  trace = run(false);
  expect_whole(trace);
  EXPECT_TRUE(trace.ops.back().mutated.empty());
}

TEST_F(Memory, ADtypeViewIsTheSameMemory) {
  const Trace trace =
      trace_of({x}, [&] { return Tensors{x.select(0, 1).view(at::kInt).bitwise_and(7)}; });
  expect_whole(trace);
  const TensorInfo& bits = output(trace, 1);
  EXPECT_EQ(names(trace)[1], "aten::view.dtype");
  EXPECT_EQ(bits.dtype, at::kInt);
  EXPECT_EQ(bits.storage, 0);
  EXPECT_EQ(bits.byte_offset, 8 * 4);
}

TEST_F(Memory, ArgumentsOfOneStorageShareItsOffsets) {
  const at::Tensor base = at::randn({100});
  const at::Tensor late = base.slice(0, 30, 50), early = base.slice(0, 20, 25),
                   other = at::randn({3});
  const Trace trace = trace_of({late, other, early},
                               [&] { return Tensors{late.sum() + other.sum() + early.sum()}; });
  expect_whole(trace);
  EXPECT_EQ(trace.storages[0].origin, Origin::Argument);
  EXPECT_EQ(trace.storages[0].first, 0);
  EXPECT_EQ(trace.storages[0].bytes, 30 * 4);
  EXPECT_EQ(trace.storages[1].first, 1);
  EXPECT_EQ(trace.tensors[trace.arguments[0]].storage, 0);
  EXPECT_EQ(trace.tensors[trace.arguments[0]].byte_offset, 10 * 4);
  EXPECT_EQ(trace.tensors[trace.arguments[1]].storage, 1);
  EXPECT_EQ(trace.tensors[trace.arguments[2]].storage, 0);
  EXPECT_EQ(trace.tensors[trace.arguments[2]].byte_offset, 0);
}

TEST_F(Memory, ArgumentsThatOverlapThroughDifferentStoragesAreOne) {
  float data[30] = {};
  const at::Tensor a = at::from_blob(data + 10, {10}), b = at::from_blob(data + 15, {15}),
                   c = at::from_blob(data, {10});
  const Trace trace = trace_of({a, b, c}, [&] {
    a.add_(1);
    return Tensors{b + 1, c + 1};
  });
  expect_whole(trace);
  EXPECT_EQ(trace.tensors[trace.arguments[0]].storage, 0);
  EXPECT_EQ(trace.tensors[trace.arguments[1]].storage, 0);
  EXPECT_EQ(trace.tensors[trace.arguments[1]].byte_offset, 5 * 4);
  EXPECT_EQ(trace.storages[0].bytes, 20 * 4);
  // c ends where a begins: a storage of its own.
  EXPECT_EQ(trace.tensors[trace.arguments[2]].storage, 1);
  EXPECT_EQ(trace.ops[0].mutated, std::vector<int>{0});
}

TEST_F(Memory, CapturedTensorsAreHeldAndMayShareMemory) {
  const at::Tensor weights = at::randn({2, 8});
  const at::Tensor upper = weights[0], lower = weights[1], bias = at::randn({8});
  const Trace trace = trace_of({x}, [&] {
    bias.add_(1);
    return Tensors{x * lower + upper + bias + lower};
  });
  expect_whole(trace);
  ASSERT_EQ(trace.captured.size(), 3U);
  EXPECT_TRUE(trace.captured[0].is_same(bias));
  EXPECT_TRUE(trace.captured[1].is_same(lower));
  EXPECT_TRUE(trace.captured[2].is_same(upper));
  const TensorInfo& low = trace.tensors[trace.captured_tensors[1]];
  const TensorInfo& up = trace.tensors[trace.captured_tensors[2]];
  EXPECT_EQ(low.storage, up.storage);
  EXPECT_EQ(low.byte_offset, 8 * 4);
  EXPECT_EQ(up.byte_offset, 0);
  EXPECT_EQ(trace.storages[low.storage].origin, Origin::Captured);
  EXPECT_EQ(trace.storages[low.storage].first, 1);
  EXPECT_EQ(trace.storages[low.storage].bytes, 2 * 8 * 4);
  EXPECT_EQ(trace.bumped_captured, std::vector<int>{0});
  EXPECT_TRUE(trace.bumped.empty());
}

TEST_F(Memory, AnAliasMadePastTheDispatcherIsAViewOfItsTensor) {
  const at::Tensor weight = at::randn({8});
  const Trace trace = trace_of({x}, [&] {
    x.variable_data().add_(1);
    return Tensors{x * weight.variable_data() + weight};
  });
  expect_whole(trace);
  EXPECT_EQ(trace.ops[0].mutated, std::vector<int>{0});
  EXPECT_TRUE(trace.bumped.empty());  // variable_data has a version counter of its own
  ASSERT_EQ(trace.captured.size(), 1U);
  EXPECT_TRUE(trace.captured[0].is_same(weight));  // the alias went with the run
}

TEST_F(Memory, TensorsWithoutElementsAndWithoutDimensions) {
  const at::Tensor empty = at::empty({0, 8}), scalar = at::ones({});
  const Trace trace = trace_of({empty, scalar, x}, [&] {
    return Tensors{at::cat({empty, x}), x * scalar, empty.sum(), x.slice(0, 4) + 1};
  });
  expect_whole(trace);
  EXPECT_EQ(trace.storages[0].bytes, 0);
  EXPECT_EQ(trace.tensors[trace.arguments[0]].sizes, (std::vector<int64_t>{0, 8}));
  EXPECT_TRUE(trace.tensors[trace.arguments[1]].sizes.empty());
  EXPECT_EQ(trace.storages[1].bytes, 4);
}

TEST_F(Memory, AnArgumentWithoutElementsDoesNotMoveTheBase) {
  const at::Tensor none = x.slice(0, 0, 0), rest = x.slice(0, 1);
  const Trace trace = trace_of({none, rest}, [&] { return Tensors{rest + 1}; });
  expect_whole(trace);
  EXPECT_EQ(trace.storages[0].first, 1);
  EXPECT_EQ(trace.storages[0].bytes, 3 * 8 * 4);
  EXPECT_EQ(trace.tensors[trace.arguments[1]].byte_offset, 0);
}

TEST_F(Memory, ACaptureWithoutElementsDoesNotGiveTheBase) {
  const at::Tensor none = x.slice(0, 0, 0), rest = x.slice(0, 1), y = at::randn({3, 8});
  const Trace trace = trace_of({y}, [&] { return Tensors{at::cat({none, y}), rest + y}; });
  expect_whole(trace);
  ASSERT_EQ(trace.captured.size(), 2U);
  EXPECT_EQ(trace.storages[1].first, 1);
  EXPECT_EQ(trace.tensors[trace.captured_tensors[1]].byte_offset, 0);
}

TEST_F(Memory, AddressesOfFreedTemporariesDoNotMix) {
  // Without the weak hold, each temporary would have the address of the one before.
  const Trace trace = trace_of({x}, [&] {
    at::Tensor y = x;
    for (int i = 0; i < 10; ++i) y = y + 1;
    return Tensors{y};
  });
  expect_whole(trace);
  EXPECT_EQ(trace.storages.size(), 11U);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(trace.storages[i + 1].maker, i);
}

TEST_F(Memory, ReadingAViewOfABufferBeforeItIsFilledIsFine) {
  const Trace trace = trace_of({x}, [&] {
    const at::Tensor out = at::empty_like(x), other = at::zeros_like(out);
    out.slice(0, 0, 2).copy_(x.slice(0, 2));
    out.slice(0, 2).copy_(x.slice(0, 0, 2));
    return Tensors{out + other};
  });
  expect_whole(trace);
}

}  // namespace
}  // namespace graft::record
