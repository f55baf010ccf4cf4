// The ordered, named, timed list of passes from a loop program to a schedule, verified between
// passes. Two tables in pipeline.cpp hold it: passes over the program, then fuse, which makes
// kernels of the program, then passes over the schedule.
#pragma once

#include <string>
#include <vector>

#include "ir/kernel.h"
#include "ir/program.h"
#include "passes/decider.h"
#include "passes/settings.h"

namespace graft::passes {

struct PassRecord {
  std::string name;
  double milliseconds = 0;
  // If Settings::keep_text:
  std::string after;  ///< the printed program or schedule
  std::vector<Decision> decisions = {};
};

/// Throws std::logic_error naming the pass after which the program or schedule is malformed.
ir::Schedule run(ir::Program program, const Settings& settings,
                 std::vector<PassRecord>* records = nullptr);

struct PassName {
  const char* name;
  bool optional;  ///< may be left out by Settings::skip; results stay the same
  const char* what;
};
/// All passes, in the order in which they run.
const std::vector<PassName>& list();

}  // namespace graft::passes
