// What a process of the GPTQ experiment does: quantise a scenario's layers, eagerly or with a
// compiled block, and measure time and memory.
#pragma once

#include <graft/graft.h>

#include <cstddef>
#include <nlohmann/json.hpp>

#include "lab/progress.h"
#include "quantizer/experiment/scenario.h"

namespace graft::cli {

/// Eager passes: a warm-up, `runs` timed ones, and one under the memory tracker, which comes last
/// so that it sees a warm process, as the tracker of the compiled passes does. A pass quantises
/// every layer.
nlohmann::json measure_gptq_baseline(const GptqScenario& scenario, int runs,
                                     lab::Progress& progress);
constexpr size_t gptq_baseline_steps(int runs) {
  return 2 + static_cast<size_t>(runs);
}

/// One eager pass to warm up BLAS and the allocator; a cold pass with a function that was never
/// called; passes until it is compiled and proven (three at most); `runs` warm passes; one pass
/// under the memory tracker.
nlohmann::json measure_gptq_compiled(const GptqScenario& scenario, int runs,
                                     lab::Progress& progress);
constexpr size_t gptq_compiled_steps(int runs) {
  return 4 + static_cast<size_t>(runs);
}

/// The options with which every process of the experiment compiles quantize_block.
graft::Options gptq_compile_options();
nlohmann::json gptq_counters(const Report& report);

}  // namespace graft::cli
