// Runs a step of the GPTQ experiment in a process of its own, so that nothing that ran before warms
// its caches.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "quantizer/experiment/scenario.h"

namespace CLI {
class App;
}

namespace graft::cli {

struct GptqStep {
  std::string what;  ///< "baseline", "compiled", "numerical-check" or "memory-sentinel"
  GptqChoice choice;
  int runs = 0;
  int threads = 0;
};

/// Starts this program again for the step, waits, and returns its results. Its progress goes to
/// stderr. Throws std::runtime_error with the step's own error, or with how its process ended.
nlohmann::json run_gptq_step(const GptqStep& step);

/// Adds the hidden subcommand that such a process runs.
void add_gptq_child(CLI::App& app);

}  // namespace graft::cli
