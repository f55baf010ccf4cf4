// Makes a failing program smaller.
#pragma once

#include <string>

#include "fuzz/program.h"
#include "fuzz/worker.h"

namespace graft::fuzz {

/// What came of a program run in a forked child, so that a crash or a hang costs only the child.
struct Trial {
  bool failed = false;
  std::string what;  ///< the difference, or "crashed: Segmentation fault", or "hung"
};
/// The calling process must never have run a parallel loop: a fork loses the pool's threads.
Trial try_in_child(const Program& program, const Config& config);

/// Drops steps, results and calls as long as the program still fails. `what` becomes the last
/// failure's text.
Program reduce(Program program, const Config& config, std::string& what);

}  // namespace graft::fuzz
