// Tiles: orders the loops over tiles so that the last statement's store walks memory, and runs two
// iterations of the outermost one side by side where each of them reads again more than half the L2
// (RoPE's tables, once per head). Blocks of a product's rows follow each other.
//
//     kernel v1:512 v0:32                                   kernel v3:16 v1:512 v0:2
//       … %0[v0*65536+v1*128+v2] * %1[v1*128+v2]    →         … %0[v3*131072+v0*65536+…] …
#pragma once

#include "ir/kernel.h"
#include "passes/settings.h"

namespace graft::passes {

void order_tiles(ir::Schedule& schedule, const Settings& settings);

}  // namespace graft::passes
