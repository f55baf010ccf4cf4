// graft::clip_grad_norm_ beside torch's.
#include <torch/nn/utils/clip_grad.h>

#include <limits>

#include "graft/optim.h"
#include "runtime/helpers.h"

namespace graft {
namespace {

std::vector<at::Tensor> parameters(uint64_t seed, size_t count, bool with_gradients) {
  at::manual_seed(seed);
  std::vector<at::Tensor> made;
  for (size_t k = 0; k < count; ++k) {
    made.push_back(at::randn({3, static_cast<int64_t>(5 + k)}).requires_grad_());
    const at::Tensor gradient = at::randn_like(made.back().detach()) * 3;
    if (with_gradients && k != 1) made.back().mutable_grad() = gradient;
  }
  return made;
}

TEST(ClipGradNorm, HasTorchsBits) {
  for (double norm : {2.0, 1.0, 3.5, 0.0, std::numeric_limits<double>::infinity()})
    for (double most : {0.5, 1e6})
      for (size_t count : {size_t{1}, size_t{4}}) {
        const auto ours = parameters(3, count, true), theirs = parameters(3, count, true);
        const double was = torch::nn::utils::clip_grad_norm_(theirs, most, norm);
        EXPECT_EQ(clip_grad_norm_(ours, most, norm).item<double>(), was);
        for (size_t k = 0; k < count; ++k) {
          ASSERT_EQ(ours[k].grad().defined(), theirs[k].grad().defined());
          if (!ours[k].grad().defined()) continue;
          EXPECT_EQ(test::difference(theirs[k].grad(), ours[k].grad()), "") << norm << ", " << k;
        }
      }
  EXPECT_EQ(clip_grad_norm_(parameters(3, 2, false), 1).item<double>(), 0);
  EXPECT_EQ(clip_grad_norm_({}, 1).item<double>(), 0);
}

TEST(ClipGradNorm, StandsInACompiledStep) {
  const at::Tensor ours = at::full({16, 8}, 0.1).requires_grad_();
  const at::Tensor theirs = ours.detach().clone().requires_grad_();
  const auto step = [](const at::Tensor& w, const at::Tensor& x) {
    const at::Tensor loss = x.mm(w).square().sum();
    loss.backward();
    const at::Tensor norm = clip_grad_norm_({w}, 0.7);
    const at::NoGradGuard no_grad;
    w.sub_(w.grad(), 0.1);
    w.mutable_grad().reset();
    return std::vector<at::Tensor>{loss.detach(), norm};
  };
  auto compiled = compile([&](const at::Tensor& x) { return step(ours, x); }, test::at_once());
  for (int call = 0; call < 12; ++call) {
    const at::Tensor x = at::randn({4, 16});
    const auto came = compiled(x), expected = step(theirs, x);
    for (size_t k = 0; k < 2; ++k) EXPECT_TRUE(at::allclose(came[k], expected[k])) << call;
    EXPECT_TRUE(at::allclose(ours, theirs)) << call;
  }
  EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.explain();
}

/// torch's reads the norm; the report says what to call.
TEST(ClipGradNorm, TorchsIsABreakThatNamesIt) {
  const at::Tensor w = at::full({16, 8}, 0.1).requires_grad_();
  auto f = compile(
      [&](const at::Tensor& x) {
        x.mm(w).square().sum().backward();
        torch::nn::utils::clip_grad_norm_({w}, 0.7);
        return w.grad().clone();
      },
      test::at_once());
  for (int call = 0; call < 3; ++call) f(at::ones({4, 16}));
  EXPECT_EQ(f.report().verdict, Verdict::Break);
  EXPECT_NE(f.report().reason.find("graft::clip_grad_norm_"), std::string::npos);
}

}  // namespace
}  // namespace graft
