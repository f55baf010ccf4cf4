// Formula routines: how MKL's VML computes functions of Float on processors for which it takes its
// kernels without fused multiply-adds (all of AMD's, as of MKL 2024.2). Found by asking it for
// every float. Each operation is rounded to Float, or as said.
#pragma once

#include <array>
#include <limits>

#include "codegen/exp_coefficients.h"

namespace graft::codegen {

/// Between kLeast and kMost, from the processor's own estimate e of 1 / sqrt(x) to 12 bits
/// (RSQRTPS), a step towards the root and a correction,
///
///     n = x * e     s = e * 0.5     d = 0.5 - n * s     n' = n + n * d     s' = s + s * d
///     sqrt x = n' + (x - n' * n') * s'
///
/// up to 0.75 units off: one number in six differs from the nearest. Others have the nearest, and
/// those below 0 a positive NaN (where the instruction's is negative).
struct RootFormula {
  static constexpr float kLeast = 0x1p-126f, kMost = 0x1.ffdffep+127f;
};

/// Up to ±kLimit
///
///     q = round(x * kInverse)     s = x - q * kStepHigh - q * kStepLow     j = q mod 128
///     e^x = 2^((q - j) / 128) * (high[j] + (low[j] + high[j] * (s + s * s * 0.5)))
///
/// and beyond the nearest Float.
struct ExpFormula {
  static constexpr int kEntries = 128;
  static constexpr float kLimit = -kLeastNormal, kInverse = 0x1.715476p+7f, kStepHigh = 0x1.63p-8f,
                         kStepLow = -0x1.bd0106p-20f;
  /// From here on e^x is infinite, or 0 on the other side.
  static constexpr float kBeyond = 104.5f;
  /// 2^(j / 128), and what it lacks.
  std::array<float, kEntries> high, low;
};
const ExpFormula& exp_formula();

/// Of a normal number, with 2^k m = x, m between 2/3 and 4/3, and r = m - 1,
///
///     log x = (r + r * (r * polynomial(r))) + k * kLn2Low + k * kLn2High
///
/// and of others the nearest Float; NaN, positive, of those below 0.
struct LogFormula {
  static constexpr uint32_t kTwoThirds = 0x3f2aaaab, kMantissa = 0x7fffff;
  static constexpr int kMantissaBits = 23;
  static constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;
  static constexpr float kLeast = std::numeric_limits<float>::min();
  /// Highest power first.
  static constexpr std::array<float, 9> kTerms = {-0x1.08059p-3f, 0x1.1e66bap-3f,  -0x1.f3113cp-4f,
                                                  0x1.1ed718p-3f, -0x1.559dccp-3f, 0x1.99d028p-3f,
                                                  -0x1.fffefp-3f, 0x1.555506p-2f,  -0x1p-1f};
};

/// Up to ±kLimit, with a = |x| and, rounded to Float,
///
///     n = round(a * kInverse)                      for the sine
///     n = round((a + kQuarterTurn) * kInverse)     for the cosine; and n - 0.5 for n below
///
/// the Float nearest, but for rounding in Double, to ±(r + r^3 * polynomial(r^2)), where
/// r = a - n * kHalfTurn - n * kHalfTurnLow; the sign is that of (-1)^n, and of x for the sine.
/// kTerms are in the middle of what agrees with every result: it holds whether or not Double's
/// multiplications and additions are fused.
struct SineFormula {
  static constexpr float kLimit = 10000, kInverse = 0x1.45f306p-2f, kQuarterTurn = 0x1.921fb6p+0f;
  /// Their products with numbers of thirteen bits are exact.
  static constexpr double kHalfTurn = 0x1.921fb54p+1, kHalfTurnLow = 0x1.10b4611a62633p-29;
  /// Highest power first.
  static constexpr std::array<double, 4> kTerms = {0x1.5dbdf0e915cbdp-19, -0x1.9f6ffeeac70adp-13,
                                                   0x1.110ed3804e7cfp-7, -0x1.55554bc836619p-3};
};

/// On one number: what code is compared with. Sines up to SineFormula::kLimit.
float array_sqrt(float x);
float array_exp(float x);
float array_log(float x);
float array_sin(float x);
float array_cos(float x);

}  // namespace graft::codegen
