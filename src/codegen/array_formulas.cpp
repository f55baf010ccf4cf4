#include "codegen/array_formulas.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace graft::codegen {

namespace {

/// Highest power first.
template <class T, size_t n>
T polynomial(const std::array<T, n>& terms, T x) {
  T p = terms[0];
  for (size_t t = 1; t < n; ++t) p = p * x + terms[t];
  return p;
}

}  // namespace

const ExpFormula& exp_formula() {
  static const ExpFormula formula = [] {
    ExpFormula made;
    for (size_t j = 0; j < made.high.size(); ++j) {
      const long double power = std::exp2(static_cast<long double>(j) / ExpFormula::kEntries);
      made.high[j] = static_cast<float>(power);
      made.low[j] = static_cast<float>(power - static_cast<long double>(made.high[j]));
    }
    return made;
  }();
  return formula;
}

float array_sqrt(float x) {
  if (x < 0) return std::numeric_limits<float>::quiet_NaN();
  if (!(x >= RootFormula::kLeast && x <= RootFormula::kMost)) return std::sqrt(x);
  const float estimate = _mm_cvtss_f32(_mm_rsqrt_ss(_mm_set_ss(x)));
  const float near = x * estimate, slope = estimate * 0.5f, rest = 0.5f - near * slope;
  const float nearer = near + near * rest;
  return nearer + (x - nearer * nearer) * (slope + slope * rest);
}

__attribute__((target("avx512f"))) float array_fused_sqrt(float x) {
  if (x < 0) return std::numeric_limits<float>::quiet_NaN();
  if (!(x > 0 && x < std::numeric_limits<float>::infinity())) return std::sqrt(x);
  const bool small = x < FusedRootFormula::kLeast;
  if (small) x *= FusedRootFormula::kScale;
  const float estimate = _mm_cvtss_f32(_mm_rsqrt14_ss(_mm_set_ss(x), _mm_set_ss(x)));
  const float near = x * estimate, root = std::fma(std::fma(-near, near, x), estimate * 0.5f, near);
  return small ? root / FusedRootFormula::kRootOfScale : root;
}

float array_exp(float x) {
  if (!(std::abs(x) <= ExpFormula::kLimit))
    return static_cast<float>(std::exp(static_cast<double>(x)));
  const float q = std::nearbyint(x * ExpFormula::kInverse);
  float s = x - q * ExpFormula::kStepHigh;
  s = s - q * ExpFormula::kStepLow;
  const float rest = s + s * s * 0.5f;
  const int k = static_cast<int>(q), j = k & (ExpFormula::kEntries - 1);
  const float high = exp_formula().high[static_cast<size_t>(j)],
              low = exp_formula().low[static_cast<size_t>(j)];
  return std::ldexp(high + (low + high * rest), (k - j) / ExpFormula::kEntries);
}

float array_log(float x) {
  if (x < 0) return std::numeric_limits<float>::quiet_NaN();
  if (!(x >= LogFormula::kLeast && x < std::numeric_limits<float>::infinity()))
    return static_cast<float>(std::log(static_cast<double>(x)));
  const uint32_t bits = std::bit_cast<uint32_t>(x) - LogFormula::kTwoThirds;
  const auto k = static_cast<float>(static_cast<int32_t>(bits) >> LogFormula::kMantissaBits);
  const float r = std::bit_cast<float>((bits & LogFormula::kMantissa) + LogFormula::kTwoThirds) - 1;
  const float p = polynomial(LogFormula::kTerms, r);
  return ((r + r * (r * p)) + k * LogFormula::kLn2Low) + k * LogFormula::kLn2High;
}

namespace {

/// The sine, r being `shift` more than what n half turns leave of |x|.
float sine(float x, float n, double shift) {
  using Formula = SineFormula;
  const double count = static_cast<double>(n) - shift;
  const double r =
      std::abs(static_cast<double>(x)) - count * Formula::kHalfTurn - count * Formula::kHalfTurnLow;
  const double z = r * r;
  const auto result = static_cast<float>(r + r * (z * polynomial(Formula::kTerms, z)));
  return (static_cast<int>(n) & 1) != 0 ? -result : result;
}

}  // namespace

float array_sin(float x) {
  const float n = std::nearbyint(std::abs(x) * SineFormula::kInverse);
  const float result = sine(x, n, 0);
  return std::signbit(x) ? -result : result;
}

float array_cos(float x) {
  const float n = std::nearbyint((std::abs(x) + SineFormula::kQuarterTurn) * SineFormula::kInverse);
  return sine(x, n, 0.5);
}

std::optional<float> array_tanh(float x) {
  using Formula = TanhFormula;
  const double a = std::min(std::abs(static_cast<double>(x)), Formula::kMost), z = a * a;
  const double result = a * polynomial(Formula::kAbove, z) / polynomial(Formula::kBelow, z);
  const uint64_t middle = Formula::kLast / 2;
  const uint64_t unsure = a >= Formula::kLarge ? Formula::kUnsureLarge : Formula::kUnsure;
  const uint64_t below = std::bit_cast<uint64_t>(result) + unsure - middle;
  if (std::isnan(x) || below % Formula::kLast <= 2 * unsure) return {};
  return std::copysign(static_cast<float>(result), x);
}

}  // namespace graft::codegen
