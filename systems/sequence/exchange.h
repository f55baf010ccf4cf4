// How a process comes by the other processes' keys and values, forward and backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "systems/sequence/partial.h"

namespace graft::systems {

struct Gradients {
  at::Tensor q, k, v;
};

/// Both functions communicate in the same order on every process.
struct Exchange {
  const char* name;  ///< of the public function, for messages
  /// Calls `work(owner, block)` with the keys and values of every process, this one's first.
  void (*for_each_block)(const at::Tensor& k, const at::Tensor& v, Group& group,
                         const std::function<void(int, const at::Tensor&)>& work);
  Gradients (*backward)(const QuerySide& query, const at::Tensor& k, const at::Tensor& v,
                        Group& group, const SequenceOptions& options);
};

extern const Exchange kRing, kGathered;

}  // namespace graft::systems
