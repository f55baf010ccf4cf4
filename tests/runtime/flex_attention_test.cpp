// flex_attention: against the formula written out, eager and compiled, and what it refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "helpers.h"

namespace graft::flex {
namespace {

using at::Tensor;
using test::Tensors;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

Tensor causal(const Tensor&, const Tensor&, const Tensor& q, const Tensor& kv) {
  return q >= kv;
}
/// Keys that are too far on the left of a query, or on its right, are left out; so are all of the
/// first head's last queries.
Tensor banded(const Tensor&, const Tensor& h, const Tensor& q, const Tensor& kv) {
  return (q >= kv).logical_and(q - kv < 70).logical_and((h > 0).logical_or(q < 150));
}
Tensor slope(const Tensor& score, const Tensor& b, const Tensor& h, const Tensor& q,
             const Tensor& kv) {
  return score - (h + 1 + b) * 0.01 * (q - kv).abs();
}
Tensor cap(const Tensor& score, const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  return at::tanh(score / 5) * 5;
}

struct Case {
  ScoreMod score;
  MaskMod mask;
};
const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {nullptr, nullptr}, {nullptr, causal}, {slope, causal}, {cap, banded}, {slope, nullptr}};
  return all;
}

/// In fp64, score by score.
Tensor written_out(const Case& c, const Tensor& q, const Tensor& k, const Tensor& v) {
  const int64_t heads = q.size(1), each = heads / k.size(1);
  const Tensor keys = k.to(at::kDouble).repeat_interleave(each, 1),
               values = v.to(at::kDouble).repeat_interleave(each, 1);
  Tensor s = at::matmul(q.to(at::kDouble), keys.transpose(-2, -1)) /
             std::sqrt(static_cast<double>(q.size(3)));
  const Tensor b = at::arange(q.size(0)).view({-1, 1, 1, 1}),
               h = at::arange(heads).view({-1, 1, 1}), i = at::arange(q.size(2)).view({-1, 1}),
               j = at::arange(k.size(2));
  if (c.score) s = c.score(s, b, h, i, j);
  if (!c.mask) return at::matmul(at::softmax(s, -1), values);
  const Tensor left_out = c.mask(b, h, i, j).logical_not().expand_as(s);
  const Tensor weights = at::softmax(s.masked_fill(left_out, -kInfinite), -1);
  return at::matmul(weights.masked_fill(left_out.all(-1, true), 0), values);
}

Tensors inputs(int64_t heads, int64_t of_keys, int64_t queries, int64_t keys, int call) {
  at::manual_seed(static_cast<uint64_t>(call));
  return {at::randn({2, heads, queries, 24}), at::randn({2, of_keys, keys, 24}),
          at::randn({2, of_keys, keys, 40})};
}

TEST(FlexAttention, IsTheFormula) {
  for (const Case& c : cases())
    for (auto [heads, of_keys, queries, keys] :
         {std::array<int64_t, 4>{4, 4, 200, 200}, {6, 2, 190, 231}, {4, 1, 1, 300}, {3, 3, 5, 1}}) {
      auto compiled = compile(
          [&](const Tensors& t) {
            return Tensors{flex_attention(t[0], t[1], t[2], c.score, c.mask)};
          },
          test::at_once());
      for (int call = 0; call < 4; ++call) {
        const Tensors t = inputs(heads, of_keys, queries, keys, call);
        const Tensor expected = written_out(c, t[0], t[1], t[2]);
        for (const Tensor& came :
             {flex_attention(t[0], t[1], t[2], c.score, c.mask), compiled(t)[0]}) {
          EXPECT_EQ(came.sizes(), expected.sizes());
          EXPECT_TRUE(at::allclose(came.to(at::kDouble), expected, 1e-4, 1e-5))
              << heads << ' ' << of_keys << ' ' << queries << ' ' << keys << ", call " << call;
        }
      }
      EXPECT_NE(compiled.report().verdict, Verdict::Mismatch) << compiled.explain();
    }
}

TEST(FlexAttention, IsOneKernelOverBlocksOfQueries) {
  auto compiled = compile([](const Tensor& q, const Tensor& k,
                             const Tensor& v) { return flex_attention(q, k, v, nullptr, causal); },
                          test::at_once());
  for (int call = 0; call < 3; ++call) {
    const Tensors t = inputs(8, 8, 500, 500, call);
    compiled(t[0], t[1], t[2]);
  }
  EXPECT_NE(compiled.explain().find("  product where"), std::string::npos) << compiled.explain();
}

TEST(FlexAttention, HasGradients) {
  for (const Case& c : cases()) {
    auto f = [&](const Tensors& t) {
      return Tensors{flex_attention(t[0], t[1], t[2], c.score, c.mask)};
    };
    auto compiled = compile(f, test::at_once());
    for (int call = 0; call < 4; ++call) {
      Tensors t = inputs(6, 2, 130, 170, call), wide;
      for (Tensor& x : t) wide.push_back(x.to(at::kDouble).requires_grad_()), x.requires_grad_();
      written_out(c, wide[0], wide[1], wide[2]).square().sum().backward();
      compiled(t)[0].square().sum().backward();
      for (size_t k = 0; k < 3; ++k)
        EXPECT_TRUE(at::allclose(t[k].grad().to(at::kDouble), wide[k].grad(), 1e-3, 1e-4))
            << "call " << call << ", gradient " << k;
    }
  }
}

TEST(FlexAttention, TakesAScaleAndOtherDtypes) {
  const Tensors t = inputs(2, 2, 30, 30, 1);
  EXPECT_TRUE(at::allclose(flex_attention(t[0], t[1], t[2], nullptr, nullptr, 0.0),
                           t[2].mean(2, true).expand({2, 2, 30, 40}), 1e-4, 1e-5));
  const Tensor half = flex_attention(t[0].to(at::kBFloat16), t[1].to(at::kBFloat16),
                                     t[2].to(at::kBFloat16), nullptr, causal);
  EXPECT_EQ(half.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::allclose(half.to(at::kFloat), flex_attention(t[0], t[1], t[2], nullptr, causal),
                           0.05, 0.05));
}

std::string refusal(const Tensor& q, const Tensor& k, const Tensor& v, const MaskMod& mask = {}) {
  try {
    flex_attention(q, k, v, nullptr, mask);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(FlexAttention, SaysWhatDoesNotFit) {
  const Tensor x = at::zeros({2, 4, 8, 16});
  const auto expect = [](const std::string& came, const char* part) {
    EXPECT_NE(came.find(part), std::string::npos) << came;
  };
  expect(refusal(x[0], x, x), "query Float [4, 8, 16]");
  expect(refusal(x[0], x, x), "expected (batch, heads, length, width) of each");
  expect(refusal(x, x.to(at::kDouble), x), "one floating dtype");
  expect(refusal(x.to(at::kLong), x.to(at::kLong), x.to(at::kLong)), "one floating dtype");
  expect(refusal(x, x.narrow(0, 0, 1), x), "one size of batch");
  expect(refusal(x, x.narrow(3, 0, 8), x), "one width of query and key");
  expect(refusal(x, x.narrow(2, 0, 4), x), "as many heads and keys as values");
  expect(refusal(x, x.narrow(1, 0, 3), x.narrow(1, 0, 3)), "divide the heads of queries");
  expect(refusal(x, {}, x), "key is undefined");
  expect(refusal(x, x, x, [](auto&, auto&, const Tensor& q, const Tensor& kv) { return q + kv; }),
         "mask_mod gave a tensor Long [1, 1, 8, 8]; expected Bool");
}

}  // namespace
}  // namespace graft::flex
