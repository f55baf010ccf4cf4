// Block-sparse attention against dense attention with the same mask, score by score.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "graft/graft.h"
#include "graft/systems/sparse_attention.h"

namespace graft::systems {
namespace {

using at::Tensor;

/// Dense, with -inf where the mask leaves out, and zeros for rows without a key.
Tensor written_out(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
  const int64_t each = q.size(1) / k.size(1);
  const Tensor keys = k.repeat_interleave(each, 1), values = v.repeat_interleave(each, 1);
  const Tensor s = at::matmul(q, keys.transpose(-2, -1)) / std::sqrt(double(q.size(3)));
  const Tensor out = mask.logical_not().expand_as(s), empty = out.all(-1, true);
  // Rows without a key get made-up scores, so that no NaN reaches their gradient.
  const Tensor weights =
      at::softmax(s.masked_fill(out.logical_and(empty.logical_not()), -INFINITY), -1);
  return at::matmul(weights.masked_fill(empty, 0), values);
}

struct Inputs {
  Tensor q, k, v;
};
Inputs inputs(int64_t batch, int64_t heads, int64_t of_keys, int64_t queries, int64_t keys,
              at::ScalarType type = at::kDouble) {
  at::manual_seed(7);
  return {at::randn({batch, heads, queries, 12}, at::kDouble).to(type),
          at::randn({batch, of_keys, keys, 12}, at::kDouble).to(type),
          at::randn({batch, of_keys, keys, 20}, at::kDouble).to(type)};
}

/// Largest difference of results and of all three gradients.
double difference(const Inputs& x, const BlockMask& mask) {
  std::vector<Tensor> sides[2];
  for (int side = 0; side < 2; ++side) {
    const Tensor q = x.q.detach().clone().requires_grad_(),
                 k = x.k.detach().clone().requires_grad_(),
                 v = x.v.detach().clone().requires_grad_();
    const Tensor y =
        side == 0 ? written_out(q, k, v, mask.dense()) : block_sparse_attention(q, k, v, mask);
    const Tensor go = at::arange(y.numel()).view_as(y).to(y.scalar_type()).mul(0.37).sin();
    sides[side] = torch::autograd::grad({y}, {q, k, v}, {go});
    sides[side].push_back(y.detach());
  }
  double worst = 0;
  for (size_t i = 0; i < sides[0].size(); ++i) {
    EXPECT_FALSE(sides[1][i].isnan().any().item<bool>()) << i;
    worst = std::max(worst, (sides[0][i] - sides[1][i]).abs().max().item<double>());
  }
  return worst;
}

BlockMask random_blocks(const BlockMask& base, int64_t batch, int64_t heads, double share) {
  at::manual_seed(3);
  BlockMask out = base;
  out.keep =
      base.keep.logical_and(at::rand({batch, heads, base.keep.size(2), base.keep.size(3)}) < share);
  return out;
}

TEST(BlockSparseAttention, IsDenseAttentionWithTheMask) {
  const Inputs x = inputs(2, 4, 4, 100, 100);
  EXPECT_LT(difference(x, full_mask(100, 100, 16)), 1e-12);
  EXPECT_LT(difference(x, causal_mask(100, 16)), 1e-12);
  EXPECT_LT(difference(x, sliding_window_mask(100, 21, 16)), 1e-12);
  EXPECT_LT(difference(x, pattern_mask(causal_mask(100, 16), {1, 1, 3, 1})), 1e-12);
  // Its first queries have no key where their block of the diagonal is gone; some rows have none.
  EXPECT_LT(difference(x, random_blocks(causal_mask(100, 16), 2, 4, 0.4)), 1e-12);
}

TEST(BlockSparseAttention, HeadsMayShareKeysAndLengthsDiffer) {
  const Inputs x = inputs(2, 6, 2, 50, 77);
  EXPECT_LT(difference(x, random_blocks(full_mask(50, 77, 16), 1, 6, 0.5)), 1e-12);
  const auto by_head = [](const Tensor& b, const Tensor& h, const Tensor& q, const Tensor& kv) {
    return (q + kv).remainder(h + b + 2) == 0;
  };
  EXPECT_LT(difference(x, make_block_mask(by_head, 50, 77, 16, 2, 6)), 1e-12);
}

TEST(BlockSparseAttention, RowsWithoutKeysAreZerosWithZeroGradients) {
  const Inputs x = inputs(1, 2, 2, 32, 32);
  BlockMask mask = causal_mask(32, 16);
  mask.keep[0][0].fill_(false);
  const Tensor q = x.q.clone().requires_grad_();
  const Tensor y = block_sparse_attention(q, x.k, x.v, mask);
  EXPECT_EQ(y.abs().max().item<double>(), 0);
  EXPECT_EQ(torch::autograd::grad({y.sum()}, {q})[0].abs().max().item<double>(), 0);
}

TEST(BlockSparseAttention, OtherDtypesLayoutsAndModes) {
  const BlockMask mask = random_blocks(causal_mask(96, 32), 1, 2, 0.7);
  for (const auto& [type, bound] : {std::pair(at::kFloat, 1e-5), {at::kBFloat16, 3e-2}}) {
    const Inputs x = inputs(2, 2, 2, 96, 96, type), exact = inputs(2, 2, 2, 96, 96);
    EXPECT_LT(difference({x.q.to(at::kFloat), x.k.to(at::kFloat), x.v.to(at::kFloat)}, mask), 1e-4);
    const c10::InferenceMode inference;
    const auto turned = [](const Tensor& t) {
      return t.transpose(1, 2).contiguous().transpose(1, 2);
    };
    const Tensor y = block_sparse_attention(turned(x.q), turned(x.k), turned(x.v), mask);
    EXPECT_EQ(y.scalar_type(), type);
    const Tensor want = written_out(exact.q, exact.k, exact.v, mask.dense());
    EXPECT_LT((y.to(at::kDouble) - want).abs().max().item<double>(), bound * 3);
  }
}

TEST(BlockSparseAttention, SameBitsForAnyNumberOfThreads) {
  const Inputs x = inputs(1, 2, 2, 128, 128, at::kFloat);
  const BlockMask mask = random_blocks(causal_mask(128, 16), 1, 2, 0.5);
  const int threads = at::get_num_threads();
  const Tensor two = block_sparse_attention(x.q, x.k, x.v, mask);
  at::set_num_threads(1);
  const Tensor one = block_sparse_attention(x.q, x.k, x.v, mask);
  at::set_num_threads(threads);
  EXPECT_TRUE(one.equal(two));
}

TEST(BlockSparseAttention, CompiledAsFlexAttention) {
  const Inputs x = inputs(1, 2, 2, 160, 160, at::kFloat);
  const BlockMask mask = random_blocks(causal_mask(160, 64), 1, 2, 0.6);
  const auto f =
      compile([mask](const Tensor& q, const Tensor& k,
                     const Tensor& v) { return flex_attention(q, k, v, nullptr, mask.mask_mod()); },
              {.fullgraph = true});
  const Tensor want = written_out(x.q, x.k, x.v, mask.dense());
  for (int call = 0; call < 12; ++call) {
    EXPECT_LT((f(x.q, x.k, x.v) - want).abs().max().item<float>(), 1e-5);
    f.wait();
  }
}

TEST(BlockSparseAttention, HasNoSecondDerivative) {
  const Inputs x = inputs(1, 2, 2, 32, 32);
  const Tensor q = x.q.detach().requires_grad_();
  const Tensor y = block_sparse_attention(q, x.k, x.v, causal_mask(32, 16)).sum();
  // The gradient of a sum is a constant, which requires no gradient itself.
  EXPECT_THROW(torch::autograd::grad({y}, {q}, {}, std::nullopt, /*create_graph=*/true),
               c10::NotImplementedError);
}

TEST(BlockSparseAttention, SaysWhatDoesNotFit) {
  const Inputs x = inputs(1, 2, 2, 32, 32);
  const auto text = [&](const auto& call) -> std::string {
    try {
      call();
    } catch (const c10::ValueError& error) {
      return error.what_without_backtrace();
    }
    return "nothing was thrown";
  };
  const auto attend = [&](const BlockMask& mask) {
    return text([&] { block_sparse_attention(x.q, x.k, x.v, mask); });
  };
  EXPECT_NE(attend(causal_mask(48, 16)).find("make the mask for these lengths"), std::string::npos);
  BlockMask mask = causal_mask(32, 16);
  mask.keep = mask.keep.to(at::kInt);
  EXPECT_NE(attend(mask).find("keep Int [1, 1, 2, 2]; expected Bool"), std::string::npos);
  mask = causal_mask(32, 16);
  mask.partial = Tensor();
  EXPECT_NE(attend(mask).find("make it with make_block_mask"), std::string::npos);
  EXPECT_NE(text([&] {
              block_sparse_attention(x.q, x.k.to(at::kFloat), x.v, causal_mask(32, 16));
            }).find("one floating dtype"),
            std::string::npos);
  EXPECT_NE(text([&] { threshold_mask(x.q, x.k, causal_mask(32, 16), 1.5); }).find("mass of 1.5"),
            std::string::npos);
}

}  // namespace
}  // namespace graft::systems
