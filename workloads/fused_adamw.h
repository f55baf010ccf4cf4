// ATen's fused AdamW beside the workloads that write it out.
#pragma once

#include <functional>

#include "graft/workload.h"

namespace graft::workloads {

/// One call for all parameters, in place on copies of the lists, with a rate of 1e-3 and a decay of
/// 0.01; it has its own rounding. `outputs` arranges parameters, first and second moments after a
/// step.
Call fused_adamw(const Tensors& parameters, const Tensors& gradients, const Tensors& first,
                 const Tensors& second, double beta2,
                 std::function<Tensors(const Tensors&, const Tensors&, const Tensors&)> outputs);

}  // namespace graft::workloads
