// The first half of a plan: which loops there are, which of them are lanes, and where reductions
// live and end.
#pragma once

#include "codegen/llvm/plan.h"

namespace graft::codegen {

/// Fills loops, and of the statements all but value numbers.
void build_loop_tree(const ir::Kernel& kernel, const Layout& layout, Plan& plan);

}  // namespace graft::codegen
