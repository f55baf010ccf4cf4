// Split-counts: counts by an index (histograms, degrees, confusion matrices) are made in parts, and
// the parts added up. Whole numbers, so the order makes no difference: integers, and floats whose
// sums stay exact. Threads share the tiles, and steps with tables of their own do not wait for what
// the step before stored to the same place.
//
//     repeat 4194304 in order                       [a:16384] %9[a] f32 = 0
//       [a:4194304] %3[(%1[a]:256)] f32 =      →    repeat 65536 in order
//           (%3[(%1[a]:256)] + 1)                     [a:65536,b:16] %9[b*1024+(…:256)] f32 = …
//                                                     … three more, each with its own table
//                                                   [a:64,b:256] %3[b] f32 = (%3[b] + reduced) …
#pragma once

#include "ir/program.h"
#include "passes/settings.h"

namespace graft::passes {

ir::Program split_counts(ir::Program program, const Settings& settings);

}  // namespace graft::passes
