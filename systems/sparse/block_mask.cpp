#include "systems/sparse/block_mask.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

namespace graft::systems {
namespace {

using at::Tensor;

int64_t blocks_of(int64_t length, int64_t block) {
  return (length + block - 1) / block;
}

/// How many places of `length` each block has, as fp64.
Tensor extents(int64_t length, int64_t block) {
  const int64_t count = blocks_of(length, block);
  Tensor out = at::full({count}, static_cast<double>(block), at::kDouble);
  out[count - 1].fill_(static_cast<double>(length - (count - 1) * block));
  return out;
}

Tensor causal(const Tensor&, const Tensor&, const Tensor& q, const Tensor& kv) {
  return q >= kv;
}

void check_lengths(const char* who, int64_t queries, int64_t keys, int64_t block) {
  TORCH_CHECK_VALUE(queries > 0 && keys > 0 && block > 0, who, ": came ", queries, " queries, ",
                    keys, " keys and blocks of ", block, "; expected numbers from 1 on");
}

}  // namespace

std::string shape_text(const char* name, const Tensor& tensor) {
  std::ostringstream text;
  text << name << ' ';
  if (tensor.defined())
    text << tensor.scalar_type() << ' ' << tensor.sizes();
  else
    text << "undefined";
  return text.str();
}

void check_mask(const char* who, const BlockMask& mask) {
  check_lengths(who, mask.queries, mask.keys, mask.block);
  const int64_t rows = blocks_of(mask.queries, mask.block),
                columns = blocks_of(mask.keys, mask.block);
  const auto fits = [&](const Tensor& t) {
    return t.defined() && t.dim() == 4 && t.scalar_type() == at::kBool && t.is_cpu() &&
           t.size(2) == rows && t.size(3) == columns;
  };
  TORCH_CHECK_VALUE(fits(mask.keep), who, ": the mask has ", shape_text("keep", mask.keep),
                    "; expected Bool (1 or batch, 1 or heads, ", rows, ", ", columns, ") for ",
                    mask.queries, " queries, ", mask.keys, " keys and blocks of ", mask.block,
                    ": make it with make_block_mask or another maker");
  TORCH_CHECK_VALUE(!mask.within || fits(mask.partial), who, ": the mask has `within` and ",
                    shape_text("partial", mask.partial), "; expected Bool like ",
                    shape_text("keep", mask.keep), ": make it with make_block_mask");
}

void check_attention(const char* who, const Tensor& q, const Tensor& k, const Tensor& v,
                     const BlockMask& mask) {
  check_mask(who, mask);
  const Tensor& values = v.defined() ? v : k;
  const auto check = [&](bool holds, const auto&... expected) {
    TORCH_CHECK_VALUE(holds, who, ": came ", shape_text("query", q), ", ", shape_text("key", k),
                      " and ", shape_text("value", v), "; expected ", expected...);
  };
  check(q.defined() && k.defined() && q.dim() == 4 && k.dim() == 4 && values.dim() == 4,
        "(batch, heads, length, width) of each");
  check(q.is_cpu() && q.is_floating_point() && k.scalar_type() == q.scalar_type() &&
            values.scalar_type() == q.scalar_type(),
        "one floating dtype, on the CPU; convert with .to(query.dtype())");
  check(k.size(0) == q.size(0) && values.size(0) == q.size(0), "one size of batch");
  check(k.size(3) == q.size(3), "one width of query and key");
  check(k.size(1) == values.size(1) && k.size(2) == values.size(2), "as many keys as values");
  check(k.size(1) > 0 && q.size(1) % k.size(1) == 0, "heads of keys that divide the heads");
  check(q.size(2) == mask.queries && k.size(2) == mask.keys, mask.queries, " queries and ",
        mask.keys, " keys, as the mask has; make the mask for these lengths");
  const auto broadcasts = [&](const Tensor& t) {
    return (t.size(0) == 1 || t.size(0) == q.size(0)) && (t.size(1) == 1 || t.size(1) == q.size(1));
  };
  check(broadcasts(mask.keep) && (!mask.partial.defined() || broadcasts(mask.partial)),
        "a mask of 1 or as many in batch and heads; it has ", shape_text("keep", mask.keep));
}

Tensor spread_blocks(const Tensor& blocks, const BlockMask& mask) {
  // By views and one copy: compiled, each score's value is then a load, without index arithmetic.
  const int64_t b = mask.block;
  std::vector<int64_t> sizes = blocks.sizes().vec();
  const int64_t rows = sizes[sizes.size() - 2], columns = sizes.back();
  sizes.insert(sizes.end() - 1, b), sizes.push_back(b);
  Tensor out = blocks.unsqueeze(-2).unsqueeze(-1).expand(sizes);
  sizes.resize(sizes.size() - 4);
  sizes.push_back(rows * b), sizes.push_back(columns * b);
  out = out.reshape(sizes);
  if (rows * b != mask.queries) out = out.narrow(-2, 0, mask.queries);
  if (columns * b != mask.keys) out = out.narrow(-1, 0, mask.keys);
  return out;
}

Tensor last_kept(const Tensor& keep) {
  const Tensor behind = keep.to(at::kInt).flip(-1).cumsum(-1).flip(-1);
  return keep.logical_and(behind == 1);
}

Tensor best_share(const Tensor& keep, const Tensor& always, const Tensor& scores, double share) {
  const int64_t all = keep.size(2) * keep.size(3);
  Tensor out = at::zeros(scores.sizes(), at::kBool);
  const Tensor candidates = keep.expand_as(scores), first = always.expand_as(scores);
  const Tensor ranked = scores.masked_fill(first, INFINITY).masked_fill(~candidates, -INFINITY);
  for (int64_t b = 0; b < scores.size(0); ++b)
    for (int64_t h = 0; h < scores.size(1); ++h) {
      const double budget = share * static_cast<double>(candidates[b][h].sum().item<int64_t>());
      const int64_t count =
          std::max<int64_t>(std::llround(budget), first[b][h].sum().item<int64_t>());
      const Tensor best = std::get<1>(ranked[b][h].reshape({all}).topk(count));
      out[b][h].view({all}).index_fill_(0, best, true);
    }
  return out;
}

namespace {

/// Whether indices are those of flex_attention over everything. By their sizes alone: a compiled
/// function has no values to look at while it is recorded.
bool is_whole(const BlockMask& mask, const Tensor& b, const Tensor& h, const Tensor& q,
              const Tensor& kv) {
  const auto fits = [](int64_t size, const Tensor& index) {
    return size == 1 || index.numel() == size;
  };
  return q.numel() == mask.queries && q.dim() > 1 && q.size(-2) == mask.queries &&
         kv.numel() == mask.keys && kv.dim() > 0 && kv.size(-1) == mask.keys &&
         fits(mask.keep.size(0), b) && fits(mask.keep.size(1), h);
}

/// `keep` at some places, as when a part of the scores is asked for.
Tensor looked_up(const BlockMask& mask, const Tensor& b, const Tensor& h, const Tensor& q,
                 const Tensor& kv) {
  const Tensor& keep = mask.keep;
  return at::index(
      keep, {keep.size(0) == 1 ? at::zeros_like(b) : b, keep.size(1) == 1 ? at::zeros_like(h) : h,
             q.floor_divide(mask.block), kv.floor_divide(mask.block)});
}

}  // namespace

double BlockMask::computed_share() const {
  check_mask("computed_share", *this);
  const Tensor scores = extents(queries, block).unsqueeze(1) * extents(keys, block);
  const double kept = (keep.to(at::kDouble) * scores).sum().item<double>();
  return kept / static_cast<double>(keep.size(0) * keep.size(1) * queries * keys);
}

MaskMod BlockMask::mask_mod() const {
  check_mask("mask_mod", *this);
  return [mask = *this](const Tensor& b, const Tensor& h, const Tensor& q, const Tensor& kv) {
    TORCH_CHECK_VALUE(q.numel() <= mask.queries && kv.numel() <= mask.keys, "mask_mod: came ",
                      q.numel(), " queries and ", kv.numel(), " keys for a mask of ", mask.queries,
                      " and ", mask.keys, "; make the mask for these lengths");
    const Tensor kept =
        is_whole(mask, b, h, q, kv) ? spread_blocks(mask.keep, mask) : looked_up(mask, b, h, q, kv);
    return mask.within ? kept.logical_and(mask.within(b, h, q, kv)) : kept;
  };
}

Tensor BlockMask::dense() const {
  const int64_t batch = partial.defined() ? std::max(keep.size(0), partial.size(0)) : keep.size(0);
  const int64_t heads = partial.defined() ? std::max(keep.size(1), partial.size(1)) : keep.size(1);
  return mask_mod()(at::arange(batch).view({-1, 1, 1, 1}), at::arange(heads).view({-1, 1, 1}),
                    at::arange(queries).view({-1, 1}), at::arange(keys));
}

BlockMask make_block_mask(const MaskMod& within, int64_t queries, int64_t keys, int64_t block,
                          int64_t batch, int64_t heads) {
  check_lengths("make_block_mask", queries, keys, block);
  TORCH_CHECK_VALUE(within, "make_block_mask: came no mask; full_mask keeps everything");
  const int64_t rows = blocks_of(queries, block), columns = blocks_of(keys, block);
  BlockMask out{at::zeros({batch, heads, rows, columns}, at::kBool),
                at::zeros({batch, heads, rows, columns}, at::kBool),
                within,
                queries,
                keys,
                block};
  const Tensor b = at::arange(batch).view({-1, 1, 1, 1}), h = at::arange(heads).view({-1, 1, 1}),
               kv = at::arange(keys);
  const Tensor widths = extents(keys, block);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t begin = row * block, end = std::min(queries, begin + block);
    const Tensor mask = within(b, h, at::arange(begin, end).view({-1, 1}), kv);
    TORCH_CHECK_VALUE(mask.defined() && mask.scalar_type() == at::kBool,
                      "make_block_mask: the function gave ", shape_text("a tensor", mask),
                      "; expected Bool that broadcasts to (batch, heads, queries, keys)");
    Tensor kept = mask.expand({batch, heads, end - begin, keys}).sum(2, false, at::kDouble);
    const Tensor rest = at::zeros({batch, heads, columns * block - keys}, at::kDouble);
    kept = at::cat({kept, rest}, 2).view({batch, heads, columns, block}).sum(-1);
    out.keep.select(2, row).copy_(kept > 0);
    out.partial.select(2, row).copy_((kept > 0).logical_and(kept < widths * (end - begin)));
  }
  return out;
}

BlockMask full_mask(int64_t queries, int64_t keys, int64_t block) {
  check_lengths("full_mask", queries, keys, block);
  return {at::ones({1, 1, blocks_of(queries, block), blocks_of(keys, block)}, at::kBool),
          {},
          nullptr,
          queries,
          keys,
          block};
}

BlockMask causal_mask(int64_t length, int64_t block) {
  return make_block_mask(causal, length, length, block);
}

BlockMask sliding_window_mask(int64_t length, int64_t window, int64_t block) {
  TORCH_CHECK_VALUE(window > 0, "sliding_window_mask: came a window of ", window,
                    "; expected at least 1, the query's own place");
  const auto within = [window](const Tensor&, const Tensor&, const Tensor& q, const Tensor& kv) {
    return (q >= kv).logical_and(q - kv < window);
  };
  return make_block_mask(within, length, length, block);
}

BlockMask pattern_mask(const BlockMask& base, const BlockPattern& pattern) {
  check_mask("pattern_mask", base);
  TORCH_CHECK_VALUE(
      pattern.local >= 0 && pattern.global >= 0 && pattern.stride >= 0 && pattern.random >= 0,
      "pattern_mask: came local ", pattern.local, ", global ", pattern.global, ", stride ",
      pattern.stride, ", random ", pattern.random, "; expected numbers from 0 on");
  const int64_t rows = base.keep.size(2), columns = base.keep.size(3);
  const Tensor i = at::arange(rows).view({-1, 1}), j = at::arange(columns);
  Tensor chosen =
      ((i - j).abs() < pattern.local).logical_or(j < pattern.global).logical_or(i < pattern.global);
  if (pattern.stride > 0)
    chosen = chosen.logical_or(j.remainder(pattern.stride) == pattern.stride - 1);
  BlockMask out = base;
  out.keep = base.keep.logical_and(chosen);
  if (pattern.random == 0) return out;
  std::mt19937_64 engine(pattern.seed);
  const Tensor all = base.keep.contiguous().view({-1, columns});
  const Tensor kept = out.keep.view({-1, columns});
  for (int64_t row = 0; row < all.size(0); ++row) {
    std::vector<int64_t> left;
    for (int64_t column = 0; column < columns; ++column)
      if (all[row][column].item<bool>() && !kept[row][column].item<bool>()) left.push_back(column);
    std::shuffle(left.begin(), left.end(), engine);
    left.resize(std::min(left.size(), static_cast<size_t>(pattern.random)));
    for (int64_t column : left) kept[row][column].fill_(true);
  }
  return out;
}

}  // namespace graft::systems
