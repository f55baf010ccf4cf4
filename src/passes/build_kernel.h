// Build-kernel, the second half of fuse: a group's statements as a tree of loops.
#pragma once

#include <vector>

#include "ir/kernel.h"
#include "passes/group.h"

namespace graft::passes {

/// The kernel of a group: its outer axes as Range variables around runs of statements that share
/// all their inner loops. Temporaries of the group's own (`local_temporary`, by storage) that only
/// pass a value from one statement of a loop to a later one vanish.
ir::Kernel build_kernel(const Group& group, const std::vector<bool>& local_temporary);

}  // namespace graft::passes
