// Loops over a row that a mask leaves out in a whole block of rows end where it does.
//
//     step v11:32
//       vector v5:2048
//         %14[v5] f32 = select(%12[…], %3[…], $-inf)            from the first column that a row of
//         %20[0] f32 = max.f32{v5} %14[v5]                      the block needs to the last one
//       vector v6:2048
//         %21[v6] f32 = NearExp((%14[v6] - %20[0]))             likewise, if %20[0] is finite
//
// What the statements store outside is known from the mask's other branch on: -inf, and exp of it.
#pragma once

#include <vector>

#include "ir/kernel.h"
#include "passes/needed_columns.h"

namespace graft::passes {

/// Marks the statements (Placed::quiet) from the reader on, which has one condition. `needed`: the
/// placed statement that compute_needed() made of it, and whose place in the tree is known by its
/// block's variable. Where a product reads what is zero outside (Placed::outside), a kernel that
/// asks whether its right operand is finite goes to `before`.
void find_quiet(ir::Kernel& kernel, const Reader& reader, size_t needed,
                std::vector<ir::Storage>& storages, std::vector<ir::Kernel>& before);

}  // namespace graft::passes
