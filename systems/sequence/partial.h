// Attention to one block of keys, by ATen's fused kernels, and how such parts add up.
#pragma once

#include <ATen/core/Tensor.h>

#include "systems/sequence/pieces.h"

namespace graft::systems {

/// The sums over blocks of keys so far, of one process's queries.
class PartialAttention {
 public:
  PartialAttention(const at::Tensor& q, const SequenceOptions& options)
      : q_(q), options_(options) {}

  /// Adds what the queries of `piece` get from its keys. The first piece must have every query.
  /// `block`: keys and values, (2, batch, heads of keys, length, width).
  void add(const at::Tensor& block, const Piece& piece);

  at::Tensor out() const { return out_.to(q_.scalar_type()); }
  /// log of the sum of exp(score), (batch, heads, length).
  const at::Tensor& logsumexp() const { return logsumexp_; }

 private:
  at::Tensor q_;
  SequenceOptions options_;
  at::Tensor out_, logsumexp_;  // in the dtype of sums
};

/// What the backward knows of a process's queries.
struct QuerySide {
  at::Tensor q, out, logsumexp, grad_out;  ///< out and logsumexp over all keys
};

/// Adds the gradients from one piece of scores. `grad_q`: as q; `grad_block`: as `block`; both in
/// the dtype of sums.
void add_gradients(const QuerySide& query, const at::Tensor& block, const Piece& piece,
                   const SequenceOptions& options, const at::Tensor& grad_q,
                   const at::Tensor& grad_block);

/// fp32, or fp64 for fp64.
at::ScalarType sum_type(at::ScalarType type);

}  // namespace graft::systems
