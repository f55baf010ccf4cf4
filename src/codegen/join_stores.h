// Statements that store the parts of the same runs of elements between them.
//
//     out[i*2] = a[i]                          every vector of i:
//     out[i*2+1] = b[i]                 →        out[i*2 ...] = a[i], b[i], a[i+1], b[i+1], …
//
// Storing waits for the last of them, so nothing between may touch what the others store.
#pragma once

#include "codegen/plan.h"

namespace graft::codegen {

/// Sets StatementPlan::joined.
void join_stores(const Layout& layout, KernelPlan& plan);

}  // namespace graft::codegen
