// Formula routines: how MKL's VML computes functions of Float on processors for which it takes its
// kernels without fused multiply-adds (all of AMD's, as of MKL 2024.2), and roots on Intel's with
// AVX-512. Found by asking it for every float. Each operation is rounded to Float, or as said.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>

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

/// From kLeast on, from the estimate e of 1 / sqrt(x) to 14 bits (VRSQRT14PS), one step, whose
/// products are not rounded,
///
///     n = x * e     sqrt x = n + (x - n * n) * (e * 0.5)
///
/// (one number in 170 differs from the nearest), and of smaller ones that of x * kScale; else as
/// above.
struct FusedRootFormula {
  static constexpr float kLeast = 0x1p-102f, kScale = 0x1p64f, kRootOfScale = 0x1p32f;
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
  /// (The product of the first with a number of thirteen bits is exact.)
  static constexpr double kHalfTurn = 0x1.921fb54p+1, kHalfTurnLow = 0x1.10b4611a62633p-29;
  /// Highest power first.
  static constexpr std::array<double, 4> kTerms = {0x1.5dbdf0e915cbdp-19, -0x1.9f6ffeeac70adp-13,
                                                   0x1.110ed3804e7cfp-7, -0x1.55554bc836619p-3};
};

/// The nearest Float, unless the true number is so near to the middle between two that MKL may
/// take the other one: only MKL knows which. Up to kMost, and from there on as there,
///
///     tanh |x| = |x| * above(x^2) / below(x^2)         within 2^-38 of it
struct TanhFormula {
  static constexpr double kMost = 9.5;
  /// Highest power first. (Fitted to tanh, with the least largest relative error.)
  static constexpr std::array<double, 6> kAbove = {0x1.41ec3fd2932a0p-33, 0x1.8756937080446p-23,
                                                   0x1.b0197c78da559p-15, 0x1.371c598d4b9d7p-8,
                                                   0x1.258a4381dd070p-3,  0x1.fffffffff97bap-1};
  static constexpr std::array<double, 7> kBelow = {0x1.b4c2cbae8131dp-40,
                                                   0x1.c053d07c41a38p-28,
                                                   0x1.de4b128d40940p-19,
                                                   0x1.285275d40c5c1p-11,
                                                   0x1.f0765e60aea79p-6,
                                                   0x1.e81a7715ac246p-2,
                                                   1};
  /// Float's last place, and how near to the middle MKL decides, in places of Double: it is 0.0018
  /// of Float's places off, and above kLarge 0.0131 (found by asking it for every float).
  static constexpr uint64_t kLast = uint64_t{1} << 29, kUnsure = kLast / 1000 * 22 / 10,
                            kUnsureLarge = kLast / 1000 * 136 / 10;
  static constexpr float kLarge = 4;
  /// Arguments, and what MKL gives for them, which is not the nearest number: they tell its kernel
  /// from others.
  static constexpr std::array<std::array<float, 2>, 16> kMarks = {
      {{0x1.717268p-12f, 0x1.717268p-12f},
       {0x1.e3d67ap-11f, 0x1.e3d672p-11f},
       {0x1.184cbap-10f, 0x1.184cb4p-10f},
       {0x1.fc4e5ap-9f, 0x1.fc4db2p-9f},
       {0x1.fd11e2p-8f, 0x1.fd0f42p-8f},
       {0x1.6c3a08p-7f, 0x1.6c363p-7f},
       {0x1.fca43ap-6f, 0x1.fc7a6ap-6f},
       {0x1.fcf3dap-5f, 0x1.fc4c78p-5f},
       {0x1.000542p-4f, 0x1.ff6012p-5f},
       {0x1.cb249ap-2f, 0x1.aea95ep-2f},
       {0x1.03fa5ap-1f, 0x1.df713cp-2f},
       {0x1.7ce208p+0f, 0x1.ce4bfep-1f},
       {0x1.329b3ep+1f, 0x1.f79076p-1f},
       {0x1.337f1cp+2f, 0x1.ffee68p-1f},
       {0x1.0ec51ep+3f, 0x1.fffffep-1f},
       {0x1.fe53c4p-9f, 0x1.fe531ap-9f}}};
};

/// On one number: what code is compared with. Sines up to SineFormula::kLimit.
float array_sqrt(float x);
/// On processors with AVX-512.
float array_fused_sqrt(float x);
float array_exp(float x);
float array_log(float x);
float array_sin(float x);
float array_cos(float x);
/// Nothing where MKL has to be asked.
std::optional<float> array_tanh(float x);

}  // namespace graft::codegen
