// Attention over a sequence that several processes share: context parallelism.
//
//     at::Tensor q = split_sequence(whole_q, 2, group.rank(), group.size());  // k and v likewise
//     at::Tensor out = ring_attention(q, k, v, group, {.causal = true});  // of this part's queries
//
// Every process holds a part of the sequence, of queries, keys and values alike. Keys and values
// go round the ring of processes; each computes what its queries get from the block that is there
// while the next block is on its way (Liu, Zaharia and Abbeel 2023, "Ring Attention with
// Blockwise Transformers"). Partial results are merged by the logarithms of their softmax sums. No
// scores are kept: a process's memory grows with its part of the sequence and nothing else.
#pragma once

#include <ATen/core/Tensor.h>
#include <graft/export.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "graft/systems/processes.h"

namespace graft::systems {

/// Which tokens a process holds, of `size` processes.
enum class Split {
  /// The sequence in 2 `size` chunks; rank r has chunks r and 2 size - 1 - r, in this order. Under
  /// a causal mask all have equally much to compute.
  ZigZag,
  /// The r-th of `size` chunks. Under a causal mask the last process has most to compute, and the
  /// others wait for it.
  Contiguous,
};

struct SequenceOptions {
  /// A query sees the keys up to its own position in the whole sequence.
  bool causal = false;
  /// Of the scores; absent: 1 / sqrt(width).
  std::optional<double> scale = std::nullopt;
  /// How the sequence was split. It makes no difference to the result without a causal mask.
  Split split = Split::ZigZag;
};

/// softmax(q k^T scale) v over the whole sequence, for this process's queries.
///
/// `q`: (batch, heads, local length, width); `k` and `v`: (batch, heads of keys, local length,
/// width), of one floating dtype (fp64, fp32, bf16, fp16) of the CPU. Where there are fewer heads
/// of keys, as many neighbouring heads of queries share one; their number must divide that of
/// heads. Result: as `q`. All processes must call it with the same sizes, dtype and options.
///
/// Differentiable once. The backward communicates, too: all processes must run it, in the same
/// order among their other collectives, and the group must live until then. Partial results are
/// merged in fp32 (fp64 for fp64), gradients are summed in it.
///
/// Sent by each process, of n: (n - 1) blocks of keys and values; the backward sends these again
/// and n blocks of their gradients in the dtype that sums have. Memory beside arguments and
/// results: two blocks of keys and values, and in the dtype of sums the result, or in the backward
/// the queries' gradients and three blocks of those of keys and values.
///
/// Throws c10::ValueError on every process when the arguments of one do not fit, GroupError where
/// communication fails. As thread-safe as the group: one call at a time.
GRAFT_API at::Tensor ring_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                    Group& group, const SequenceOptions& options = {});

/// The same result by the simplest way: all keys and values are gathered first. Each process holds
/// those of the whole sequence, and nothing is computed while they come. The backward sums the
/// gradients of all keys and values over the group.
GRAFT_API at::Tensor gathered_attention(const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& v, Group& group,
                                        const SequenceOptions& options = {});

/// A copy of a process's part of `whole`, whose dimension `dim` is the sequence; differentiable.
/// Throws c10::ValueError for a length that 2 `size` (contiguous: `size`) does not divide: pad it
/// first.
GRAFT_API at::Tensor split_sequence(const at::Tensor& whole, int64_t dim, int rank, int size,
                                    Split split = Split::ZigZag);
/// The whole of the parts of all ranks, in their order; differentiable.
GRAFT_API at::Tensor join_sequence(const std::vector<at::Tensor>& parts, int64_t dim,
                                   Split split = Split::ZigZag);
/// The same of every process's `part`, on every process. A constant to autograd.
GRAFT_API at::Tensor join_sequence(const at::Tensor& part, int64_t dim, Group& group,
                                   Split split = Split::ZigZag);
/// The positions in the whole sequence of the `local_length` tokens of a process, as int64: for
/// position embeddings.
GRAFT_API at::Tensor sequence_positions(int64_t local_length, int rank, int size,
                                        Split split = Split::ZigZag);

/// Scores that a process computes in one forward: the work that the split shall balance. The
/// triangle of a causal block counts half.
GRAFT_API int64_t scores_of_process(int64_t local_length, int rank, int size,
                                    const SequenceOptions& options);

}  // namespace graft::systems
