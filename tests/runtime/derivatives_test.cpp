// The gradients of compiled regions against finite differences of eager's function, in fp64.
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

using at::Tensor;

struct Derivative {
  std::string_view name;
  std::function<Tensor(const Tensor&)> f;
  std::vector<int64_t> sizes = {4, 6};
};

/// What a region is made of, and whose backward is what.
const std::vector<Derivative>& derivatives() {
  static const std::vector<Derivative> all = {
      {"elu", [](const Tensor& x) { return at::elu(x * 2, 0.7); }},
      {"elu in place",
       [](const Tensor& x) {
         Tensor y = x * 2;
         return at::elu_(y);
       }},
      {"celu", [](const Tensor& x) { return at::celu(x * 2, 0.6); }},
      {"selu", [](const Tensor& x) { return at::selu(x * 2); }},
      {"hardtanh", [](const Tensor& x) { return at::hardtanh(x * 2, -0.8, 1.1); }},
      {"hardswish", [](const Tensor& x) { return at::hardswish(x * 3); }},
      {"hardsigmoid", [](const Tensor& x) { return at::hardsigmoid(x * 3); }},
      {"log_sigmoid", [](const Tensor& x) { return at::log_sigmoid(x * 2); }},
      {"mish", [](const Tensor& x) { return at::mish(x * 2); }},
      {"softshrink", [](const Tensor& x) { return at::softshrink(x * 2, 0.4); }},
      {"hardshrink", [](const Tensor& x) { return at::hardshrink(x * 2, 0.4); }},
      {"logit", [](const Tensor& x) { return at::logit(x.sigmoid(), 1e-3); }},
      {"prelu", [](const Tensor& x) { return at::prelu(x * 2, x.narrow(0, 0, 1).sum(0)); }},
      {"binary cross-entropy",
       [](const Tensor& x) {
         const Tensor y = at::full({4, 6}, 0.3, at::kDouble), w = at::arange(1, 7, at::kDouble);
         return at::binary_cross_entropy((x * 3).sigmoid(), y, w, 1) +
                at::binary_cross_entropy(x.sigmoid(), y, {}, 0);
       }},
      {"cross-entropy of images",
       [](const Tensor& x) {
         const Tensor classes = at::arange(24, at::kLong).remainder(3).view({2, 4, 3});
         const Tensor w = at::arange(1, 4, at::kDouble);
         return at::cross_entropy_loss(x * 2, classes, w, 1, 2) +
                at::cross_entropy_loss(x, classes, {}, 0);
       },
       {2, 3, 4, 3}},
      {"glu", [](const Tensor& x) { return at::glu(x * 2, 1); }},
      {"slice", [](const Tensor& x) { return x.slice(1, 1, 5, 2).exp() + x.slice(1, 0, 2); }},
      {"select", [](const Tensor& x) { return x.select(1, 2).exp() * x.select(1, 3); }},
      {"diagonal", [](const Tensor& x) { return x.diagonal(1).exp(); }},
      {"unfold", [](const Tensor& x) { return x.unfold(1, 3, 2).exp(); }, {3, 7}},
      {"max_pool2d",
       [](const Tensor& x) { return at::max_pool2d(x, {3, 2}, {2, 1}, {1, 0}); },
       {2, 6, 5}},
      {"max_pool1d",
       [](const Tensor& x) { return at::max_pool1d(x * 2, {3}, {2}, {1}); },
       {2, 3, 7}},
      {"avg_pool2d",
       [](const Tensor& x) { return at::avg_pool2d(x, {3, 3}, {2, 1}, {1, 1}); },
       {2, 6, 5}},
      {"adaptive_avg_pool2d",
       [](const Tensor& x) { return at::adaptive_avg_pool2d(x, {2, 3}); },
       {2, 6, 6}},
      {"adaptive_max_pool2d",
       [](const Tensor& x) { return std::get<0>(at::adaptive_max_pool2d(x, {2, 3})).exp(); },
       {2, 6, 6}},
      {"cdist",
       [](const Tensor& x) {
         const Tensor y = x.flip(0) * 2 + 0.3;
         return at::cdist(x, y, 2) + at::cdist(y, x, 1) +
                at::cdist(x, y, std::numeric_limits<double>::infinity());
       }},
      {"reflection_pad1d",
       [](const Tensor& x) { return at::reflection_pad1d(x, {3, 2}).exp(); },
       {2, 3, 5}},
      {"reflection_pad2d",
       [](const Tensor& x) { return at::reflection_pad2d(x, {3, 2, 1, 0}).exp(); },
       {2, 3, 5}},
      {"replication_pad2d",
       [](const Tensor& x) { return at::replication_pad2d(x, {3, -1, 1, 2}).exp(); },
       {2, 3, 5}},
      {"replication_pad3d",
       [](const Tensor& x) { return at::replication_pad3d(x, {1, 2, 1, 0, 0, 2}).exp(); },
       {1, 2, 3, 4}},
      {"upsample_nearest2d",
       [](const Tensor& x) { return at::upsample_nearest2d(x, {4, 9}); },
       {2, 2, 2, 3}},
      {"upsample_bilinear2d",
       [](const Tensor& x) { return at::upsample_bilinear2d(x, {5, 7}, false).exp(); },
       {1, 2, 2, 3}},
      {"upsample_bilinear2d, corners",
       [](const Tensor& x) { return at::upsample_bilinear2d(x, {3, 9}, true).exp(); },
       {1, 2, 4, 3}},
      {"upsample_trilinear3d",
       [](const Tensor& x) { return at::upsample_trilinear3d(x, {4, 2, 5}, false).exp(); },
       {1, 1, 2, 3, 3}},
      {"batch norm, training",
       [](const Tensor& x) {
         const Tensor w = x.select(0, 0).select(1, 0) * 2, b = x.select(0, 1).select(1, 1) * 2;
         return at::batch_norm(x, w, b, {}, {}, true, 0.1, 1e-5, false);
       },
       {3, 4, 5}},
      {"batch norm",
       [](const Tensor& x) {
         const Tensor w = x.select(0, 0).select(1, 0) * 2, b = x.select(0, 1).select(1, 1) * 2;
         const Tensor mean = at::full({4}, 0.3, at::kDouble), var = at::full({4}, 2.0, at::kDouble);
         return at::batch_norm(x, w, b, mean, var, false, 0.1, 1e-5, false);
       },
       {3, 4, 5}},
      {"group norm",
       [](const Tensor& x) {
         const Tensor w = x.select(0, 0).select(1, 0) * 2, b = x.select(0, 1).select(1, 1) * 2;
         return at::group_norm(x, 2, w, b);
       },
       {3, 4, 5}},
      {"instance norm",
       [](const Tensor& x) {
         return at::instance_norm(x * 2, {}, {}, {}, {}, true, 0.1, 1e-5, false);
       },
       {3, 2, 6}},
  };
  return all;
}

/// The sum of f's elements, weighted so that none of them is like another.
Tensor weighted(const Tensor& y) {
  return (y * at::arange(1, y.numel() + 1, at::kDouble).cos().view(y.sizes())).sum();
}

Tensor differences(const Derivative& d, const Tensor& x) {
  const at::NoGradGuard no_grad;
  constexpr double kStep = 1e-5;
  Tensor out = at::empty_like(x);
  for (int64_t i = 0; i < x.numel(); ++i) {
    Tensor above = x.detach().clone(), below = x.detach().clone();
    above.view({-1})[i] += kStep, below.view({-1})[i] -= kStep;
    out.view({-1})[i] = (weighted(d.f(above)) - weighted(d.f(below))) / (2 * kStep);
  }
  return out;
}

TEST(Derivatives, OfRegionsAreTheFiniteDifferences) {
  for (const Derivative& d : derivatives()) {
    at::manual_seed(5);
    auto compiled = compile(d.f, at_once(std::string(d.name)));
    for (int call = 0; call < 4; ++call) {
      const Tensor x = at::randn(d.sizes, at::kDouble).requires_grad_();
      const Tensor gradient = torch::autograd::grad({weighted(compiled(x))}, {x})[0];
      EXPECT_TRUE(at::allclose(gradient, differences(d, x), 1e-6, 1e-7)) << d.name << " " << call;
    }
    const Report report = compiled.report();
    EXPECT_TRUE(was_compiled(report)) << d.name << ": " << report.reason;
    for (const OperatorReport& op : report.operators)
      EXPECT_NE(op.fate, "extern") << d.name << ": " << op.name << ", " << op.why;
  }
}

/// SwiGLU's halves of one product: rows that lie apart, but along vectors.
TEST(Derivatives, OfPartsOfRowsHaveEagersBits) {
  const auto run = [](const Tensor& gradient, const Tensor& both) {
    const Tensor x = both.narrow(1, 0, 192);
    return std::vector<Tensor>{at::silu_backward(gradient, x) * 2,
                               at::sigmoid_backward(gradient, x) * 2,
                               at::tanh_backward(gradient, x) * 2};
  };
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    const auto f = compile(run, at_once());
    for (int call = 0; call < 4; ++call) {
      const Tensor gradient = at::randn({70, 192}).to(type),
                   both = (at::randn({70, 400}) * 4).to(type);
      both[3][5] = std::numeric_limits<double>::infinity();
      both[4][191] = std::numeric_limits<double>::quiet_NaN();
      const std::vector<Tensor> expected = run(gradient, both), came = f(gradient, both);
      for (size_t k = 0; k < came.size(); ++k)
        EXPECT_TRUE(same(came[k], expected[k])) << type << " of result " << k;
    }
    size_t calls = 0;
    for (const OperatorReport& row : f.report().operators) calls += row.fate == "extern";
    EXPECT_EQ(calls, type == at::kHalf ? 2 : 0) << f.explain();  // (each step of those is rounded)
  }
}

}  // namespace
}  // namespace graft::test
