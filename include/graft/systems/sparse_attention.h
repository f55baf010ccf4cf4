// Attention that computes only some blocks of its scores.
//
//     BlockMask causal = causal_mask(2048);                       // the blocks below the diagonal
//     BlockMask tenth = top_blocks_mask(q, k, causal, 0.2);       // of those, a fifth, by data
//     at::Tensor y = block_sparse_attention(q, k, v, tenth);      // differentiable
//
//     auto f = graft::compile([=](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
//       return graft::flex_attention(q, k, v, nullptr, tenth.mask_mod());
//     });
//
// block_sparse_attention computes the kept blocks and no others, eagerly. Its kernel runs on
// ATen's threads, which Graft does not record; a compiled function uses mask_mod() instead, and
// Graft's attention tiles (64 queries each) skip columns that the mask leaves out of a whole tile.
//
// Shapes, throughout: query (batch, heads, queries, width), key (batch, heads of keys, keys,
// width), value (batch, heads of keys, keys, width of values), on the CPU, of one floating dtype.
// Heads of keys divide heads; neighbouring heads share one (grouped queries).
//
// Errors: c10::ValueError for shapes, dtypes and numbers that do not fit, with what came and what
// was expected. Thread-safety: all functions may run at once on tensors that nobody changes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "graft/attention.h"
#include "graft/export.h"

namespace graft::systems {

/// Which blocks of scores are computed, and which scores within them count.
struct GRAFT_API BlockMask {
  /// Bool (1 or batch, 1 or heads, blocks of queries, blocks of keys), on the CPU.
  at::Tensor keep;
  /// Bool, broadcasts to `keep`: blocks of which `within` leaves scores out. May be undefined
  /// where `within` is null.
  at::Tensor partial;
  /// Which scores of the partial blocks count; null: all. Gets int64 indices, as in
  /// graft::flex_attention, and must not depend on what requires grad. block_sparse_attention
  /// calls it on ATen's threads, several at once.
  MaskMod within;
  int64_t queries = 0, keys = 0;
  int64_t block = 64;  ///< queries, and keys, of a block; the last ones may be shorter

  /// Kept blocks, as a share of all: of queries * keys scores, averaged over batch and heads. The
  /// FLOPs that a mask removes of another's are 1 - a.computed_share() / b.computed_share().
  double computed_share() const;
  /// Score by score: Bool (1 or batch, 1 or heads, queries, keys).
  at::Tensor dense() const;
  /// The same as a function for graft::flex_attention over these queries and keys. Indices as many
  /// as there are queries and keys are taken for 0, 1, and so on; fewer are looked up.
  MaskMod mask_mod() const;
};

/// Blocks of which `within` keeps something. Evaluates it once on everything, a row of blocks at a
/// time. `batch`, `heads`: 1 where it does not depend on them.
GRAFT_API BlockMask make_block_mask(const MaskMod& within, int64_t queries, int64_t keys,
                                    int64_t block = 64, int64_t batch = 1, int64_t heads = 1);
/// Everything.
GRAFT_API BlockMask full_mask(int64_t queries, int64_t keys, int64_t block = 64);
/// Keys up to the query's own place.
GRAFT_API BlockMask causal_mask(int64_t length, int64_t block = 64);
/// The last `window` keys up to the query's own place.
GRAFT_API BlockMask sliding_window_mask(int64_t length, int64_t window, int64_t block = 64);

/// Blocks by their place (Sparse Transformer, Longformer, BigBird). What any field keeps is kept.
struct BlockPattern {
  int64_t local = 1;   ///< blocks less than so many away from the query's
  int64_t global = 1;  ///< the first blocks: every query reads them, and they read every key
  int64_t stride = 0;  ///< each last block of so many; 0: none
  int64_t random = 0;  ///< so many more of a row, drawn with `seed`
  uint64_t seed = 0;
};
/// Of the blocks that `base` keeps, those of the pattern.
GRAFT_API BlockMask pattern_mask(const BlockMask& base, const BlockPattern& pattern);

/// Blocks by data. Queries and keys are averaged over each block, and a softmax of the averages'
/// products, over the blocks that `base` keeps in a row, estimates each block's mass. The last
/// block of a row is always kept: under a causal mask some of its queries have no key elsewhere.
/// No gradient flows through the choice.
///
/// In each row, the fewest blocks whose masses sum to `mass`, in (0, 1].
GRAFT_API BlockMask threshold_mask(const at::Tensor& query, const at::Tensor& key,
                                   const BlockMask& base, double mass);
/// In each head, the share `keep`, in (0, 1], of the blocks that `base` keeps, those of the most
/// mass; more where the last blocks of the rows are more already.
GRAFT_API BlockMask top_blocks_mask(const at::Tensor& query, const at::Tensor& key,
                                    const BlockMask& base, double keep);

/// softmax(query key^T * scale where the mask, else -inf) value, of the kept blocks only. A query
/// whose every key is left out gets zeros. Differentiable once in query, key and value:
/// throws in a backward with create_graph. Products and sums are fp32 (fp64 for double), the result
/// has the query's dtype. `scale`: 1 / sqrt(width) when absent. Result: (batch, heads, queries,
/// width of values).
GRAFT_API at::Tensor block_sparse_attention(const at::Tensor& query, const at::Tensor& key,
                                            const at::Tensor& value, const BlockMask& mask,
                                            std::optional<double> scale = std::nullopt);

/// A mask that is learned: a gate per head and block, trained beside the model, then hardened.
/// Not thread-safe while it is trained.
class GRAFT_API BlockGate {
 public:
  /// All gates open: each probability is sigmoid(`start`), `start` above 0.
  BlockGate(const BlockMask& base, int64_t heads, double start = 1);

  /// (heads, blocks of queries, blocks of keys), fp32, a leaf that requires grad.
  const at::Tensor& logits() const { return logits_; }
  /// Dense attention whose blocks with a probability below one half are left out. Gradients pass
  /// the decision as if it were the probability (straight-through). The last block of a row is
  /// always open. Costs more than dense attention: it is for training the gates.
  at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                       std::optional<double> scale = std::nullopt) const;
  /// The mean probability over base's blocks, less `keep`, squared; 0 below it. To add to the loss.
  at::Tensor penalty(double keep) const;
  /// In each head, the share `keep` of base's blocks with the highest logits, and the last block
  /// of each row.
  BlockMask harden(double keep) const;

 private:
  BlockMask base_;
  at::Tensor logits_;
};

}  // namespace graft::systems
