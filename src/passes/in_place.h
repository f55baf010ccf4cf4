// In place: a kernel's large result takes over the memory of what the kernel reads for the last
// time, element by element. It is in the cache already, and the peak is lower.
//
//     %5: a block, 4194304 bytes               %5: a block, 4194304 bytes
//     %6: a block, 4194304 bytes               %6: in place of %5
//     kernel v0:1024                     →     kernel v0:1024
//       vector v1:1024                           vector v1:1024
//         %6[v0*1024+v1] = … %5[v0*1024+v1]        %6[v0*1024+v1] = … %5[v0*1024+v1]
#pragma once

#include "ir/kernel.h"

namespace graft::passes {

/// Sets in_place_of. Memory has been planned.
void reuse_in_place(ir::Schedule& schedule);

}  // namespace graft::passes
