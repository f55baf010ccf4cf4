// ATen's fused attention as a kernel: layouts, dtypes, sizes, against eager and fp64.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

using at::Tensor;

struct AttentionCase {
  int64_t batch, heads, queries, keys, width;
  bool causal = true;
  const char* layout = "contiguous";
  std::optional<double> scale = std::nullopt;
};

Tensor laid_out(const Tensor& x, const std::string& layout) {
  if (layout == "transposed") return x.transpose(1, 2).contiguous().transpose(1, 2);
  if (layout == "sliced") return at::cat({x, x}, 3).slice(3, 1, 1 + x.size(3));
  if (layout == "columns") return x.transpose(2, 3).contiguous().transpose(2, 3);
  if (layout == "shared") return x.slice(1, 0, 1).expand(x.sizes());
  return x.contiguous();
}

const AttentionCase kCases[] = {{1, 2, 64, 64, 32},
                                {2, 3, 64, 64, 16},
                                {2, 3, 33, 33, 24, true, "transposed"},
                                {2, 2, 48, 80, 40, false, "transposed"},
                                {1, 4, 80, 48, 64, true, "sliced"},
                                {1, 4, 17, 16, 8, false, "sliced", 0.3},
                                {3, 2, 64, 96, 32, false, "columns"},
                                {2, 4, 40, 40, 32, true, "shared"},
                                {1, 1, 200, 131, 7, true, "contiguous", 2.0}};

class FusedAttention : public testing::TestWithParam<at::ScalarType> {};

TEST_P(FusedAttention, IsAsNearToFp64AsEager) {
  const at::ScalarType dtype = GetParam();
  for (const AttentionCase& c : kCases) {
    SCOPED_TRACE(std::to_string(c.queries) + " x " + std::to_string(c.keys) + ' ' + c.layout);
    at::manual_seed(3);
    const auto drawn = [&](int64_t rows) {
      return laid_out(at::randn({c.batch, c.heads, rows, c.width}).to(dtype), c.layout);
    };
    const Tensor q = drawn(c.queries), k = drawn(c.keys), v = drawn(c.keys);
    const auto f = [c](const Tensor& query, const Tensor& key, const Tensor& value) {
      return at::scaled_dot_product_attention(query * 1, key, value, {}, 0, c.causal, c.scale) + 0;
    };
    Options options;
    options.async = options.race = options.cache = false;
    const auto compiled = compile(f, options);
    Tensor out;
    for (int i = 0; i < 4; ++i) out = compiled(q, k, v);
    const Report report = compiled.report();
    EXPECT_EQ(report.verdict, Verdict::Faster) << report.reason;
    EXPECT_GE(report.kernels, 2) << "attention is a call";
    const Tensor eager = f(q, k, v);
    const auto wide = [](const Tensor& x) { return x.to(at::kDouble); };
    const Tensor right = f(wide(q), wide(k), wide(v));
    const auto error = [&](const Tensor& x) {
      return (wide(x) - right).abs().max().item<double>() / right.abs().max().item<double>();
    };
    EXPECT_LE(error(out), 1.5 * error(eager) + 1e-6);
    EXPECT_EQ(out.sizes(), eager.sizes());
    EXPECT_EQ(out.strides(), eager.strides());
  }
}

TEST_P(FusedAttention, SpecialValuesAsEager) {
  const at::ScalarType dtype = GetParam();
  at::manual_seed(4);
  const auto f = [](const Tensor& query, const Tensor& key, const Tensor& value) {
    return at::scaled_dot_product_attention(query, key, value, {}, 0, true) + 0;
  };
  Options options;
  options.async = options.race = options.cache = false;
  const auto compiled = compile(f, options);
  const auto drawn = [&] { return at::randn({1, 2, 32, 16}).to(dtype); };
  Tensor q = drawn(), k = drawn(), v = drawn();
  for (int i = 0; i < 3; ++i) compiled(q, k, v);
  const double inf = std::numeric_limits<double>::infinity();
  for (const double value : {inf, -inf, std::nan(""), 60000.0})
    for (Tensor* which : {&q, &k, &v}) {
      for (const int64_t row : {0, 7}) {
        Tensor changed = which->clone();
        changed[0][1][row][3] = value;
        std::swap(*which, changed);
        const auto wide = [](const Tensor& x) { return x.to(at::kDouble); };
        const Tensor expected = f(q, k, v), came = compiled(q, k, v),
                     right = f(wide(q), wide(k), wide(v));
        // In 16 bits ATen's kernel gives zeros where a score is +inf, for which fp64 gives NaN.
        const Tensor agrees = at::isclose(came, expected, 2e-2, 2e-2, /*equal_nan=*/true)
                                  .logical_or(right.isnan().logical_and(came.isnan()));
        EXPECT_TRUE(agrees.all().item<bool>()) << value << " in row " << row;
        std::swap(*which, changed);
      }
    }
}

/// What attention gives, and the gradients of its operands.
template <class F>
std::vector<Tensor> with_gradients(const F& f, std::vector<Tensor> in, const Tensor& gradient) {
  for (Tensor& x : in) x = x.detach().requires_grad_();
  const Tensor out = f(in[0], in[1], in[2]);
  std::vector<Tensor> all = torch::autograd::grad({out}, in, {gradient});
  all.push_back(out.detach());
  return all;
}
std::vector<Tensor> wide(std::vector<Tensor> all) {
  for (Tensor& x : all) x = x.to(at::kDouble);
  return all;
}

TEST_P(FusedAttention, GradientsAreAsNearToFp64AsEager) {
  const at::ScalarType dtype = GetParam();
  for (const AttentionCase& c : kCases) {
    SCOPED_TRACE(std::to_string(c.queries) + " x " + std::to_string(c.keys) + ' ' + c.layout);
    at::manual_seed(3);
    const auto drawn = [&](int64_t rows) {
      return laid_out(at::randn({c.batch, c.heads, rows, c.width}).to(dtype), c.layout);
    };
    const std::vector<Tensor> in{drawn(c.queries), drawn(c.keys), drawn(c.keys)};
    const Tensor gradient = at::randn({c.batch, c.heads, c.queries, c.width}).to(dtype);
    const auto f = [c](const Tensor& query, const Tensor& key, const Tensor& value) {
      return at::scaled_dot_product_attention(query * 1, key * 1, value * 1, {}, 0, c.causal,
                                              c.scale) *
             1;
    };
    Options options;
    options.async = options.race = options.cache = false;
    const auto compiled = compile(f, options);
    std::vector<Tensor> came;
    for (int i = 0; i < 4; ++i) came = with_gradients(compiled, in, gradient);
    EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.report().reason;
    const std::vector<Tensor> eager = with_gradients(f, in, gradient),
                              right = with_gradients(f, wide(in), gradient.to(at::kDouble));
    for (size_t k = 0; k < came.size(); ++k) {
      const auto error = [&](const Tensor& x) {
        return (x.to(at::kDouble) - right[k]).abs().max().item<double>() /
               right[k].abs().max().item<double>();
      };
      EXPECT_LE(error(came[k]), 1.5 * error(eager[k]) + 1e-6) << "result " << k;
      EXPECT_EQ(came[k].strides(), eager[k].strides());
    }
  }
}

/// Operands as they lie, and a gradient that is one number.
TEST_P(FusedAttention, GradientsOfAnyLayout) {
  const at::ScalarType dtype = GetParam();
  for (const AttentionCase& c : kCases) {
    SCOPED_TRACE(std::to_string(c.queries) + " x " + std::to_string(c.keys) + ' ' + c.layout);
    at::manual_seed(7);
    const auto drawn = [&](int64_t rows) {
      return laid_out(at::randn({c.batch, c.heads, rows, c.width}).to(dtype), c.layout);
    };
    const std::vector<Tensor> in{drawn(c.queries), drawn(c.keys), drawn(c.keys)};
    const auto f = [c](const std::vector<Tensor>& x) {
      std::vector<Tensor> leaves;
      for (const Tensor& one : x) leaves.push_back(one.detach().requires_grad_());
      const Tensor out = at::scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], {}, 0,
                                                          c.causal, c.scale);
      std::vector<Tensor> all = torch::autograd::grad({out.sum()}, leaves);
      all.push_back(out.detach());
      return all;
    };
    Options options;
    options.async = options.race = options.cache = false;
    const auto compiled = compile(f, options);
    std::vector<Tensor> came;
    for (int i = 0; i < 4; ++i) came = compiled(in);
    EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.report().reason;
    const std::vector<Tensor> eager = f(in), right = f(wide(in));
    for (size_t k = 0; k < came.size(); ++k) {
      const auto error = [&](const Tensor& x) {
        return (x.to(at::kDouble) - right[k]).abs().max().item<double>() /
               std::max(1e-3, right[k].abs().max().item<double>());
      };
      EXPECT_LE(error(came[k]), 1.5 * error(eager[k]) + 1e-6) << "result " << k;
      EXPECT_EQ(came[k].strides(), eager[k].strides());
    }
  }
}

TEST_P(FusedAttention, GradientsOfSpecialValuesAsEager) {
  const at::ScalarType dtype = GetParam();
  at::manual_seed(4);
  const auto f = [](const Tensor& query, const Tensor& key, const Tensor& value) {
    return at::scaled_dot_product_attention(query * 1, key * 1, value * 1, {}, 0, true) * 1;
  };
  Options options;
  options.async = options.race = options.cache = false;
  const auto compiled = compile(f, options);
  const auto drawn = [&] { return at::randn({1, 2, 32, 16}).to(dtype); };
  std::vector<Tensor> in{drawn(), drawn(), drawn()};
  Tensor gradient = drawn();
  for (int i = 0; i < 3; ++i) with_gradients(compiled, in, gradient);
  const double inf = std::numeric_limits<double>::infinity();
  for (const double value : {inf, -inf, std::nan(""), 60000.0})
    for (size_t which = 0; which < 4; ++which)
      for (const int64_t row : {0, 7}) {
        Tensor& at = which < 3 ? in[which] : gradient;
        const Tensor before = at;
        at = at.clone();
        at[0][1][row][3] = value;
        const std::vector<Tensor> expected = with_gradients(f, in, gradient),
                                  came = with_gradients(compiled, in, gradient),
                                  right = with_gradients(f, wide(in), gradient.to(at::kDouble));
        for (size_t k = 0; k < came.size(); ++k) {
          const double most = 2e-2 * expected[k].nan_to_num(0, 0, 0).abs().max().item<double>();
          const Tensor agrees =
              at::isclose(came[k], expected[k], 2e-2, most + 1e-3, /*equal_nan=*/true)
                  .logical_or(right[k].isnan().logical_and(came[k].isnan()));
          EXPECT_TRUE(agrees.all().item<bool>())
              << value << " in row " << row << " of " << which << ", result " << k;
        }
        at = before;
      }
}

INSTANTIATE_TEST_SUITE_P(All, FusedAttention, testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

/// Kernels of a function that doubles what attention gives: one where that stays a call.
template <class F>
int64_t kernels_of(const F& f, const Tensor& q, Matmul matmul = Matmul::Any) {
  Options options = at_once();
  options.cache = false;
  options.matmul = matmul;
  const auto compiled = compile(f, options);
  for (int i = 0; i < 3; ++i) (void)compiled(q);
  EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.report();
  return compiled.report().kernels;
}

TEST(FusedAttentionCalls, StayCallsWhereTheyMust) {
  at::manual_seed(5);
  const Tensor q = at::randn({1, 2, 32, 16}), few = at::randn({1, 2, 4, 16});
  const auto causal = [](const Tensor& x) {
    return at::scaled_dot_product_attention(x, x, x, {}, 0, true) * 2;
  };
  EXPECT_GE(kernels_of(causal, q), 2);
  EXPECT_EQ(kernels_of(causal, q.to(at::kDouble)), 1);
  EXPECT_EQ(kernels_of(causal, q, Matmul::EagerBits), 1);
  EXPECT_EQ(kernels_of(causal, few), 1) << "too few rows for a block";
  const auto masked = [](const Tensor& x) {
    const Tensor mask = at::zeros({x.size(2), x.size(2)}, x.options());
    return at::scaled_dot_product_attention(x, x, x, mask) * 2;
  };
  EXPECT_LE(kernels_of(masked, q), 2) << "zeros, and the product by 2";
}

TEST(FusedAttentionCalls, TheBackwardMayBeLoopsWhereTheForwardIsACall) {
  at::manual_seed(6);
  const auto f = compile(
      [](const Tensor& x) { return at::scaled_dot_product_attention(x, x, x, {}, 0, true) * 2; },
      at_once());
  const Tensor x = at::randn({1, 2, 32, 16}).requires_grad_();
  for (int i = 0; i < 4; ++i) {
    const Tensor other = x.detach().clone().requires_grad_();
    (at::scaled_dot_product_attention(other, other, other, {}, 0, true) * 2).sum().backward();
    x.mutable_grad() = Tensor();
    f(x).sum().backward();
    EXPECT_TRUE(at::allclose(x.grad(), other.grad(), 1e-5, 1e-6));
  }
}

}  // namespace
}  // namespace graft::test
