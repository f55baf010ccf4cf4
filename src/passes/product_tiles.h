// Which axes of a group with matrix products are tiles of its kernel: those of a batch, rows, and
// columns in parts, so that blocks of rows can be higher and threads share what has few rows.
//
//     [..,m:256,n:1200] %2[m*1200+n] = sum.f32{k} (%0[m*512+k] * %1[k*1200+n])
//     [..,m:256,n:1200] %4[m*1200+n] = (%2[m*1200+n] * %3[m*1200+n])      →   m:256 n:5 (of 240)
#pragma once

#include "ir/product.h"
#include "passes/group.h"

namespace graft::passes {

/// Does AMX multiply, whose right operand lies as it takes it?
bool in_tiles(const ir::ProductAxes& axes, const ir::Target& target);

/// Bytes of the right operand that a column of the product reads.
int64_t column_bytes(const ir::Statement& s, const ir::ProductAxes& axes);

/// Does a right operand of so many bytes stay in what others leave of the last cache?
bool is_near(int64_t bytes, const ir::Target& target);

bool has_product(const Group& group);

/// Has it only products, and what their calls do themselves?
bool is_product_alone(const Group& group);

/// Leaves the group's tiles the axes that are of a batch, or rows, to all its products, and parts
/// of columns where all members have them; false when no axis of rows is left.
bool keep_rows(Group& group, const ir::Target& target);

}  // namespace graft::passes
