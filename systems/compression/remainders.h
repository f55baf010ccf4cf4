// Error feedback: what a process did not send of a bucket's gradient is added to the next one.
#pragma once

#include <ATen/ops/zeros_like.h>

#include <unordered_map>

namespace graft::systems {

class Remainders {
 public:
  /// The gradient and what was left of the ones before. The caller leaves in it what it does not
  /// send.
  at::Tensor added_to(const at::Tensor& gradient, size_t bucket) {
    at::Tensor& left = of_buckets_[bucket];
    if (!left.defined()) left = at::zeros_like(gradient);
    return left.add_(gradient);
  }
  void forget(size_t bucket) { of_buckets_.erase(bucket); }

 private:
  std::unordered_map<size_t, at::Tensor> of_buckets_;
};

}  // namespace graft::systems
