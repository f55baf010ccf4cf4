// Simplify: rewrites of expressions that keep every bit, also for NaN, infinities, signed zeros and
// wrapping integers.
#pragma once

#include <vector>

#include "ir/program.h"

namespace graft::passes {

ir::Program simplify(ir::Program program);
/// What each of its rules says, for tests: there is one test per rule.
std::vector<const char*> simplify_rules();

}  // namespace graft::passes
