// The workloads that come with Graft: the regions of tools/peers/inductor.py, programs that loop,
// and the sets `wild`, `training`, `attention`, `decode`, `models` and `systems`.
#pragma once

#include <cstdint>
#include <vector>

#include "graft/workload.h"

namespace graft::workloads {

/// FLOPs of exp, log, tanh, erf, sin or atan2: a reduction of the range and a polynomial of degree
/// 6, in multiply-adds. A division, a square root and a comparison count as one FLOP.
constexpr int64_t kFunction = 16;

/// Tolerance of the set `training`: gradients are sums that are added in another order.
constexpr double kSums = 2e-5;
/// AdamW divides a gradient by its size: the sign of what rounding left is a step.
constexpr double kSteps = 5e-3;

std::vector<Workload> region_cases();
std::vector<Workload> loop_cases();
std::vector<Workload> wild_cases();
std::vector<Workload> training_cases();
std::vector<Workload> step_cases();
std::vector<Workload> attention_cases();
std::vector<Workload> decode_cases();
std::vector<Workload> model_cases();
std::vector<Workload> llama_cases();
std::vector<Workload> component_cases();
std::vector<Workload> language_model_cases();

}  // namespace graft::workloads
