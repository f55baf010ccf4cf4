// Which blocks the makers of masks keep.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "graft/systems/sparse_attention.h"

namespace graft::systems {
namespace {

using at::Tensor;

Tensor places(int64_t length) {
  return at::arange(length).view({-1, 1}) - at::arange(length);  // query less key
}

TEST(BlockMask, CausalAndWindow) {
  const BlockMask causal = causal_mask(70, 16), window = sliding_window_mask(70, 20, 16);
  EXPECT_TRUE(causal.dense()[0][0].equal(places(70) >= 0));
  EXPECT_TRUE(window.dense()[0][0].equal((places(70) >= 0).logical_and(places(70) < 20)));
  // 16-wide blocks: the diagonal is cut, what lies below is whole.
  EXPECT_TRUE(causal.keep[0][0].equal(places(5) >= 0));
  EXPECT_TRUE(causal.partial[0][0].slice(0, 0, 4).equal((places(5) == 0).slice(0, 0, 4)));
  // Row by row: 16 * 16 * (1 + 2 + 3 + 4), and 6 queries of 70 keys.
  EXPECT_DOUBLE_EQ(causal.computed_share(), (2560 + 6 * 70) / 4900.0);
  EXPECT_DOUBLE_EQ(full_mask(70, 33, 16).computed_share(), 1);
}

TEST(BlockMask, KeepsABlockWithOneScore) {
  const auto one = [](const Tensor&, const Tensor& h, const Tensor& q, const Tensor& kv) {
    return (q == 17).logical_and(kv == 30).logical_and(h == 1);
  };
  const BlockMask mask = make_block_mask(one, 40, 40, 8, 1, 2);
  EXPECT_EQ(mask.keep.sum().item<int64_t>(), 1);
  EXPECT_TRUE(mask.keep[0][1][2][3].item<bool>());
  EXPECT_TRUE(mask.partial[0][1][2][3].item<bool>());
  EXPECT_EQ(mask.dense().sum().item<int64_t>(), 1);
}

TEST(BlockMask, FunctionLooksUpAPartOfTheScores) {
  BlockMask mask = causal_mask(70, 16);
  mask.keep = at::rand({2, 3, 5, 5}).lt(0.5).logical_and(mask.keep);
  const Tensor all = mask.dense(), b = at::arange(2).view({-1, 1, 1, 1}),
               h = at::arange(3).view({-1, 1, 1});
  const auto part = [&](const Tensor& at_b, const Tensor& at_h) {
    return mask.mask_mod()(at_b, at_h, at::arange(20, 41).view({-1, 1}), at::arange(3, 60));
  };
  const Tensor want = all.slice(2, 20, 41).slice(3, 3, 60);
  EXPECT_TRUE(part(b, h).equal(want));
  EXPECT_TRUE(part(b[1], h[2])[0].equal(want[1][2]));
  const Tensor one = mask.mask_mod()(at::full({}, 1, at::kLong), at::full({}, 2, at::kLong),
                                     at::arange(70).view({-1, 1}), at::arange(70));
  EXPECT_TRUE(one.equal(all[1][2]));
  EXPECT_THROW(mask.mask_mod()(b, h, at::arange(90).view({-1, 1}), at::arange(90)),
               c10::ValueError);
}

TEST(BlockMask, Pattern) {
  const Tensor keep = pattern_mask(full_mask(80, 80, 10), {2, 1, 4, 0}).keep[0][0];
  for (int64_t i = 0; i < 8; ++i)
    for (int64_t j = 0; j < 8; ++j)
      EXPECT_EQ(keep[i][j].item<bool>(), std::abs(i - j) < 2 || i < 1 || j < 1 || j % 4 == 3)
          << i << ' ' << j;
  const BlockMask base = causal_mask(80, 10);
  const Tensor drawn = pattern_mask(base, {1, 0, 0, 2, 5}).keep[0][0];
  EXPECT_TRUE(drawn.sum(1).equal(at::arange(1, 9).clamp_max(3)));  // itself and two more
  EXPECT_FALSE(drawn.logical_and(base.keep[0][0].logical_not()).any().item<bool>());
}

/// Queries of each block are alike, and meet one block of keys each.
struct Pointed {
  Tensor q, k;
  explicit Pointed(const std::vector<int64_t>& target, int64_t block) {
    const int64_t n = static_cast<int64_t>(target.size());
    const Tensor axes = at::eye(n) * 8;
    q = axes.index_select(0, at::tensor(target)).repeat_interleave(block, 0).view({1, 1, -1, n});
    k = axes.repeat_interleave(block, 0).view({1, 1, -1, n});
  }
};

TEST(DynamicMask, FindsTheBlocksThatMatter) {
  const Pointed x({0, 0, 1, 0}, 8);
  const Tensor want =
      at::tensor({1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 1, 0, 0, 1}).view({4, 4}) == 1;
  const BlockMask base = causal_mask(32, 8);
  EXPECT_TRUE(threshold_mask(x.q, x.k, base, 0.9).keep[0][0].equal(want));
  EXPECT_TRUE(top_blocks_mask(x.q, x.k, base, 0.7).keep[0][0].equal(want));  // 7 of 10
}

TEST(DynamicMask, RemovesTheShareThatIsAsked) {
  at::manual_seed(1);
  const Tensor q = at::randn({2, 4, 320, 16}), k = at::randn({2, 2, 320, 16});
  const BlockMask base = causal_mask(320, 8);
  for (const double keep : {0.5, 0.25, 0.1}) {
    const BlockMask mask = top_blocks_mask(q, k, base, keep);
    EXPECT_NEAR(mask.computed_share() / base.computed_share(), keep, 0.001);
    EXPECT_FALSE(mask.keep.logical_and(base.keep.logical_not()).any().item<bool>());
    EXPECT_TRUE(mask.keep.diagonal(0, 2, 3).all().item<bool>());
  }
  double before = 0;
  for (const double mass : {0.2, 0.5, 0.9}) {
    const double share = threshold_mask(q, k, base, mass).computed_share();
    EXPECT_GT(share, before);
    before = share;
  }
}

TEST(BlockGate, LearnsWhichBlockHoldsTheAnswer) {
  // Each query's answer is the mean value of the first block; the second is noise.
  at::manual_seed(2);
  const int64_t block = 8;
  const BlockMask base = causal_mask(4 * block, block);
  BlockGate gate(base, 1);
  Tensor first_momentum = at::zeros_like(gate.logits());
  for (int step = 0; step < 150; ++step) {
    const Tensor q = at::zeros({4, 1, 4 * block, 8}), k = at::zeros_like(q), v = at::randn_like(q);
    const Tensor want = v.slice(2, 0, block).mean(2, true).expand_as(v).slice(2, 3 * block);
    const Tensor got = gate.attention(q, k, v).slice(2, 3 * block);
    const Tensor loss = (got - want).square().mean() + 0.3 * gate.penalty(0.3);
    const Tensor g = torch::autograd::grad({loss}, {gate.logits()})[0];
    gate.logits().detach().sub_(20 * g);
  }
  const Tensor last = gate.logits().detach()[0][3];
  EXPECT_GT(last[0].item<float>(), last[1].item<float>());
  EXPECT_GT(last[0].item<float>(), last[2].item<float>());
  const BlockMask hard = gate.harden(0.5);
  EXPECT_TRUE(hard.keep[0][0][3].equal(at::tensor({1, 0, 0, 1}) == 1)) << gate.logits();
  EXPECT_NEAR(hard.computed_share(), 5.0 / 16, 1e-9);
}

TEST(BlockGate, OpenGatesAreDenseAttention) {
  at::manual_seed(4);
  const Tensor q = at::randn({1, 2, 24, 8}), k = at::randn({1, 1, 24, 8}),
               v = at::randn({1, 1, 24, 8});
  const BlockMask base = causal_mask(24, 8);
  const BlockGate gate(base, 2);
  const Tensor want = block_sparse_attention(q, k, v, base);
  EXPECT_LT((gate.attention(q, k, v) - want).abs().max().item<float>(), 1e-5);
  EXPECT_GT(gate.penalty(0.5).item<float>(), 0);
  EXPECT_EQ(gate.penalty(0.9).item<float>(), 0);
}

}  // namespace
}  // namespace graft::systems
