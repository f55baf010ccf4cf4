// Convolutions of few terms beside eager's, in fp64 where sums round.
#include <gtest/gtest.h>

#include <limits>

#include "helpers.h"

namespace graft {
namespace {

using test::Tensors;

struct Case {
  std::vector<int64_t> in, weight;
  std::vector<int64_t> step, padding, apart;
  int64_t groups = 1;
  bool bias = false;
  bool loops = true;  ///< or a call
};

at::Tensor run(const Case& c, const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  const std::vector<int64_t> none(c.step.size(), 0);
  return at::convolution(x, w, b.defined() ? std::optional(b) : std::nullopt, c.step, c.padding,
                         c.apart, /*transposed=*/false, none, c.groups);
}

const std::vector<Case> kCases{
    {{2, 1, 40, 50}, {1, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {{1, 3, 33, 70}, {4, 3, 3, 3}, {1, 1}, {0, 2}, {1, 1}, 1, true},
    {{2, 6, 20, 37}, {6, 1, 5, 5}, {1, 1}, {2, 2}, {1, 1}, 6, true},
    {{2, 6, 20, 80}, {12, 1, 3, 4}, {2, 3}, {1, 0}, {1, 2}, 6},
    {{1, 8, 20, 40}, {8, 4, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 2, true},
    {{1, 2, 9, 40}, {2, 1, 1, 1}, {1, 1}, {0, 0}, {1, 1}, 2},
    {{3, 5, 100}, {5, 1, 4}, {1}, {3}, {1}, 5},
    {{2, 2, 64}, {3, 2, 7}, {2}, {3}, {1}, 1, true},
    {{1, 4, 6, 7, 20}, {4, 1, 3, 3, 3}, {1, 1, 1}, {1, 0, 1}, {1, 1, 1}, 4},
    {{1, 4, 30, 30}, {4, 4, 5, 5}, {1, 1}, {2, 2}, {1, 1}, 1, false, /*loops=*/false},
    {{1, 8, 30, 30}, {16, 8, 1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, false, /*loops=*/false},
    {{4, 4, 9, 3}, {4, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 4, false, /*loops=*/false},
    {{0, 1, 40, 50}, {1, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, false, /*loops=*/false}};

bool has_call(const Report& report) {
  for (const OperatorReport& op : report.operators)
    if (op.name.starts_with("aten::convolution") && op.fate == "extern") return true;
  return false;
}

TEST(Convolution, IsNoFurtherFromFp64ThanEager) {
  for (size_t k = 0; k < kCases.size(); ++k)
    for (const auto type : {at::kFloat, at::kDouble}) {
      const Case& c = kCases[k];
      SCOPED_TRACE(std::to_string(k) + " " + c10::toString(type));
      const at::NoGradGuard no_grad;
      auto f = compile(
          [&](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
            const at::Tensor y = run(c, x * 2, w, b);
            return Tensors{y, y.relu() + 1};
          },
          test::at_once());
      for (int call = 0; call < 4; ++call) {
        const at::Tensor x = at::randn(c.in, type), w = at::randn(c.weight, type),
                         b = c.bias ? at::randn({c.weight[0]}, type) : at::Tensor();
        const Tensors came = f(x, w, b);
        const at::Tensor y = run(c, x * 2, w, b);
        const at::Tensor exact =
            run(c, x.to(at::kDouble) * 2, w.to(at::kDouble), b.defined() ? b.to(at::kDouble) : b);
        ASSERT_EQ(came[0].sizes(), y.sizes());
        ASSERT_EQ(came[0].strides(), y.strides());
        if (y.numel() == 0) continue;
        // The error's mean square: the largest of 200 numbers is a matter of luck.
        const auto error = [&exact](const at::Tensor& t) {
          return (t.to(at::kDouble) - exact).square().mean().sqrt().item<double>();
        };
        EXPECT_LE(error(came[0]), 1.5 * error(y) + 1e-15 * exact.abs().max().item<double>());
        EXPECT_EQ(test::difference(came[0].relu() + 1, came[1]), "");
      }
      EXPECT_EQ(has_call(f.report()), !c.loops) << f.explain();
    }
}

TEST(Convolution, OfLayoutsAndMemoryThatOverlaps) {
  const at::NoGradGuard no_grad;
  const at::Tensor w = at::randn({4, 1, 3, 3}).transpose(2, 3),
                   b = at::randn({8}).slice(0, 0, 8, 2);
  const auto base = [] { return at::randn({2, 4, 40, 60}); };
  const std::vector<std::function<at::Tensor()>> inputs{
      [&] { return base().slice(2, 3, 33, 2); },
      [&] { return base().flip(1); },
      [&] { return base().transpose(2, 3); },
      [&] { return base().contiguous(at::MemoryFormat::ChannelsLast); },
      [&] { return at::randn({40, 60}).expand({2, 4, 40, 60}); },
      [&] { return at::randn({2, 4, 5000}).as_strided({2, 4, 40, 60}, {20000, 5000, 30, 1}); }};
  for (size_t k = 0; k < inputs.size(); ++k) {
    auto f = compile(
        [&](const at::Tensor& x) {
          return at::conv2d(x, w, b, /*stride=*/1, /*padding=*/1, 1, /*groups=*/4).tanh();
        },
        test::at_once());
    for (int call = 0; call < 4; ++call) {
      const at::Tensor x = inputs[k]();
      EXPECT_TRUE(at::allclose(f(x), at::conv2d(x, w, b, 1, 1, 1, 4).tanh(), 1e-4, 1e-5)) << k;
    }
  }
}

TEST(Convolution, OfNumbersThatAreNotFinite) {
  const at::NoGradGuard no_grad;
  const at::Tensor w = at::randn({1, 1, 3, 3});
  auto f =
      compile([&](const at::Tensor& x) { return at::conv2d(x, w, {}, 1, 1) * 2; }, test::at_once());
  for (int call = 0; call < 6; ++call) {
    at::Tensor x = at::randn({1, 1, 30, 40});
    if (call % 2 == 1) x[0][0][0][0] = std::numeric_limits<float>::infinity();
    if (call > 2) x[0][0][20][39] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(at::allclose(f(x), at::conv2d(x, w, {}, 1, 1) * 2, 1e-4, 1e-5, true)) << call;
  }
}

TEST(Convolution, GradientsPassIt) {
  const at::Tensor a = at::randn({4, 1, 3, 3}).requires_grad_();
  const at::Tensor b = a.detach().clone().requires_grad_();
  const auto f = [](const at::Tensor& x, const at::Tensor& w) {
    return at::conv2d(x, w, {}, 1, 1, 1, 4).sigmoid() * 3;
  };
  auto g = compile(f, test::at_once());
  for (int call = 0; call < 6; ++call) {
    const at::Tensor x = at::randn({2, 4, 20, 30});
    f(x, a).sum().backward(), g(x, b).sum().backward();
    EXPECT_TRUE(at::allclose(a.grad(), b.grad(), 1e-4, 1e-4)) << call;
  }
}

/// Sizes that change, and bits that do not depend on the number of threads.
TEST(Convolution, OfFamiliesAndThreads) {
  const at::NoGradGuard no_grad;
  Options options = test::at_once();
  options.sizes = graft::Sizes::Family;
  const at::Tensor w = at::randn({3, 1, 5});
  const auto f = [w](const at::Tensor& x) { return at::conv1d(x, w, {}, 1, 2, 1, 3).relu(); };
  auto g = compile(f, options);
  for (int64_t n : {40, 51, 33, 97, 18, 200, 16, 64, 15, 9}) {
    const at::Tensor x = at::randn({2, 3, n});
    const at::Tensor once = g(x);
    EXPECT_TRUE(at::allclose(once, f(x), 1e-4, 1e-5)) << n;
    at::set_num_threads(1);
    const at::Tensor again = g(x);
    at::set_num_threads(2);
    EXPECT_TRUE(at::allclose(again, once, 1e-6, 1e-6)) << n;
  }
}

}  // namespace
}  // namespace graft
