// Kernels that serve many sizes: what may follow a size becomes an argument of their code.
#pragma once

#include "ir/kernel.h"

namespace graft::passes {

/// Of a schedule made for any size (Settings::any_size).
void free_sizes(ir::Schedule& schedule);

}  // namespace graft::passes
