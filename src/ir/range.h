// Which values integers can take, from what a statement does to them: an index that lies within its
// dimension needs no check.
#pragma once

#include <functional>
#include <vector>

#include "ir/program.h"

namespace graft::ir {

/// Both ends are included.
struct Range {
  int64_t low, high;
};

/// All values of an integer dtype, or Bool; of any other dtype all of int64_t, which says nothing.
Range range_of(ScalarType type);

/// A range that holds every value of the node. `loaded` gives that of what a load reads.
Range range_of(const Statement& s, NodeId id, const std::function<Range(const Access&)>& loaded);
/// Of all nodes.
std::vector<Range> ranges_of(const Statement& s, const std::function<Range(const Access&)>& loaded);

}  // namespace graft::ir
