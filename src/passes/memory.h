// Memory: packs the temporaries that remain in memory into one arena, by their lifetimes over the
// steps: large ones first, each at the lowest place that no storage alive at the same time holds.
// From 1 MiB on they are blocks of their own, which a plan allocates and frees as they are needed.
//
//     %5: 4096 bytes, steps 0 to 1             %5: arena at 0
//     %6: 4096 bytes, steps 1 to 2      →      %6: arena at 4096
//     %7: 4096 bytes, steps 2 to 3             %7: arena at 0
#pragma once

#include "ir/kernel.h"

namespace graft::passes {

/// Sets arena_offset and arena_bytes.
void plan_memory(ir::Schedule& schedule);

}  // namespace graft::passes
