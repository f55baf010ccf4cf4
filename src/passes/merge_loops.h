// Merge-loops: two loops, one in the other, that every access walks as one become one.
// Indices count, too: what split_axis made two is one again.
//
//     kernel v0:32 v1:64                               kernel v3:2048
//       serial v2:128 %1[v0*8192+v1*128+v2] = …    →     serial v2:128 %1[v3*128+v2] = …
#pragma once

#include "ir/kernel.h"

namespace graft::passes {

void merge_loops(ir::Schedule& schedule);
/// The loops of one kernel's tree alone, not its range.
void merge_serial_loops(ir::Kernel& kernel);

}  // namespace graft::passes
