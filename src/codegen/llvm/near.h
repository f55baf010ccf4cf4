// Roundings to BFloat16 of quotients by 1 + e^x, as sigmoid and SiLU are: eager's bits for fewer
// instructions.
//
// Rounding keeps 8 bits of 24, so that a result which is off by a few units in the last place still
// rounds as eager's does, unless a tie lies between the two. A cheap evaluation with a known bound
// of its error is rounded; where one lane is next to a tie, or where the bound does not hold,
// eager's own formula is evaluated for the vector.
#pragma once

#include <vector>

#include "codegen/plan.h"

namespace graft::codegen {

/// What a value is to a rounding done so.
enum class Near : uint8_t {
  No,       ///< nothing, or what its expression begins with
  Inside,   ///< a part of its expression, of which nobody else asks
  Rounding  ///< the cast itself
};

/// For each value.
std::vector<Near> near_roundings(const KernelPlan& plan);

/// The cheap evaluation and eager's differ by fewer units of the last place, as long as each
/// 1 + e^x is less than the second.
constexpr int kNearUnits = 32;
constexpr double kNearMost = 0x1p24;

/// The value number of x where `v` is 1 + e^x, and that of e^x.
struct OnePlusExp {
  int exp = -1, exponent = -1;
};
OnePlusExp one_plus_exp(const KernelPlan& plan, int v);

}  // namespace graft::codegen
