// Steps of torch::optim's optimizers inside compiled functions. libtorch's own code runs in the
// recorded call; the numbers that it computes on the host (a rate, corrections by the count of
// steps) become tensors, which get their values anew before each call that a plan serves.
#pragma once

#include <cstdint>
#include <memory>

namespace torch::optim {
class Optimizer;
}

namespace graft::optim {

/// While alive, the step that this thread makes is `optimizer`'s, which is gone when `owner` is.
/// Other steps' optimizers are found on the stack.
class KnownStep {
 public:
  KnownStep(torch::optim::Optimizer& optimizer, std::weak_ptr<void> owner);
  ~KnownStep();
  KnownStep(const KnownStep&) = delete;
  KnownStep& operator=(const KnownStep&) = delete;

  torch::optim::Optimizer& optimizer;
  const std::weak_ptr<void> owner;
  const uint64_t number;  ///< each has its own

 private:
  const KnownStep* const before_;
};

}  // namespace graft::optim
