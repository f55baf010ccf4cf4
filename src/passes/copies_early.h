// Copies early: where a stack or cat of what a loop made copies all parts at its end (or, after
// inlining, computes them there), each part moves right behind what it is made of. A loop over all
// parts has it there too, and can be rerolled.
#pragma once

#include <optional>

#include "ir/program.h"

namespace graft::passes {

/// Nothing if too few parts can move.
std::optional<ir::Program> copies_early(const ir::Program& program);

}  // namespace graft::passes
