// Fuse: statements that touch, along common parallel axes, only their own slice of every shared
// buffer run as one kernel, tile by tile (docs/architecture.md). Pointwise chains, residual +
// RMSNorm and softmax are all this rule.
//
//     [a:4096,b:2048] %9[a*2048+b] f32 = ...                      kernel v0:4096
//     [a:4096,b:2048] %8[a] f32 = ...  reduced = sum{b} %9[…]  →      vector v1:2048   %9 = …,
//     reduced = sum %9 [a:4096,b:2048] %2[a*2048+b] = %9[…] * %8[a]                    vector
//     v2:2048   %2 = %9 * %8
#pragma once

#include <string>
#include <vector>

#include "ir/kernel.h"
#include "ir/program.h"

namespace graft::passes {

/// Statements that will be one kernel, in order. member m runs its axis outer_axis[m][o] with the
/// group's outer axis o.
struct Group {
  std::vector<int64_t> outer;  ///< extents of the shared parallel axes
  std::vector<ir::Statement> members;
  std::vector<std::vector<size_t>> outer_axis;
  std::vector<int> repeat;  ///< a member: which of the group's repeats it is in; -1: none
  int repeats = 0;
};
using GroupOrItem = std::variant<Group, ir::Extern, ir::Abort>;

/// Groups in an order that respects every dependence.
std::vector<GroupOrItem> group(ir::Program& program, bool fuse);

/// A group's loops: outer axes as Range variables, then runs of statements that share all their
/// inner loops. Temporaries that only pass a value from one statement of a loop to a later one
/// vanish.
ir::Kernel build_kernel(const Group& group, const std::vector<bool>& local_temporary);

}  // namespace graft::passes
