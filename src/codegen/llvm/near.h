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

/// Units of 2^-24 between the two evaluations of x / (1 + e^y) and of tanh: NearMath's errors and
/// eager's, of which SLEEF's functions have 2 and an operation 1.
inline constexpr double kQuotientUnits = 19.2 + 2.1 + 4, kTanhUnits = 7 + 2;
/// What an operation on inexact numbers adds: it rounds in both.
inline constexpr double kOperationUnits = 2;
/// Where a bound is in units alone, it is less than these units of the last place.
inline constexpr int kMostUnits = 32;

/// For each value.
std::vector<Near> near_roundings(const KernelPlan& plan);

/// The value number of x where `v` is 1 + e^x, and that of e^x.
struct OnePlusExp {
  int exp = -1, exponent = -1;
};
OnePlusExp one_plus_exp(const KernelPlan& plan, int v);
bool is_tanh(const PlanValue& x);

}  // namespace graft::codegen
