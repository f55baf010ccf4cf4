// Gradients of attention written out: one kernel computes scores again, block of rows by block, and
// adds up what its rows give to keys and values.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>
#include <limits>

#include "helpers.h"

namespace graft {
namespace {

using test::Tensors;
using torch::autograd::grad;
using Attention = std::function<at::Tensor(const Tensors&)>;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct Sizes {
  int64_t heads, queries, keys, width;
  c10::ScalarType dtype = at::kFloat;
};

/// q, k, v, and the gradient that comes.
Tensors random_heads(Sizes n, int call) {
  at::manual_seed(static_cast<uint64_t>(call * 100 + n.width));
  Tensors all{at::randn({n.heads, n.queries, n.width}), at::randn({n.heads, n.keys, n.width}),
              at::randn({n.heads, n.keys, n.width}), at::randn({n.heads, n.queries, n.width})};
  for (at::Tensor& t : all) t = t.to(n.dtype);
  for (size_t k = 0; k < 3; ++k) all[k].requires_grad_(true);
  return all;
}

at::Tensor scaled(const Tensors& t) {
  return at::matmul(t[0], t[1].transpose(-2, -1)) / std::sqrt(static_cast<double>(t[0].size(-1)));
}

const std::vector<std::pair<const char*, Attention>>& kinds() {
  static const std::vector<std::pair<const char*, Attention>> all{
      {"plain", [](const Tensors& t) { return at::matmul(at::softmax(scaled(t), -1), t[2]); }},
      {"causal",
       [](const Tensors& t) {
         const at::Tensor later = at::ones({t[0].size(1), t[1].size(1)}, at::kBool).triu(1);
         return at::matmul(at::softmax(scaled(t).masked_fill(later, -kInfinite), -1), t[2]);
       }},
      {"window", [](const Tensors& t) {
         const at::Tensor apart = at::arange(t[0].size(1)).unsqueeze(1) - at::arange(t[1].size(1));
         const at::Tensor seen =
             at::where(apart.abs() < 60, at::tanh(scaled(t)) * 3, at::full({}, -kInfinite));
         return at::matmul(at::softmax(seen, -1), t[2]);
       }}};
  return all;
}

/// Beside eager's, from the same numbers in fp64: no further away than twice eager's.
void expect_as_near(const at::Tensor& came, const at::Tensor& eager, const at::Tensor& exact) {
  ASSERT_EQ(at::isnan(came).sum().item<int64_t>(), at::isnan(exact).sum().item<int64_t>());
  auto error = [&](const at::Tensor& x) {
    return (at::nan_to_num(x.to(at::kDouble)) - at::nan_to_num(exact)).norm().item<double>();
  };
  EXPECT_LE(error(came), 2 * error(eager) + 1e-6);
}

void expect_gradients(const Attention& attention, Sizes sizes, Keep keep,
                      const std::function<void(Tensors&)>& change = {}) {
  Options options = test::at_once();
  options.keep = keep;
  auto compiled = compile([&](const Tensors& t) { return Tensors{attention(t)}; }, options);
  for (int call = 0; call < 4; ++call) {
    Tensors t = random_heads(sizes, call);
    if (change) {
      const c10::AutoGradMode off(false);
      change(t);
    }
    Tensors wide;
    for (const at::Tensor& x : t)
      wide.push_back(x.detach().to(at::kDouble).requires_grad_(x.requires_grad()));
    auto of = [&](const at::Tensor& out, const Tensors& in) {
      return grad({out}, {in[0], in[1], in[2]}, {in[3]});
    };
    const at::Tensor out = compiled(t)[0], eager_out = attention(t), exact_out = attention(wide);
    expect_as_near(out, eager_out, exact_out);
    const Tensors came = of(out, t), eager = of(eager_out, t), exact = of(exact_out, wide);
    for (size_t k = 0; k < 3; ++k) {
      SCOPED_TRACE("call " + std::to_string(call) + ", gradient " + std::to_string(k));
      expect_as_near(came[k], eager[k], exact[k]);
    }
  }
  EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.explain();
  if (keep == Keep::LeastMemory && sizes.heads >= 8 && sizes.dtype == at::kFloat) {
    EXPECT_NE(compiled.explain().find("product adds"), std::string::npos) << compiled.explain();
  }
}

TEST(AttentionGradients, AtManySizes) {
  for (const auto& [name, attention] : kinds())
    for (const Sizes sizes :
         {Sizes{8, 300, 300, 40}, Sizes{9, 515, 640, 33}, Sizes{16, 256, 256, 64},
          Sizes{8, 97, 700, 17}, Sizes{3, 400, 400, 32}})
      for (Keep keep : {Keep::LeastMemory, Keep::LeastTime}) {
        SCOPED_TRACE(std::string(name) + ", " + std::to_string(sizes.queries) + " queries, " +
                     std::to_string(sizes.keys) + " keys");
        expect_gradients(attention, sizes, keep);
      }
}

TEST(AttentionGradients, InShortNumbers) {
  for (const auto& [name, attention] : kinds())
    for (const Sizes sizes :
         {Sizes{8, 515, 640, 33, at::kBFloat16}, Sizes{8, 256, 256, 64, at::kBFloat16}})
      for (Keep keep : {Keep::LeastMemory, Keep::LeastTime}) {
        SCOPED_TRACE(std::string(name) + ", " + std::to_string(sizes.queries) + " queries");
        expect_gradients(attention, sizes, keep);
      }
}

/// What blocks of zeros are multiplied with: eager's NaN come all the same.
TEST(AttentionGradients, WithNumbersThatAreNotFinite) {
  for (const auto& [name, attention] : kinds())
    for (size_t which : {0u, 1u, 2u, 3u}) {
      SCOPED_TRACE(std::string(name) + ", argument " + std::to_string(which));
      expect_gradients(attention, {8, 300, 300, 40}, Keep::LeastMemory, [&](Tensors& t) {
        t[which][2][250][3] = which % 2 ? NAN : kInfinite;
        t[which][5][20][7] = -kInfinite;
      });
    }
}

TEST(AttentionGradients, HaveTheSameBitsForAnyNumberOfThreads) {
  const Attention& causal = kinds()[1].second;
  const int before = at::get_num_threads();
  Tensors first;
  for (int threads : {1, 2, 7}) {
    at::set_num_threads(threads);
    Options options = test::at_once();
    options.keep = Keep::LeastMemory;
    auto compiled = compile([&](const Tensors& t) { return Tensors{causal(t)}; }, options);
    Tensors came;
    for (int call = 0; call < 3; ++call) {
      const Tensors t = random_heads({8, 333, 333, 40}, 1);
      came = grad({compiled(t)[0]}, {t[0], t[1], t[2]}, {t[3]});
    }
    for (size_t k = 0; k < first.size(); ++k)
      EXPECT_EQ(test::difference(first[k], came[k]), "") << threads << " threads, gradient " << k;
    first = came;
  }
  at::set_num_threads(before);
}

/// In a whole step, what the gradients are used for follows.
TEST(AttentionGradients, InAWholeStep) {
  for (const auto& [name, attention] : kinds()) {
    SCOPED_TRACE(name);
    const auto step = [&, attention = attention](const Tensors& t) {
      Tensors leaves;
      for (size_t k = 0; k < 3; ++k) leaves.push_back(t[k].detach().requires_grad_(true));
      const at::Tensor loss = (attention(leaves) * t[3]).square().mean();
      Tensors all = grad({loss}, leaves);
      all.push_back(loss.detach());
      return all;
    };
    auto compiled = compile(step, test::at_once());
    for (int call = 0; call < 4; ++call) {
      const Tensors t = random_heads({8, 320, 300, 32}, call);
      const Tensors came = compiled(t), expected = step(t);
      for (size_t k = 0; k < came.size(); ++k)
        EXPECT_TRUE(at::allclose(came[k], expected[k], 1e-3, 1e-6)) << call << ", " << k;
    }
    EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.explain();
  }
}

}  // namespace
}  // namespace graft
