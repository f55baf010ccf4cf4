// The first half of a kernel's plan: which loops there are, which of them run in vector lanes, and
// where reductions accumulate and end.
#pragma once

#include "codegen/plan.h"

namespace graft::codegen {

/// Fills KernelPlan::loops, and KernelPlan::statements except for value numbers.
void build_loop_tree(const ir::Kernel& kernel, const Layout& layout, KernelPlan& plan);

}  // namespace graft::codegen
