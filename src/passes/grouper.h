// Grouper, the first half of fuse: which statements are one kernel, and in which order kernels,
// extern calls and checks run.
#pragma once

#include <variant>
#include <vector>

#include "passes/decider.h"
#include "passes/group.h"
#include "passes/settings.h"

namespace graft::passes {

using GroupOrItem = std::variant<Group, ir::Extern, ir::Abort>;

/// Groups in an order that respects every dependence. `share`: false keeps each statement alone.
std::vector<GroupOrItem> group(ir::Program program, bool share, const Settings& settings,
                               Decider& decider);

}  // namespace graft::passes
