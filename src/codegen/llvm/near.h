// Roundings to BFloat16 of sigmoid, SiLU, tanh and GELU: eager's bits for fewer instructions.
//
// Rounding keeps 8 bits of 24, so that a result which is a little off still rounds as eager's does,
// unless a tie lies between the two. A cheap evaluation is rounded, of which the error is bounded;
// where a lane's tie is within the bound, eager's own formula is evaluated for the vector.
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

/// The value number of x where `v` is 1 + e^x, and that of e^x.
struct OnePlusExp {
  int exp = -1, exponent = -1;
};
OnePlusExp one_plus_exp(const KernelPlan& plan, int v);

}  // namespace graft::codegen
