// The workloads that come with Graft: the regions of tools/peers/inductor.py, programs that loop,
// and the sets `wild` and `training`.
#pragma once

#include <vector>

#include "graft/workload.h"

namespace graft::workloads {

std::vector<Workload> region_cases();
std::vector<Workload> loop_cases();
std::vector<Workload> wild_cases();
std::vector<Workload> training_cases();

}  // namespace graft::workloads
