// Lanes: makes neighbouring tiles the lanes of a vector, where a tile is sequential along the axis
// that it walks (GPTQ's columns, scans, recurrences), or walks few elements (sums over rows of
// ten), and this costs less: memory that a tile walks contiguously is transposed into scratch,
// lanes side by side, and back (staging.h).
//
//     v0:2048                                        vector v0:2048
//       step v1:128                                    %9[v0+v2*16] = %4[v0*128+v2]  transposed
//         %5[v0*128+v1] = f(%4[v0*128+v1])       →     step v1:128
//         serial v2:128-v1                               %8[v0+v1*16] = f(%9[v0+v1*16])
//           %4[v0*128+v1+v2] = …                         …
//                                                      %5[v0*128+v2] = %8[v0+v2*16]  transposed
#pragma once

#include "ir/kernel.h"
#include "passes/decider.h"
#include "passes/settings.h"

namespace graft::passes {

/// Adds storages to the schedule: the scratch.
void to_lanes(ir::Schedule& schedule, const Settings& settings, Decider& decider);

}  // namespace graft::passes
