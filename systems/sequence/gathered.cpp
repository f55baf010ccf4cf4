#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "systems/sequence/exchange.h"

namespace graft::systems {
namespace {

void for_each_block(const at::Tensor& k, const at::Tensor& v, Group& group,
                    const std::function<void(int, const at::Tensor&)>& work) {
  const at::Tensor all = group.all_gather(at::stack({k, v}));
  const int size = group.size();
  for (int step = 0; step < size; ++step) {
    const int owner = (group.rank() - step + size) % size;
    work(owner, all[owner]);
  }
}

Gradients backward(const QuerySide& query, const at::Tensor& k, const at::Tensor& v, Group& group,
                   const SequenceOptions& options) {
  const auto sum_options = query.q.options().dtype(sum_type(query.q.scalar_type()));
  const at::Tensor grad_q = at::zeros(query.q.sizes(), sum_options);
  const at::Tensor grads =
      at::zeros({group.size(), 2, k.size(0), k.size(1), k.size(2), k.size(3)}, sum_options);
  for_each_block(k, v, group, [&](int owner, const at::Tensor& block) {
    add_gradients(query, block, piece_of(group.rank(), owner, query.q.size(2), options), options,
                  grad_q, grads[owner]);
  });
  group.all_reduce(grads);
  // A copy, so that the gradients of the whole sequence do not live on in a view.
  const at::Tensor own = grads[group.rank()].clone();
  return {grad_q, own[0], own[1]};
}

}  // namespace

const Exchange kGathered{"gathered_attention", for_each_block, backward};

}  // namespace graft::systems
