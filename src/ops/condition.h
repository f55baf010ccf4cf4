// Operators that bring a condition or a whole number to the host.
#pragma once

#include <vector>

#include "ops/context.h"

namespace graft::ops {

/// A plan checks that they come out as in the recorded run; where they do not, it gives up before
/// it has written anything visible, and the call runs eagerly. They cannot stay calls.
std::vector<Row> condition_rows();

}  // namespace graft::ops
