// Which elements of a row may be among its best, many at a time. Compiled for AVX2 whatever the
// rest is compiled for: call it only where the machine has it.
#pragma once

#include <cstdint>

namespace graft {

/// Elements that are looked at together.
constexpr int kScanned = 64;

/// Bit k: x[k] is not less than `limit` (not `largest`: not more), or one of the two is a NaN.
uint64_t may_be_better(const float* x, float limit, bool largest);
uint64_t may_be_better(const double* x, double limit, bool largest);
/// Bit k: x[k] is more than `limit` (not `largest`: less), or one of the two is a NaN.
uint64_t are_beyond(const float* x, float limit, bool largest);
uint64_t are_beyond(const double* x, double limit, bool largest);

}  // namespace graft
