#include "systems/sequence/partial.h"

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/sigmoid.h>

#include <tuple>

namespace graft::systems {
namespace {

struct Keys {
  at::Tensor k, v;
};

/// The keys and values of a piece, each head as often as heads of queries share it.
Keys keys_of(const at::Tensor& block, const Piece& piece, int64_t heads) {
  const at::Tensor part = block.narrow(3, piece.key_begin, piece.keys);
  const int64_t shared = heads / block.size(2);
  if (shared == 1) return {part[0], part[1]};
  const auto repeated = [&](const at::Tensor& x) {
    return x.unsqueeze(2)
        .expand({x.size(0), x.size(1), shared, x.size(2), x.size(3)})
        .reshape({x.size(0), heads, x.size(2), x.size(3)});
  };
  return {repeated(part[0]), repeated(part[1])};
}

/// The inverse of the repetition, for gradients: heads of queries that share keys are summed.
void add_shared(const at::Tensor& into, const at::Tensor& grad) {
  const int64_t heads = into.size(1), shared = grad.size(1) / heads;
  if (shared == 1) {
    into.add_(grad);
    return;
  }
  into.add_(grad.to(into.scalar_type())
                .reshape({grad.size(0), heads, shared, grad.size(2), grad.size(3)})
                .sum(2));
}

at::Tensor queries_of(const at::Tensor& x, const Piece& piece) {
  return x.narrow(2, piece.query_begin, piece.queries);
}

}  // namespace

at::ScalarType sum_type(at::ScalarType type) {
  return at::toOpMathType(type);
}

void PartialAttention::add(const at::Tensor& block, const Piece& piece) {
  if (piece.queries == 0) return;
  const auto [k, v] = keys_of(block, piece, q_.size(1));
  const auto [out, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
      queries_of(q_, piece), k, v, 0.0, piece.triangle, std::nullopt, options_.scale);
  if (!out_.defined()) {
    out_ = out.to(sum_type(q_.scalar_type()));
    logsumexp_ = logsumexp;
    return;
  }
  // Two softmax results over disjoint keys: each counts by its share of the sum of exp(score),
  // e^new / (e^old + e^new), and the logarithms of the sums add.
  const at::Tensor old = queries_of(logsumexp_, piece);
  queries_of(out_, piece)
      .lerp_(out.to(out_.scalar_type()), at::sigmoid(logsumexp - old).unsqueeze(-1));
  old.copy_(at::logaddexp(old, logsumexp));
}

void add_gradients(const QuerySide& query, const at::Tensor& block, const Piece& piece,
                   const SequenceOptions& options, const at::Tensor& grad_q,
                   const at::Tensor& grad_block) {
  if (piece.queries == 0) return;
  const auto [k, v] = keys_of(block, piece, query.q.size(1));
  // With the sums over all keys the kernel's probabilities are the final ones, so that the
  // gradients of the blocks are simply added (Dao 2023, "FlashAttention-2").
  const auto [of_q, of_k, of_v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      queries_of(query.grad_out, piece), queries_of(query.q, piece), k, v,
      queries_of(query.out, piece), queries_of(query.logsumexp, piece), 0.0, piece.triangle,
      std::nullopt, options.scale);
  queries_of(grad_q, piece).add_(of_q);
  const at::Tensor into = grad_block.narrow(3, piece.key_begin, piece.keys);
  add_shared(into[0], of_k);
  add_shared(into[1], of_v);
}

}  // namespace graft::systems
