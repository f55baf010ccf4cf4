#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "systems/sequence/exchange.h"

namespace graft::systems {
namespace {

int next_of(const Group& group) {
  return (group.rank() + 1) % group.size();
}
int previous_of(const Group& group) {
  return (group.rank() + group.size() - 1) % group.size();
}

/// While `work` has a block, the one after is received and it is sent on.
void for_each_block(const at::Tensor& k, const at::Tensor& v, Group& group,
                    const std::function<void(int, const at::Tensor&)>& work) {
  const int size = group.size();
  at::Tensor block = at::stack({k, v}), after;
  if (size > 1) after = at::empty_like(block);
  for (int step = 0; step < size; ++step) {
    Pending receiving, sending;
    if (step + 1 < size) {
      receiving = group.start_receive(after, previous_of(group));
      sending = group.start_send(block, next_of(group));
    }
    work((group.rank() - step + size) % size, block);
    receiving.wait();
    sending.wait();
    std::swap(block, after);
  }
}

/// The gradients of a block travel with it: each process adds its part, and after as many steps as
/// there are processes they are back at the block's owner.
Gradients backward(const QuerySide& query, const at::Tensor& k, const at::Tensor& v, Group& group,
                   const SequenceOptions& options) {
  const auto sum_options = query.q.options().dtype(sum_type(query.q.scalar_type()));
  const at::Tensor grad_q = at::zeros(query.q.sizes(), sum_options);
  at::Tensor sums, arrived;
  Pending sending, arriving;
  for_each_block(k, v, group, [&](int owner, const at::Tensor& block) {
    const at::Tensor own = at::zeros(block.sizes(), sum_options);
    add_gradients(query, block, piece_of(group.rank(), owner, query.q.size(2), options), options,
                  grad_q, own);
    arriving.wait();
    if (arrived.defined()) own.add_(arrived);
    sending.wait();
    sums = own;
    if (group.size() == 1) return;
    if (!arrived.defined()) arrived = at::empty_like(own);
    // Posted here, and not when it is needed, so that both neighbours see one order of messages:
    // keys, gradients, keys, ...
    sending = group.start_send(sums, next_of(group));
    arriving = group.start_receive(arrived, previous_of(group));
  });
  arriving.wait();
  sending.wait();
  const at::Tensor& home = group.size() == 1 ? sums : arrived;
  return {grad_q, home[0], home[1]};
}

}  // namespace

const Exchange kRing{"ring_attention", for_each_block, backward};

}  // namespace graft::systems
