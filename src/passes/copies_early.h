// Copies early: where a stack or cat of what a loop made copies all parts at its end, each copy
// moves right behind what makes its part. A loop over all parts has it there too, and can be
// rerolled.
#pragma once

#include <optional>

#include "ir/program.h"

namespace graft::passes {

/// Nothing if too few copies can move.
std::optional<ir::Program> copies_early(const ir::Program& program);

}  // namespace graft::passes
