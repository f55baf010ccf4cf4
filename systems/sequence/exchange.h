// How a process comes by the other processes' keys and values, forward and backward.
#pragma once

#include <ATen/core/Tensor.h>

#include "systems/sequence/partial.h"

namespace graft::systems {

struct Attended {
  at::Tensor out, logsumexp;  ///< over the whole sequence, of the local queries
};

struct Gradients {
  at::Tensor q, k, v;
};

/// Both functions communicate in the same order on every process.
struct Exchange {
  const char* name;  ///< of the public function, for messages
  Attended (*forward)(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, Group& group,
                      const SequenceOptions& options);
  Gradients (*backward)(const QuerySide& query, const at::Tensor& k, const at::Tensor& v,
                        Group& group, const SequenceOptions& options);
};

extern const Exchange kRing, kGathered;

}  // namespace graft::systems
