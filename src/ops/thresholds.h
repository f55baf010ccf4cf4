// Sizes at which ATen changes how it computes, where that shows in the results: lowerings follow
// it on one side, and leave the other to ATen; plans for families of sizes end there.
#pragma once

#include <cstdint>

namespace graft::ops {

/// Up to here the C++ library, which ATen's kernels call, sorts by insertion: equal elements keep
/// their order.
inline constexpr int64_t kInsertionSorted = 16;
/// Rows from which on `cdist` multiplies matrices, unless it is told not to.
inline constexpr int64_t kMostRows = 25;

}  // namespace graft::ops
