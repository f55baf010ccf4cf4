// Dead stores: removes statements whose result nobody reads, because it does not outlive the call
// or is overwritten first, be it by several statements. Where most of it is, the rest stays. Memory
// that is then read though nothing stores to it (that of at::empty, behind a mask) is zeros.
#pragma once

#include "ir/program.h"

namespace graft::passes {

ir::Program remove_dead_stores(ir::Program program);

}  // namespace graft::passes
