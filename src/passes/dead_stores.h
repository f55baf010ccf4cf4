// Dead stores: removes statements whose result nobody reads, because it does not outlive the call
// or is overwritten first, be it by several statements. Where most of it is, the rest stays. Memory
// that is then read though nothing stores to it (that of at::empty, behind a mask) is zeros.
//
//     [a:512,b:512] %2[a*512+b] = %0[a*512+b]      →  the same, of rows 0 and 511, and of columns
//     [a:510,b:510] %2[a*512+b+513] = neg(%1[…])      0 and 511 between them; then the second
#pragma once

#include "ir/program.h"
#include "passes/settings.h"

namespace graft::passes {

/// What is left of a statement is one.
ir::Program remove_dead_stores(ir::Program program);

/// What is left of a statement may be several, where the elements that nobody reads cost more than
/// the kernels; not in plans for any size, which would be cut at some sizes only.
ir::Program dead_stores(ir::Program program, const Settings& settings);

}  // namespace graft::passes
