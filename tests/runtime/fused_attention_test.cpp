// ATen's fused attention as a kernel: layouts, dtypes, sizes, against eager and fp64.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "runtime/helpers.h"

namespace graft::test {
namespace {

using at::Tensor;

Tensor laid_out(const Tensor& x, const std::string& layout) {
  if (layout == "transposed") return x.transpose(1, 2).contiguous().transpose(1, 2);
  if (layout == "sliced") return at::cat({x, x}, 3).slice(3, 1, 1 + x.size(3));
  if (layout == "columns") return x.transpose(2, 3).contiguous().transpose(2, 3);
  if (layout == "shared") return x.slice(1, 0, 1).expand(x.sizes());
  return x.contiguous();
}

struct AttentionCase {
  int64_t batch, heads, queries, keys, width;
  bool causal = true;
  const char* layout = "contiguous";
  std::optional<double> scale = std::nullopt;

  std::string name() const {
    return std::to_string(queries) + " x " + std::to_string(keys) + ' ' + layout;
  }
  /// Query, key and value.
  std::vector<Tensor> drawn(at::ScalarType dtype) const {
    std::vector<Tensor> all;
    for (const int64_t rows : {queries, keys, keys})
      all.push_back(laid_out(at::randn({batch, heads, rows, width}).to(dtype), layout));
    return all;
  }
};

const AttentionCase kCases[] = {{1, 2, 64, 64, 32},
                                {2, 3, 64, 64, 16},
                                {2, 3, 33, 33, 24, true, "transposed"},
                                {2, 2, 48, 80, 40, false, "transposed"},
                                {1, 4, 80, 48, 64, true, "sliced"},
                                {1, 4, 17, 16, 8, false, "sliced", 0.3},
                                {3, 2, 64, 96, 32, false, "columns"},
                                {2, 4, 40, 40, 32, true, "shared"},
                                {1, 1, 200, 131, 7, true, "contiguous", 2.0}};

Options uncached() {
  Options options = at_once();
  options.cache = false;
  return options;
}

std::vector<Tensor> wide(std::vector<Tensor> all) {
  for (Tensor& x : all) x = x.to(at::kDouble);
  return all;
}
/// Errors against fp64, of the largest number or `least` at least, so many times eager's at most;
/// and layouts.
void expect_as_near(const std::vector<Tensor>& came, const std::vector<Tensor>& eager,
                    const std::vector<Tensor>& right, double least = 0, double times = 1.5) {
  for (size_t k = 0; k < came.size(); ++k) {
    const auto error = [&](const Tensor& x) {
      return (x.to(at::kDouble) - right[k]).abs().max().item<double>() /
             std::max(least, right[k].abs().max().item<double>());
    };
    EXPECT_LE(error(came[k]), times * error(eager[k]) + 1e-6) << "result " << k;
    EXPECT_EQ(came[k].sizes(), eager[k].sizes());
    EXPECT_EQ(came[k].strides(), eager[k].strides());
  }
}

class FusedAttention : public testing::TestWithParam<at::ScalarType> {};

TEST_P(FusedAttention, IsAsNearToFp64AsEager) {
  const at::ScalarType dtype = GetParam();
  for (const AttentionCase& c : kCases) {
    SCOPED_TRACE(c.name());
    at::manual_seed(3);
    const std::vector<Tensor> in = c.drawn(dtype);
    const auto f = [c](const Tensor& query, const Tensor& key, const Tensor& value) {
      return at::scaled_dot_product_attention(query * 1, key, value, {}, 0, c.causal, c.scale) + 0;
    };
    const auto compiled = compile(f, uncached());
    Tensor out;
    for (int i = 0; i < 4; ++i) out = compiled(in[0], in[1], in[2]);
    const Report report = compiled.report();
    EXPECT_EQ(report.verdict, Verdict::Faster) << report.reason;
    EXPECT_GE(report.kernels, 2) << "attention is a call";
    const std::vector<Tensor> exact = wide(in);
    expect_as_near({out}, {f(in[0], in[1], in[2])}, {f(exact[0], exact[1], exact[2])});
  }
}

TEST_P(FusedAttention, SpecialValuesAsEager) {
  const at::ScalarType dtype = GetParam();
  at::manual_seed(4);
  const auto f = [](const Tensor& query, const Tensor& key, const Tensor& value) {
    return at::scaled_dot_product_attention(query, key, value, {}, 0, true) + 0;
  };
  const auto compiled = compile(f, uncached());
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

TEST_P(FusedAttention, GradientsAreAsNearToFp64AsEager) {
  const at::ScalarType dtype = GetParam();
  for (const AttentionCase& c : kCases) {
    SCOPED_TRACE(c.name());
    at::manual_seed(3);
    const std::vector<Tensor> in = c.drawn(dtype);
    const Tensor gradient = at::randn({c.batch, c.heads, c.queries, c.width}).to(dtype);
    const auto f = [c](const Tensor& query, const Tensor& key, const Tensor& value) {
      return at::scaled_dot_product_attention(query * 1, key * 1, value * 1, {}, 0, c.causal,
                                              c.scale) *
             1;
    };
    const auto compiled = compile(f, uncached());
    std::vector<Tensor> came;
    for (int i = 0; i < 4; ++i) came = with_gradients(compiled, in, gradient);
    EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.report().reason;
    expect_as_near(came, with_gradients(f, in, gradient),
                   with_gradients(f, wide(in), gradient.to(at::kDouble)));
  }
}

/// Operands as they lie, and a gradient that is one number.
TEST_P(FusedAttention, GradientsOfAnyLayout) {
  const at::ScalarType dtype = GetParam();
  for (const AttentionCase& c : kCases) {
    SCOPED_TRACE(c.name());
    at::manual_seed(7);
    const std::vector<Tensor> in = c.drawn(dtype);
    const auto f = [c](const std::vector<Tensor>& x) {
      std::vector<Tensor> leaves;
      for (const Tensor& one : x) leaves.push_back(one.detach().requires_grad_());
      const Tensor out = at::scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], {}, 0,
                                                          c.causal, c.scale);
      std::vector<Tensor> all = torch::autograd::grad({out.sum()}, leaves);
      all.push_back(out.detach());
      return all;
    };
    const auto compiled = compile(f, uncached());
    std::vector<Tensor> came;
    for (int i = 0; i < 4; ++i) came = compiled(in);
    EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.report().reason;
    expect_as_near(came, f(in), f(wide(in)), /*least=*/1e-3);
  }
}

/// Masks of keys, of pairs, by head; of numbers and of Bool; with rows of -inf alone.
TEST_P(FusedAttention, MasksThatAreAdded) {
  const at::ScalarType dtype = GetParam();
  constexpr int64_t kBatch = 2, kHeads = 3, kQueries = 48, kKeys = 80, kWidth = 24;
  const double inf = std::numeric_limits<double>::infinity();
  at::manual_seed(9);
  const Tensor kept = at::arange(kKeys) < at::tensor({kKeys, int64_t{31}}).view({2, 1});
  Tensor pairs = at::randn({kQueries, kKeys});
  pairs[5].fill_(-inf), pairs.slice(1, 70).fill_(-inf);
  const Tensor masks[] = {at::where(kept, 0.0, -inf).view({kBatch, 1, 1, kKeys}).to(dtype),
                          kept.view({kBatch, 1, 1, kKeys}).expand({kBatch, 1, kQueries, kKeys}),
                          pairs,
                          pairs > -0.5,
                          pairs.to(dtype).t().contiguous().t(),
                          at::randn({1, kHeads, 1, kKeys}),
                          at::randn({kBatch, kHeads, kQueries, 1}).to(dtype),
                          at::randn({kBatch, kHeads, kQueries, 2 * kKeys}).slice(3, 0, -1, 2)};
  for (const Tensor& mask : masks) {
    SCOPED_TRACE(c10::str(mask.scalar_type(), mask.sizes()));
    const AttentionCase c{kBatch, kHeads, kQueries, kKeys, kWidth, false, "transposed"};
    const std::vector<Tensor> in = c.drawn(dtype);
    const auto attend = [](const Tensor& query, const Tensor& key, const Tensor& value,
                           const Tensor& mask) {
      return at::scaled_dot_product_attention(query * 1, key * 1, value * 1, mask) * 1;
    };
    const auto wide_mask = mask.scalar_type() == at::kBool ? mask : mask.to(at::kDouble);
    const auto compiled = compile(attend, uncached());
    Tensor out;
    for (int i = 0; i < 4; ++i) out = compiled(in[0], in[1], in[2], mask);
    EXPECT_EQ(compiled.report().verdict, Verdict::Faster) << compiled.report().reason;
    // (So little work stays a call where the mask's numbers are made in front.)
    const bool is_kernel = compiled.explain().find("  product") != std::string::npos;
    EXPECT_TRUE(is_kernel || mask.scalar_type() == at::kBool) << compiled.explain();
    const std::vector<Tensor> exact = wide(in);
    expect_as_near({out}, {attend(in[0], in[1], in[2], mask)},
                   {attend(exact[0], exact[1], exact[2], wide_mask)});
    // Not finite where the mask leaves out, and where it does not.
    std::vector<Tensor> special = in;
    for (Tensor& x : special) x = x.clone();
    special[2][1][0][75][3] = inf, special[1][0][1][20][0] = NAN;
    const Tensor came = compiled(special[0], special[1], special[2], mask),
                 eager = attend(special[0], special[1], special[2], mask);
    EXPECT_TRUE(at::equal(came.isnan(), eager.isnan()));

    const auto with_mask = [&mask, attend](const Tensor& query, const Tensor& key,
                                           const Tensor& value) {
      return attend(query, key, value, mask);
    };
    const Tensor gradient = at::randn({kBatch, kHeads, kQueries, kWidth}).to(dtype);
    const auto region = compile(with_mask, uncached());
    std::vector<Tensor> gradients;
    for (int i = 0; i < 4; ++i) gradients = with_gradients(region, in, gradient);
    const auto with_wide = [&](const Tensor& query, const Tensor& key, const Tensor& value) {
      return attend(query, key, value, wide_mask);
    };
    expect_as_near(gradients, with_gradients(with_mask, in, gradient),
                   with_gradients(with_wide, exact, gradient.to(at::kDouble)), 0, 2);
  }
}

TEST_P(FusedAttention, GradientsOfSpecialValuesAsEager) {
  const at::ScalarType dtype = GetParam();
  at::manual_seed(4);
  const auto f = [](const Tensor& query, const Tensor& key, const Tensor& value) {
    return at::scaled_dot_product_attention(query * 1, key * 1, value * 1, {}, 0, true) * 1;
  };
  const auto compiled = compile(f, uncached());
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
  Options options = uncached();
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
  EXPECT_GE(kernels_of(masked, q), 3);
  EXPECT_LE(kernels_of(masked, q, Matmul::EagerBits), 2) << "zeros, and the product by 2";
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
