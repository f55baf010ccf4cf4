// The ordered, named, timed list of passes from a loop program to a schedule, verified between
// passes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/kernel.h"
#include "ir/program.h"
#include "ir/target.h"

namespace graft::passes {

struct PassRecord {
  std::string name;
  double milliseconds = 0;
  std::string after;  ///< the printed program, if Settings::keep_text
};

struct Settings {
  ir::Target target;
  bool fast = false;              ///< Numerics::Fast: run `keep-wide`
  std::vector<std::string> skip;  ///< optional passes left out
  bool keep_text = false;
};

/// Throws std::logic_error naming the pass after which the program is malformed.
ir::Schedule run(ir::Program program, const Settings& settings,
                 std::vector<PassRecord>* records = nullptr);

struct PassName {
  const char* name;
  bool optional;
  const char* what;
};
const std::vector<PassName>& list();

}  // namespace graft::passes
