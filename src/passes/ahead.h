// Ahead: loads of memory that is not in the cache ask for the next row while they read this one.
//
// A core's own prefetcher follows a row and has to find the next one anew; while a tile works on
// what it has read (a softmax's sums, a norm's second pass) memory would be idle.
//
// Likewise it ends at a page's end. Loads that walk through memory without a gap ask for what lies
// 2 KiB further on, on machines where loops are measured to be faster so (Times::unasked_stream).
//
//     kernel v0:4096                                        kernel v0:4096
//       vector v1:1024                                        vector v1:1024
//         %2[0] f32 = … max.f32{v1} %0[v0*1024+v1]      →        %2[0] f32 = …  ahead %0 by v0+1
#pragma once

#include "ir/kernel.h"
#include "passes/settings.h"

namespace graft::passes {

void fetch_ahead(ir::Schedule& schedule, const Settings& settings);

}  // namespace graft::passes
