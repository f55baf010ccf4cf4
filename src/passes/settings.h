// What the passes decide from, beside the program.
#pragma once

#include <string>
#include <vector>

#include "ir/target.h"

namespace graft::passes {

struct Settings {
  ir::Target target;
  bool fast = false;              ///< Numerics::Fast: run `keep-wide`
  std::vector<std::string> skip;  ///< optional passes left out
  bool keep_text = false;
};

}  // namespace graft::passes
