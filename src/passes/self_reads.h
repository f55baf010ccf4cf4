// Checks, after each pass, that no point of a statement reads what another point of it stores
// (ir/program.h).
#pragma once

#include <string>

#include "ir/program.h"

namespace graft::passes {

/// Empty when the rule holds as far as the digit test can tell; otherwise the offending statement.
std::string reads_of_own_stores(const ir::Program& program);

}  // namespace graft::passes
