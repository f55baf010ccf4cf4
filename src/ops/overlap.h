// Do two views share memory? Exact where strides nest, as those of views of dense tensors do.
#pragma once

#include "ir/program.h"

namespace graft::ops {

/// False only when no byte belongs to both. The halves of x[:, :64] += x[:, 64:] have bounding
/// spans that intersect, yet share no byte.
bool overlap(const ir::View& a, const ir::View& b);

/// Would a statement that stores `out` and reads `in`, broadcast to it, read at one point what it
/// stores at another? Reading the very element that is stored is no clash.
bool clash(const ir::View& out, const ir::View& in);

}  // namespace graft::ops
