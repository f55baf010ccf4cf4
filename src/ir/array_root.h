// How MKL's VML computes the root of Float on a processor for which it takes its kernels without
// fused multiply-adds, whatever that processor could do (all of AMD's, as of MKL 2024.2): from the
// processor's own estimate, a step towards it and a correction, each operation rounded. Up to 0.75
// units off: one number in six differs from the instruction's.
#pragma once

#include <limits>

namespace graft::ir {

/// Other numbers take the instruction's root. Found by asking MKL for every float.
constexpr float kLeastEstimatedRoot = 0x1p-126f, kLargestEstimatedRoot = 0x1.ffdffep+127f;

/// `Number`: ir::Value, or float where the host is asked whether its MKL does this; `estimate`: of
/// 1 / sqrt(x). `With` has constant(float) and, of Numbers, at_most, select and root.
template <class With, class Number>
Number array_root(With with, Number x, Number estimate) {
  const Number half = with.constant(0.5f);
  Number near = x * estimate, slope = estimate * half;
  const Number error = half - near * slope;
  near = near + near * error;
  slope = slope + slope * error;
  near = near + (x - near * near) * slope;
  using Limits = std::numeric_limits<float>;
  // Of a negative number VML's NaN is positive, the instruction's negative.
  const auto negative = with.at_most(x, with.constant(-Limits::denorm_min()));
  const auto regular = with.at_most(with.constant(kLeastEstimatedRoot), x) &
                       with.at_most(x, with.constant(kLargestEstimatedRoot));
  return with.select(regular, near,
                     with.root(with.select(negative, with.constant(Limits::quiet_NaN()), x)));
}

}  // namespace graft::ir
