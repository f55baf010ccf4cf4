// What a mask needs of each block of rows is the same for all heads that share the mask, and is
// found once, in a kernel of its own in front of theirs.
//
//     kernel v0:64                                     blocks of rows
//       %24[v0*2112+v1] bool = or.bool{v2} %12[…]       instead of in each of 8 * 64 tiles
//       %25[v0] i64 = min.i64{v1} select(%24[v0*2112+v1], v1, 2048)
#pragma once

#include <vector>

#include "ir/kernel.h"
#include "passes/needed_columns.h"

namespace graft::passes {

/// Moves the statements from the one placed at `needed` on, which compute_needed() and find_quiet()
/// made for the reader, to a kernel in `before`, where a variable of the range does not matter to
/// them. Leaves them where they are otherwise.
void share_mask(ir::Kernel& kernel, const Reader& reader, size_t needed,
                std::vector<ir::Storage>& storages, std::vector<ir::Kernel>& before);

}  // namespace graft::passes
