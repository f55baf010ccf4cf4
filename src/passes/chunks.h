// Chunks: where tiles run the steps of a loop and neighbouring tiles lie side by side in memory,
// the steps run outside and a chunk of tiles inside, so that each step walks a few kilobytes of
// memory and calls routines on whole arrays.
//
//     v0:32 v1:2048                              v0:32 v3:4
//       step v2:64                                 step v2:64
//         %5[v0*131072+v2*2048+v1] = …      →        vector v1:512
//                                                      %5[v0*131072+v2*2048+v3*512+v1] = …
#pragma once

#include "ir/kernel.h"
#include "passes/settings.h"

namespace graft::passes {

/// False, and nothing done, where the kernel has no such steps.
bool to_chunks(ir::Kernel& kernel, const Settings& settings);

}  // namespace graft::passes
