// A training step in several processes. `graft launch -n 2 ./several_processes` starts two; without
// it two threads are the processes.
#include <graft/graft.h>
#include <graft/systems/data_parallel.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstdlib>
#include <iostream>

namespace {

void train(const std::shared_ptr<graft::systems::Group>& group) {
  at::Tensor w = at::full({8, 8}, 0.1 * (1 + group->rank())).requires_grad_();
  graft::systems::DataParallel parallel({w}, group);  // all have process 0's values now
  auto step = graft::compile([&](const at::Tensor& x) {
    w.mutable_grad().reset();
    at::Tensor loss = x.mm(w).square().mean();
    loss.backward();
    parallel.average_gradients();
    const at::NoGradGuard no_grad;
    w.sub_(w.grad(), 0.1);
    return loss.detach();
  });
  at::Tensor loss;
  for (int k = 0; k < 5; ++k) loss = parallel.average(step(at::full({4, 8}, 1.0 + group->rank())));
  if (group->rank() == 0) std::cout << "loss of " << group->size() << ": " << loss.item() << '\n';
}

}  // namespace

int main() {
  if (std::getenv("WORLD_SIZE") != nullptr) {
    train(graft::systems::Group::join());
    return 0;
  }
  graft::systems::run_ranks(2,
                            [](graft::systems::Group& group) { train(group.shared_from_this()); });
}
