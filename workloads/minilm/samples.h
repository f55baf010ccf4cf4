// MiniLM's regions one at a time, each with the inputs that it gets in the model.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "graft/workload.h"
#include "workloads/minilm/model.h"
#include "workloads/minilm/regions.h"

namespace graft::workloads::minilm {

struct RegionSample {
  std::string name;              ///< as in Regions::compiled_functions
  int64_t calls_per_encode = 1;  ///< calls in one MiniLM::encode
  Instance instance;             ///< the region on the inputs of its first call
};

/// Encodes eagerly once, and keeps the inputs of each region that `cut` and `attention` would
/// compile.
std::vector<RegionSample> region_samples(const MiniLM& model, const at::Tensor& ids,
                                         const at::Tensor& mask, Cut cut, Attention attention);

}  // namespace graft::workloads::minilm
