#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <utility>

#include "graft/systems/fp8_training.h"

namespace graft::systems {
namespace {

using at::Tensor;

/// The values that FP8 leaves of a tensor, by ATen's casts.
Tensor rounded(const Tensor& x, float scale, at::ScalarType type, double max) {
  return x.mul(1 / scale).clamp(-max, max).to(type).to(at::kFloat).mul(scale);
}
Tensor e4m3(const Tensor& x, float scale) {
  return rounded(x, scale, at::kFloat8_e4m3fn, 448);
}
Tensor e5m2(const Tensor& x, float scale) {
  return rounded(x, scale, at::kFloat8_e5m2, 57344);
}

float own_scale(const Tensor& x, float max) {
  return x.abs().max().item<float>() / max;
}

TEST(Fp8Linear, RoundsForwardToE4m3AndGradientsToE5m2) {
  const Tensor x = at::randn({2, 5, 24}).set_requires_grad(true);
  const Tensor w = at::randn({7, 24}).set_requires_grad(true);
  const Tensor b = at::randn({7}).set_requires_grad(true);
  const Fp8Linear linear;
  const Tensor y = linear(x, w, b);
  const Tensor xq = e4m3(x.detach(), own_scale(x, 448)).reshape({10, 24});
  const Tensor wq = e4m3(w.detach(), own_scale(w, 448));
  EXPECT_EQ(y.sizes(), at::IntArrayRef({2, 5, 7}));
  const Tensor expected = at::mm(xq, wq.t()).reshape({2, 5, 7}).add(b.detach());
  EXPECT_LE(y.detach().sub(expected).abs().max().item<float>(), 1e-4);

  const Tensor dy = at::randn({2, 5, 7});
  y.backward(dy);
  const Tensor dq = e5m2(dy, own_scale(dy, 57344)).reshape({10, 7});
  const auto near = [](const Tensor& came, const Tensor& wanted) {
    return came.sub(wanted.reshape(came.sizes())).abs().max().item<float>() < 1e-4;
  };
  EXPECT_TRUE(near(x.grad(), at::mm(dq, wq)));
  EXPECT_TRUE(near(w.grad(), at::mm(dq.t(), xq)));
  EXPECT_TRUE(near(b.grad(), dy.reshape({10, 7}).sum(0)));
  // What FP8 cost is visible: neither is fp32's.
  EXPECT_FALSE(near(x.grad(), at::mm(dy.reshape({10, 7}), w.detach())));
}

TEST(Fp8Linear, ScalesFollowTheHistory) {
  const Fp8Linear linear({.history = 2});
  const Tensor w = at::ones({4, 16}).set_requires_grad(true);
  for (const float amax : {1.f, 4.f, 2.f, 1.f})
    linear(at::ones({3, 16}).mul(amax), w).sum().backward();
  EXPECT_FLOAT_EQ(linear.input_scale(), 2.f / 448);
  EXPECT_FLOAT_EQ(linear.weight_scale(), 1.f / 448);
  EXPECT_FLOAT_EQ(linear.gradient_scale(), 1.f / 57344);
  // Beyond the history's largest, values saturate.
  EXPECT_FLOAT_EQ(linear(at::ones({1, 16}).mul(100), w).max().item<float>(), 2.f * 16);
}

TEST(Fp8Linear, TakesBf16AndFrozenWeights) {
  const Fp8Linear linear;
  const Tensor x = at::randn({4, 32}).to(at::kBFloat16).set_requires_grad(true);
  const Tensor w = at::randn({8, 32}).to(at::kBFloat16);
  const Tensor y = linear(x, w);
  EXPECT_EQ(y.scalar_type(), at::kFloat);
  y.sum().backward();
  EXPECT_EQ(x.grad().scalar_type(), at::kBFloat16);
  EXPECT_FALSE(w.grad().defined());
}

/// Least squares by gradient descent: the loss of the last step, over the first one's.
double learned(const Tensor& x, const Tensor& target,
               const std::function<Tensor(Tensor, Tensor)>& f) {
  Tensor w = at::zeros({target.size(1), x.size(1)}).set_requires_grad(true);
  double first = 0, last = 0;
  for (int step = 0; step < 200; ++step) {
    const Tensor loss = f(x, w).sub(target).pow(2).mean();
    loss.backward();
    last = loss.item<double>();
    if (step == 0) first = last;
    w = w.detach().sub(w.grad().mul(0.5)).set_requires_grad(true);
  }
  return last / first;
}

TEST(Fp8Linear, Learns) {
  const Tensor x = at::randn({256, 16}), target = at::mm(x, at::randn({16, 8}));
  const auto exact = [](const Tensor& a, const Tensor& w) { return at::mm(a, w.t()); };
  const Fp8Linear linear({.gradient_rounding = Rounding::Stochastic, .seed = 1});
  const double in_fp8 =
      learned(x, target, [&](const Tensor& a, const Tensor& w) { return linear(a, w); });
  EXPECT_LT(learned(x, target, exact), 1e-6);
  EXPECT_LT(in_fp8, 5e-3);  // E4M3 leaves 1/16 of a value, at most
  EXPECT_GT(in_fp8, 1e-6);
}

TEST(Fp8Linear, HasNoSecondDerivative) {
  const Tensor x = at::randn({2, 16}), weight = at::randn({4, 16}).requires_grad_();
  const Tensor loss = Fp8Linear()(x, weight).square().sum();
  EXPECT_THROW(torch::autograd::grad({loss}, {weight}, {}, std::nullopt, /*create_graph=*/true),
               c10::NotImplementedError);
}

TEST(Fp8Linear, TakesEmptySides) {
  for (const auto& [in, out] : {std::pair<int64_t, int64_t>{0, 3}, {5, 0}}) {
    const Tensor x = at::randn({2, 4, in}).requires_grad_(),
                 weight = at::randn({out, in}).requires_grad_();
    const Tensor y = Fp8Linear()(x, weight);
    EXPECT_TRUE(y.equal(at::zeros({2, 4, out})));
    y.sum().backward();
    EXPECT_TRUE(x.grad().equal(at::zeros({2, 4, in})));
    EXPECT_TRUE(weight.grad().equal(at::zeros({out, in})));
  }
}

TEST(Fp8Linear, SaysWhatDoesNotFit) {
  try {
    Fp8Linear()(at::zeros({2, 3}), at::zeros({4, 5}));
    FAIL();
  } catch (const c10::ValueError& e) {
    EXPECT_NE(std::string(e.what()).find("came x of sizes [2, 3] and a weight of sizes [4, 5]"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace graft::systems
