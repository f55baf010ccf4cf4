// Masks that follow from data: estimated from pooled queries and keys, or learned.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <vector>

#include "systems/sparse/block_mask.h"

namespace graft::systems {
namespace {

using at::Tensor;

/// The mean of each block of rows, in fp32: (batch, heads, blocks, width).
Tensor pooled(const Tensor& x, int64_t block) {
  const int64_t whole = x.size(2) / block, rest = x.size(2) % block;
  std::vector<Tensor> parts;
  const Tensor f = x.to(at::kFloat);
  if (whole > 0)
    parts.push_back(f.narrow(2, 0, whole * block).unflatten(2, {whole, block}).mean(3));
  if (rest > 0) parts.push_back(f.narrow(2, whole * block, rest).mean(2, /*keepdim=*/true));
  return at::cat(parts, 2);
}

/// Each block's estimated share of its row's attention; rows without blocks are 0.
Tensor masses(const Tensor& query, const Tensor& key, const BlockMask& base) {
  const int64_t each = query.size(1) / key.size(1);
  const Tensor q = pooled(query, base.block),
               k = pooled(key, base.block).repeat_interleave(each, 1);
  const Tensor scores =
      at::matmul(q, k.transpose(-2, -1)) / std::sqrt(static_cast<double>(query.size(3)));
  return at::softmax(scores.masked_fill(~base.keep, -INFINITY), -1).nan_to_num(0);
}

}  // namespace

BlockMask threshold_mask(const Tensor& query, const Tensor& key, const BlockMask& base,
                         double mass) {
  check_attention("threshold_mask", query, key, {}, base);
  TORCH_CHECK_VALUE(mass > 0 && mass <= 1, "threshold_mask: came a mass of ", mass,
                    "; expected a share in (0, 1], as 0.95");
  const c10::AutoGradMode no_grad(false);
  const Tensor estimate = masses(query, key, base);
  const auto [sorted, order] = estimate.sort(-1, /*descending=*/true);
  // A block is needed while those before it have not reached the mass.
  const Tensor needed = (sorted.cumsum(-1) - sorted) < mass;
  const Tensor chosen = at::zeros(estimate.sizes(), at::kBool).scatter_(-1, order, needed);
  BlockMask out = base;
  out.keep = chosen.logical_or(last_kept(base.keep)).logical_and(base.keep);
  return out;
}

BlockMask top_blocks_mask(const Tensor& query, const Tensor& key, const BlockMask& base,
                          double keep) {
  check_attention("top_blocks_mask", query, key, {}, base);
  TORCH_CHECK_VALUE(keep > 0 && keep <= 1, "top_blocks_mask: came a share of ", keep,
                    "; expected one in (0, 1], as 0.25");
  const c10::AutoGradMode no_grad(false);
  BlockMask out = base;
  out.keep = best_share(base.keep, last_kept(base.keep), masses(query, key, base), keep);
  return out;
}

BlockGate::BlockGate(const BlockMask& base, int64_t heads, double start) : base_(base) {
  check_mask("BlockGate", base);
  TORCH_CHECK_VALUE(
      base.keep.size(0) == 1 && (base.keep.size(1) == 1 || base.keep.size(1) == heads),
      "BlockGate: came ", shape_text("a mask with keep", base.keep), " for ", heads,
      " heads; expected (1, 1 or heads, …): gates do not depend on the batch");
  TORCH_CHECK_VALUE(start > 0, "BlockGate: came a start of ", start,
                    "; expected a logit above 0, so that all gates are open");
  logits_ = at::full({heads, base.keep.size(2), base.keep.size(3)}, start, at::kFloat);
  logits_.set_requires_grad(true);
}

Tensor BlockGate::attention(const Tensor& query, const Tensor& key, const Tensor& value,
                            std::optional<double> scale) const {
  check_attention("BlockGate::attention", query, key, value, base_);
  TORCH_CHECK_VALUE(query.size(1) == logits_.size(0), "BlockGate::attention: came ",
                    shape_text("query", query), "; the gates are for ", logits_.size(0), " heads");
  const Tensor probability = at::sigmoid(logits_).unsqueeze(0), always = last_kept(base_.keep);
  const Tensor open = (probability > 0.5).to(at::kFloat);
  const Tensor gate = (open + probability - probability.detach()).masked_fill(always, 1);
  const int64_t each = query.size(1) / key.size(1);
  const Tensor k = key.repeat_interleave(each, 1), v = value.repeat_interleave(each, 1);
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(3))));
  const Tensor scores =
      (at::matmul(query, k.transpose(-2, -1)) * factor).masked_fill(~base_.dense(), -INFINITY);
  const Tensor weights =
      at::softmax(scores, -1).nan_to_num(0) * spread_blocks(gate, base_).to(query.scalar_type());
  // Where open blocks have next to no mass, the quotient's gradient would be without bound.
  return at::matmul(weights / weights.sum(-1, /*keepdim=*/true).clamp_min(1e-6), v);
}

Tensor BlockGate::penalty(double keep) const {
  const Tensor mine = base_.keep.squeeze(0).expand_as(logits_);
  const Tensor mean = at::sigmoid(logits_).masked_select(mine).mean();
  return (mean - keep).clamp_min(0).square();
}

BlockMask BlockGate::harden(double keep) const {
  TORCH_CHECK_VALUE(keep > 0 && keep <= 1, "BlockGate::harden: came a share of ", keep,
                    "; expected one in (0, 1], as 0.25");
  const c10::AutoGradMode no_grad(false);
  BlockMask out = base_;
  out.keep = best_share(base_.keep, last_kept(base_.keep), logits_.unsqueeze(0), keep);
  return out;
}

}  // namespace graft::systems
