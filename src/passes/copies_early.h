// Copies early: a stack or cat of the results of unrolled steps copies all of them at the end (or,
// after inlining, computes them there). This moves each copy right behind the step that makes its
// source, so that it becomes part of the step and the steps can be rerolled.
#pragma once

#include <optional>

#include "ir/program.h"

namespace graft::passes {

/// Empty if too few copies can move.
std::optional<ir::Program> copies_early(const ir::Program& program);

}  // namespace graft::passes
