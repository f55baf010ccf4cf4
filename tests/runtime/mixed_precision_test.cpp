// Autocast in and around compiled functions, and loss scaling with steps that are skipped.
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "runtime/helpers.h"
#include "workloads/training/autocast.h"

namespace graft::test {
namespace {

using at::Tensor;
using workloads::Autocast;

Tensors layers() {
  at::manual_seed(7);
  return {(at::randn({32, 24}) * 0.2).requires_grad_(), at::zeros({32}).requires_grad_(),
          (at::randn({24, 32}) * 0.2).requires_grad_()};
}

Tensor forward(const Tensors& w, const Tensor& x) {
  return at::linear(at::gelu(at::linear(x, w[0], w[1])), w[2]);
}

/// Results and parameters are equal but for the rounding of the low precision.
bool close(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == b.scalar_type() &&
         at::allclose(a.to(at::kDouble), b.to(at::kDouble), 2e-2, 2e-3);
}

class MixedPrecision : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(MixedPrecision, Steps) {
  auto step = [dtype = GetParam()](const Tensors& w, const Tensor& x) {
    Tensor loss;
    {
      Autocast autocast(dtype);
      loss = at::mse_loss(forward(w, x).to(at::kFloat), x);
    }
    loss.backward();
    at::NoGradGuard no_grad;
    for (const Tensor& p : w) {
      EXPECT_EQ(p.grad().scalar_type(), at::kFloat);
      p.sub_(p.grad() * 0.05);
      p.mutable_grad().reset();
    }
    return loss.detach();
  };
  const Tensors ours = layers(), theirs = layers();
  auto compiled = compile(step, at_once());
  for (int call = 0; call < 12; ++call) {
    const Tensor x = at::randn({16, 24});
    EXPECT_TRUE(close(compiled(ours, x), step(theirs, x))) << call;
    for (size_t k = 0; k < ours.size(); ++k)
      EXPECT_TRUE(close(ours[k].detach(), theirs[k].detach())) << call << ": " << k;
  }
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.report();
  EXPECT_EQ(compiled.report().records, 1) << compiled.report();
}

TEST_P(MixedPrecision, AroundTheCall) {
  const Tensors w = layers();
  auto body = [&w](const Tensor& x) { return at::silu(at::linear(x, w[0], w[1])) * 2; };
  auto compiled = compile(body, at_once());
  for (int call = 0; call < 10; ++call) {
    const Tensor x = at::randn({16, 24}).requires_grad_();
    std::optional<Autocast> autocast;
    if (call % 2 == 0) autocast.emplace(GetParam());
    at::linear(x, w[0]);  // autocast remembers the cast of w[0]; it is no plan's
    const Tensor expected = body(x), came = compiled(x), g = at::randn_like(expected);
    EXPECT_EQ(came.scalar_type(), call % 2 == 0 ? GetParam() : at::kFloat);
    EXPECT_TRUE(close(expected, came)) << call;
    const Tensors wanted = {x, w[0], w[1]},
                  expected_gradients = torch::autograd::grad({expected}, wanted, {g}),
                  gradients = torch::autograd::grad({came}, wanted, {g});
    for (size_t k = 0; k < wanted.size(); ++k)
      EXPECT_TRUE(close(expected_gradients[k], gradients[k])) << call << ": " << k;
    autocast.reset();
    at::NoGradGuard no_grad;
    w[0].mul_(0.9);  // a cast that a plan remembered would be an old one
  }
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.report();
  EXPECT_EQ(compiled.report().records, 2) << compiled.report();
}

INSTANTIATE_TEST_SUITE_P(To, MixedPrecision, ::testing::Values(at::kBFloat16, at::kHalf),
                         [](const auto& info) { return std::string(toString(info.param)); });

/// What a user writes in place of GradScaler: a step is skipped where gradients are not finite, by
/// selection.
Tensor scaled_step(const Tensors& w, const Tensor& scale, const Tensor& tracker, const Tensor& x) {
  Tensor loss;
  {
    Autocast autocast(at::kBFloat16);
    loss = at::mse_loss(forward(w, x).to(at::kFloat), x);
  }
  (loss * scale).sum().backward();
  at::NoGradGuard no_grad;
  Tensors gradients;
  for (const Tensor& p : w) gradients.push_back(p.grad());
  const Tensor found = at::zeros({1});
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, const_cast<Tensor&>(found),
                                                 scale.reciprocal());
  for (const Tensor& p : w) {
    p.copy_(at::where(found.eq(0), p - 0.05 * p.grad(), p));
    p.mutable_grad().reset();
  }
  at::_amp_update_scale_(const_cast<Tensor&>(scale), const_cast<Tensor&>(tracker), found, 2, 0.5,
                         3);
  return loss.detach();
}

TEST(LossScaling, StepsAreSkippedBySelection) {
  const Tensors ours = layers(), theirs = layers();
  const Tensor scale = at::full({1}, 1024.0), their_scale = scale.clone();
  const Tensor tracker = at::zeros({1}, at::kInt), their_tracker = tracker.clone();
  auto compiled = compile(scaled_step, at_once());
  int skipped = 0;
  for (int call = 0; call < 16; ++call) {
    const Tensor x = at::randn({16, 24});
    if (call % 6 == 5) x[3][4] = std::numeric_limits<double>::infinity();
    const Tensor before = theirs[0].detach().clone();
    compiled(ours, scale, tracker, x);
    scaled_step(theirs, their_scale, their_tracker, x);
    skipped += at::equal(before, theirs[0]);
    EXPECT_TRUE(same(scale, their_scale)) << call;
    EXPECT_TRUE(same(tracker, their_tracker)) << call;
    for (size_t k = 0; k < ours.size(); ++k)
      EXPECT_TRUE(close(ours[k].detach(), theirs[k].detach())) << call << ": " << k;
  }
  EXPECT_EQ(skipped, 2);
  EXPECT_TRUE(was_compiled(compiled.report())) << compiled.report();
  EXPECT_EQ(compiled.report().records, 1) << compiled.report();
}

}  // namespace
}  // namespace graft::test
