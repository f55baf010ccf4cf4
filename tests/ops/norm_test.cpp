// Softmax and normalisations: recorded, lowered and interpreted, against eager.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/lowered.h"
#include "support/samples.h"

namespace graft::test {
namespace {

using at::Tensor;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Norm, SoftmaxAlongEveryDimension) {
  for (c10::ScalarType type : kFloats)
    for (const Tensor& x : layouts(type))
      for (int64_t dim = 0; dim < std::max<int64_t>(x.dim(), 1); ++dim) {
        expect_as_eager([&](Tensors& a) { return Tensors{a[0].softmax(dim)}; }, {x});
        expect_as_eager([&](Tensors& a) { return Tensors{a[0].log_softmax(dim)}; }, {x});
      }
}

TEST(Norm, SoftmaxOfLongRows) {
  for (c10::ScalarType type : kFloats) {
    Tensor x = sample({5, 1000}, type) * 4;
    expect_as_eager([](Tensors& a) { return Tensors{a[0].softmax(-1), a[0].log_softmax(-1)}; },
                    {x});
  }
}

TEST(Norm, SoftmaxWithAnotherDtype) {
  Tensor x = sample({5, 20}, at::kBFloat16);
  expect_as_eager(
      [](Tensors& a) {
        return Tensors{a[0].softmax(1, at::kFloat), a[0].log_softmax(1, at::kDouble)};
      },
      {x});
}

TEST(Norm, SoftmaxOfMaskedRows) {
  for (c10::ScalarType type : kFloats) {
    Tensor x = sample({5, 20}, type);
    x.select(0, 1).fill_(-kInfinity);
    x.select(0, 2).slice(0, 0, 10).fill_(-kInfinity);
    x[3][4] = kInfinity;
    x[4][2] = std::numeric_limits<double>::quiet_NaN();
    expect_as_eager([](Tensors& a) { return Tensors{a[0].softmax(1)}; }, {x});
    expect_as_eager([](Tensors& a) { return Tensors{a[0].log_softmax(1)}; }, {x});
    expect_as_eager([](Tensors& a) { return Tensors{at::_safe_softmax(a[0], 1)}; }, {x});
  }
}

TEST(Norm, SoftmaxOfAnInferenceChain) {
  Tensor scores = sample({2, 3, 8, 8}, at::kFloat), mask = sample({8, 8}, at::kBool);
  expect_as_eager(
      [](Tensors& a) { return Tensors{(a[0] * 0.125).masked_fill(a[1], -kInfinity).softmax(-1)}; },
      {scores, mask});
}

TEST(Norm, LayerNorm) {
  for (c10::ScalarType type : kFloats)
    for (const Tensor& x : layouts(type)) {
      if (x.dim() < 2) continue;
      std::vector<int64_t> last = {x.size(-1)}, two = {x.size(-2), x.size(-1)};
      expect_as_eager([&](Tensors& a) { return Tensors{at::layer_norm(a[0], last, a[1], a[2])}; },
                      {x, sample(last, type), sample(last, type)});
      expect_as_eager(
          [&](Tensors& a) {
            auto [out, mean, rstd] = at::native_layer_norm(a[0], two, {}, {}, 1e-6);
            return Tensors{out, mean, rstd};
          },
          {x});
    }
}

TEST(Norm, LayerNormOfMixedTypes) {
  Tensor x = sample({6, 96}, at::kBFloat16), weight = sample({96}, at::kFloat);
  expect_as_eager(
      [](Tensors& a) {
        auto [out, mean, rstd] = at::native_layer_norm(a[0], {96}, a[1], a[2], 1e-5);
        return Tensors{out, mean, rstd};
      },
      {x, weight, weight + 1});
}

TEST(Norm, LayerNormFarFromZero) {
  for (double shift : {30.0, 3000.0})
    expect_as_eager([](Tensors& a) { return Tensors{at::layer_norm(a[0], {512})}; },
                    {sample({6, 512}, at::kFloat) + shift});
}

TEST(Norm, RmsNorm) {
  for (c10::ScalarType type : kFloats)
    expect_as_eager([](Tensors& a) { return Tensors{at::rms_norm(a[0], {64}, a[1], 1e-6)}; },
                    {sample({5, 64}, type), sample({64}, type)}, Fates::AnyExtern);
}

TEST(Norm, GroupNorm) {
  for (c10::ScalarType type : kFloats)
    for (int64_t groups : {1, 2, 6}) {
      Tensor x = sample({3, 6, 4, 5}, type);
      expect_as_eager([&](Tensors& a) { return Tensors{at::group_norm(a[0], groups, a[1], a[2])}; },
                      {x, sample({6}, type), sample({6}, type)});
      expect_as_eager(
          [&](Tensors& a) {
            auto [out, mean, rstd] = at::native_group_norm(a[0], {}, {}, 3, 6, 20, groups, 1e-5);
            return Tensors{out, mean, rstd};
          },
          {x});
    }
}

TEST(Norm, GroupNormOfOtherLayouts) {
  Tensor image = sample({3, 6, 4, 5}, at::kFloat).contiguous(at::MemoryFormat::ChannelsLast);
  expect_as_eager([](Tensors& a) { return Tensors{at::group_norm(a[0], 3, a[1], a[1])}; },
                  {image, sample({6}, at::kFloat)});
  expect_as_eager([](Tensors& a) { return Tensors{at::group_norm(a[0], 3, a[1], a[1])}; },
                  {sample({6, 3, 7}, at::kFloat).transpose(0, 1), sample({6}, at::kFloat)});
  expect_as_eager([](Tensors& a) { return Tensors{at::group_norm(a[0], 2)}; },
                  {sample({5, 6}, at::kFloat)});
}

/// Elements of a row that are all equal: nothing but the size of what cancels.
TEST(Norm, ConstantRows) {
  Tensor x = sample({6, 1}, at::kFloat).expand({6, 50}) * 1000;
  expect_as_eager([](Tensors& a) { return Tensors{at::layer_norm(a[0], {50})}; }, {x});
  expect_as_eager([](Tensors& a) { return Tensors{at::group_norm(a[0], 1)}; }, {x});
  expect_as_eager([](Tensors& a) { return Tensors{a[0].softmax(1), a[0].var(1)}; }, {x});
}

TEST(Norm, InPlaceSoftmax) {
  expect_as_eager(
      [](Tensors& a) {
        at::softmax_out(a[0], a[0], 1);
        return Tensors{a[0]};
      },
      {sample({4, 30}, at::kFloat)});
}

}  // namespace
}  // namespace graft::test
