// Fuse: statements that touch, along common parallel axes, only their own slice of every shared
// buffer run as one kernel, tile by tile (docs/architecture.md). This one rule fuses pointwise
// chains, residual + RMSNorm and softmax.
//
//     [a:4096,b:2048] %9[a*2048+b] f32 = …
//     [a:4096,b:2048] %8[a] f32 = …  reduced = sum{b} %9[a*2048+b]
//     [a:4096,b:2048] %2[a*2048+b] f32 = (%9[a*2048+b] * %8[a])
// becomes
//     kernel v0:4096
//       vector v1:2048   %9 = …, reduced = sum %9
//       vector v2:2048   %2 = %9 * %8
#pragma once

#include <string>
#include <vector>

#include "ir/kernel.h"
#include "passes/group.h"

namespace graft::passes {

using GroupOrItem = std::variant<Group, ir::Extern, ir::Abort>;

/// Groups in an order that respects every dependence.
std::vector<GroupOrItem> group(ir::Program& program, bool fuse);

/// The kernel of a group: its outer axes as Range variables around runs of statements that share
/// all their inner loops. Temporaries that only pass a value from one statement of a loop to a
/// later one vanish.
ir::Kernel build_kernel(const Group& group, const std::vector<bool>& local_temporary);

}  // namespace graft::passes
