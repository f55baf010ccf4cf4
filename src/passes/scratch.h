// Scratch: temporaries that live inside one tile shrink to the tile's slice, in thread-local
// memory, as far as half the L2 goes. Drops variables that no loop uses any more.
//
//     kernel v0:4096                                  kernel v0:4096
//       vector v1:2048 %9[v0*2048+v1] = …               scratch %9: 8192 bytes at 0
//       vector v2:2048 … %9[v0*2048+v2] …      →        vector v1:2048 %9[v1] = …
//                                                       vector v2:2048 … %9[v2] …
#pragma once

#include <vector>

#include "ir/kernel.h"
#include "passes/settings.h"

namespace graft::passes {

/// Throws std::logic_error where something that every tile makes for itself stays in memory.
void tile_scratch(ir::Schedule& schedule, const Settings& settings);

/// The same for one kernel and the temporaries marked in `local`, while the kernel's scratch stays
/// within `budget` bytes.
void to_scratch(ir::Kernel& kernel, const std::vector<bool>& local, int64_t budget);

}  // namespace graft::passes
