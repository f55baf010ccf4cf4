// Scattered rows: steps that add to rows picked by an index are shared between threads by rows,
// where the rows are too short to be shared by columns. Each row's terms keep their order. Rows
// shorter than a vector are one thread's, one after the other.
//
//     kernel v0:64                                  kernel rows 16384
//       step v1:131072                                step v1:131072
//         %7[v0+(%2[v1]:16384)*64] = …          →       serial v0:64
//                                                         %7[v0+(%2[v1]:16384)*64] = …
#pragma once

#include "ir/kernel.h"
#include "passes/settings.h"

namespace graft::passes {

/// Would that share the statement, alone in its kernel? Beside others threads share it by columns,
/// and write to the same lines.
bool adds_to_short_rows(const ir::Statement& s, const ir::Target& target);

void share_rows(ir::Schedule& schedule, const Settings& settings);

}  // namespace graft::passes
