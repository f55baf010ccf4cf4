#include "codegen/source/prelude.h"

#include <cstdio>
#include <string_view>

#include "codegen/array_formulas.h"
#include "codegen/exp_coefficients.h"
#include "codegen/routine.h"
#include "codegen/source/source.h"

namespace graft::codegen {

namespace {

constexpr std::string_view kTypes = R"(#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <type_traits>

struct LaunchArgs {
  char* const* pointers;
  const int64_t* integers;
  const uint64_t* scalars;
};

namespace {

// --- Types that only hold values -----------------------------------------------------------------

struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};
struct f8e4m3fn {
  uint8_t bits;
};
struct f8e5m2 {
  uint8_t bits;
};

float widen(bf16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}
float widen(f16 x) {
  const uint32_t word = static_cast<uint32_t>(x.bits) << 16, twice = word + word;
  const float normal = std::bit_cast<float>((twice >> 4) + (0xE0u << 23)) * 0x1p-112f;
  const float denormal = std::bit_cast<float>((twice >> 17) | (126u << 23)) - 0.5f;
  const uint32_t bits = std::bit_cast<uint32_t>(twice < (1u << 27) ? denormal : normal);
  return std::bit_cast<float>((word & 0x80000000u) | bits);
}
float widen(f8e5m2 x) {
  return widen(f16{static_cast<uint16_t>(x.bits << 8)});
}
float widen(f8e4m3fn x) {
  const auto sign = static_cast<uint16_t>((x.bits & 0x80) << 8);
  if ((x.bits & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  return widen(f16{static_cast<uint16_t>(sign | (x.bits & 0x7f) << 7)}) * 0x1p8f;
}
void narrow(float x, bf16& to) {
  const auto word = std::bit_cast<uint32_t>(x);
  to.bits = static_cast<uint16_t>(
      x != x ? 0x7fc0 : (word + 0x7fff + ((word >> 16) & 1)) >> 16);
}
void narrow(float x, f16& to) {
  const auto word = std::bit_cast<uint32_t>(x), twice = word + word;
  const uint32_t bias = std::max(twice & 0xFF000000u, 0x71000000u);
  const float base = std::fabs(x) * 0x1p112f * 0x1p-110f;
  const auto bits =
      std::bit_cast<uint32_t>(std::bit_cast<float>((bias >> 1) + 0x07800000u) + base);
  const uint32_t number = ((bits >> 13) & 0x7C00u) + (bits & 0x0FFFu);
  to.bits = static_cast<uint16_t>((word & 0x80000000u) >> 16 | (twice > 0xFF000000u ? 0x7E00u : number));
}

/// Drops bits of the significand; the exponent's bias is `bias` less; subnormal below the exponent
/// `smallest`, spaced as numbers of the exponent `even`. From `limit` on the code is `beyond`.
uint8_t narrow_to_byte(float x, float limit, uint32_t beyond, int dropped, uint32_t bias,
                       uint32_t smallest, uint32_t even) {
  const auto word = std::bit_cast<uint32_t>(x), size = word & 0x7fffffffu;
  const auto sum = std::bit_cast<float>(size) + std::bit_cast<float>(even << 23);
  const uint32_t small = std::bit_cast<uint32_t>(sum) - (even << 23);
  const uint32_t rounding = (1u << (dropped - 1)) - 1 + ((size >> dropped) & 1);
  const uint32_t normal = (size - (bias << 23) + rounding) >> dropped;
  const uint32_t code = size < (smallest << 23) ? small : normal;
  return static_cast<uint8_t>((std::fabs(x) < limit ? code : beyond) | (word >> 24 & 0x80));
}
void narrow(float x, f8e4m3fn& to) {
  to.bits = narrow_to_byte(x, 480, 0x7f, 20, 120, 121, 141);
}
void narrow(float x, f8e5m2& to) {
  to.bits = narrow_to_byte(x, 65536, x != x ? 0x7f : 0x7c, 21, 112, 113, 134);
}

template <class T>
constexpr bool holds_only = std::is_same_v<T, bf16> || std::is_same_v<T, f16> ||
                            std::is_same_v<T, f8e4m3fn> || std::is_same_v<T, f8e5m2>;

/// As x86 converts to integers: what does not fit, NaN too, becomes the minimum; narrow ones are
/// the low bits of a wider one.
template <class To>
To to_integer(double x) {
  using Wide = std::conditional_t<(sizeof(To) > 4 || std::is_same_v<To, uint8_t>), int64_t, int32_t>;
  const double limit = sizeof(Wide) == 8 ? 0x1p63 : 0x1p31;
  const bool fits = x < limit && (sizeof(Wide) == 8 ? x >= -limit : x > -limit - 1);
  return static_cast<To>(fits ? static_cast<Wide>(x) : std::numeric_limits<Wide>::min());
}

/// As c10 converts: narrow floating types by way of float, anything but zero to true.
template <class To, class From>
To cast(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (holds_only<From>) {
    return cast<To>(widen(x));
  } else if constexpr (holds_only<To>) {
    To to;
    narrow(static_cast<float>(x), to);
    return to;
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != 0;
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return to_integer<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// --- Operators that C++ has otherwise ------------------------------------------------------------

template <class T>
T largest(T a, T b) {  // NaN in either is NaN
  const T chosen = a > b ? a : b;
  return a != a ? a : chosen;
}
template <class T>
T smallest(T a, T b) {
  const T chosen = a < b ? a : b;
  return a != a ? a : chosen;
}
template <class T>
T absolute(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::fabs(x);
  return static_cast<T>(x < 0 ? -x : x);
}
template <class T>
T quotient(T x, T y) {  // by zero is 0; the minimum by -1 wraps
  if (y == 0) return 0;
  return std::is_signed_v<T> && y == static_cast<T>(-1) ? static_cast<T>(-x) : static_cast<T>(x / y);
}
template <class T>
T remainder_of(T x, T y) {
  if (y == 0 || (std::is_signed_v<T> && y == static_cast<T>(-1))) return 0;
  return static_cast<T>(x % y);
}
template <class T>
bool is_shift(T count) {
  return static_cast<std::make_unsigned_t<T>>(count) < sizeof(T) * 8;
}
template <class T>
T shift_left(T x, T count) {
  return is_shift(count) ? static_cast<T>(x << count) : T{0};
}
template <class T>
T shift_right(T x, T count) {
  if (is_shift(count)) return static_cast<T>(x >> count);
  return std::is_signed_v<T> && x < 0 ? static_cast<T>(-1) : T{0};
}

// --- Reductions ----------------------------------------------------------------------------------

/// A long sum: of a block of steps, of the blocks before, and in a cascade what adding those lost.
/// (Steps may add up in a narrower type.)
template <class T, class Narrow, bool cascade>
struct BlockSum {
  Narrow value = 0;
  T blocks = 0, lost = 0;
  int64_t steps = 0;
  void flush(int64_t done, int64_t enough) {  // steps since the last time
    steps += done;
    if (steps < enough) return;
    flush();
    steps = 0;
  }
  void flush() {
    const T more = value, sum = blocks + more, of_more = sum - blocks;
    if constexpr (cascade)
      lost = lost + ((blocks - (sum - of_more)) + (more - of_more));
    blocks = sum;
    value = 0;
  }
  T total() const { return blocks + (value + (lost != lost ? T{0} : lost)); }
};

/// One more element. Of a whole step, the vectors add up in pairs, pairs of pairs and so on first.
template <int lanes, int count, class Sum>
void add_paired(bool whole, int64_t lane, float x, float (&step)[count], Sum* sums) {
  if (!whole || count == lanes) {
    sums[lane].value = sums[lane].value + x;
    return;
  }
  step[lane] = x;
  if (lane + 1 < count) return;
  for (int k = 0; k < lanes; ++k) {
    constexpr int vectors = count / lanes;
    for (int apart = 1; apart < vectors; apart *= 2)
      for (int c = 0; c < vectors; c += 2 * apart)
        step[c * lanes + k] = step[c * lanes + k] + step[(c + apart) * lanes + k];
    sums[k].value = sums[k].value + step[k];
  }
}

/// An extreme and where it is.
template <class T>
struct Place {
  T value;
  int64_t place;
};
template <bool greatest, class T>
bool better(T x, T best) {  // NaN beats everything but NaN
  if (x != x) return best == best;
  return greatest ? x > best : x < best;
}
template <bool greatest, class T>
bool replaces(Place<T> now, Place<T> best) {
  if (better<greatest>(now.value, best.value)) return true;
  return !better<greatest>(best.value, now.value) && now.place < best.place;
}

/// Halves again and again: partial results of lanes, in a fixed order.
template <int count, class T, class Join>
T fold(T* parts, Join join) {
  for (int half = count / 2; half >= 1; half /= 2)
    for (int k = 0; k < half; ++k) parts[k] = join(parts[k], parts[k + half]);
  return parts[0];
}

// --- Routines ------------------------------------------------------------------------------------

template <class T>
using Vml = void(const int32_t*, const T*, T*, const int64_t*);
template <class T>
void vml(Vml<T>* routine, int64_t count, const T* from, T* to) {
  const auto n = static_cast<int32_t>(count);
  const int64_t mode = kVmlMode;
  routine(&n, from, to, &mode);
}
template <class T>
T vml(Vml<T>* routine, T x) {
  T y;
  vml(routine, 1, &x, &y);
  return y;
}

template <class V, class T>
V in_all_lanes(T x) {
  V v;
  for (int k = 0; k < static_cast<int>(sizeof(V) / sizeof(T)); ++k) v[k] = x;
  return v;
}
/// A routine of vectors, of one value in all lanes.
template <class V, class T>
T first_lane(V (*routine)(V), T x) {
  return routine(in_all_lanes<V>(x))[0];
}
template <class V, class T>
T first_lane(V (*routine)(V, V), T x, T y) {
  return routine(in_all_lanes<V>(x), in_all_lanes<V>(y))[0];
}

)";

constexpr std::string_view kExp = R"(template <class T>
T multiply_add(T a, T b, T c) {
  if constexpr (kFma) return std::fma(a, b, c);
  return a * b + c;
}
template <class T, class Word>
T times_power(T u, T q, int mantissa, int bias) {
  if (q != q) return q;
  const auto n = static_cast<Word>(q), half = static_cast<Word>(n >> 1);
  const auto power = [&](Word k) { return std::bit_cast<T>(static_cast<Word>((k + bias) << mantissa)); };
  return u * power(half) * power(n - half);
}
float inline_exp(float x) {
  const float d = std::clamp(x, -kSingle.limit, kSingle.limit), q = std::nearbyint(d * kSingle.inverse_ln2);
  float s = multiply_add(q, -kSingle.ln2_high, d);
  s = multiply_add(q, -kSingle.ln2_low, s);
  float u = kSingle.terms[0];
  for (int k = 1; k < 6; ++k) u = multiply_add(u, s, kSingle.terms[k]);
  u = 1.0f + multiply_add(s * s, u, s);
  return times_power<float, int32_t>(u, q, 23, 127);
}
double inline_exp(double x) {
  const double d = std::clamp(x, -kTwice.limit, kTwice.limit), q = std::nearbyint(d * kTwice.inverse_ln2);
  double s = multiply_add(q, -kTwice.ln2_high, d);
  s = multiply_add(q, -kTwice.ln2_low, s);
  const double s2 = s * s, s4 = s2 * s2, s8 = s4 * s4;
  const auto pair = [&](int k) { return multiply_add(s, kTwice.terms[k], kTwice.terms[k + 1]); };
  double u = multiply_add(s8, pair(0), multiply_add(s4, multiply_add(s2, pair(2), pair(4)),
                                                    multiply_add(s2, pair(6), pair(8))));
  for (const double one : {0.5, 1.0, 1.0}) u = multiply_add(u, s, one);
  return times_power<double, int64_t>(u, q, 52, 1023);
}
float near_exp(float x) { return x < kLeastNormal ? 0 : inline_exp(x); }
double near_exp(double x) { return inline_exp(x); }

)";

std::string hex(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%a", value);
  return text;
}

template <class T, size_t n>
std::string coefficients(const char* type, const char* name, const ExpCoefficients<T, n>& c) {
  std::string text = "constexpr struct {\n  ";
  text += type;
  text += " limit, inverse_ln2, ln2_high, ln2_low, terms[" + std::to_string(n) + "];\n} ";
  text += name;
  text += " = {";
  for (T number : {c.limit, c.inverse_ln2, c.ln2_high, c.ln2_low}) text += hex(number) + ", ";
  text += "\n    {";
  for (size_t k = 0; k < n; ++k) text += (k == 0 ? "" : ", ") + hex(c.terms[k]);
  return text + "}};\n";
}

}  // namespace

std::string source_prelude(const ir::Target& target) {
  std::string text = "// Printed by Graft. To compile it: c++ " + std::string(kSourceFlags) + "\n";
  // SLEEF's functions take vectors in registers.
  if (target.avx2())
    text += std::string("#pragma GCC target(\"") + (target.avx512() ? "avx512f" : "avx2") +
            (target.fma ? ",fma" : "") + "\")\n";
  text += kTypes;
  // Its one constant from here.
  const std::string mode = "kVmlMode";
  text.replace(text.find(mode), mode.size(), std::to_string(kVmlMode));
  text += std::string("constexpr bool kFma = ") + (target.fma ? "true" : "false") + ";\n";
  text += coefficients("float", "kSingle", kExpSingle);
  text += coefficients("double", "kTwice", kExpTwice);
  text += "constexpr float kLeastNormal = " + hex(kLeastNormal) + ";\n";
  return text + std::string(kExp) + "}  // namespace\n";
}

/// (A pragma for a target defines no macro in C++: who prints this knows the target.)
constexpr const char* kFusedRoot = R"(float array_fused_sqrt(float x) {
  if (x < 0) return std::numeric_limits<float>::quiet_NaN();
  if (!(x > 0 && x < std::numeric_limits<float>::infinity())) return std::sqrt(x);
  const bool small = x < kFusedRootLeast;
  if (small) x *= kRootScale;
  const float estimate = _mm_cvtss_f32(_mm_rsqrt14_ss(_mm_set_ss(x), _mm_set_ss(x)));
  const float near = x * estimate, root = std::fma(std::fma(-near, near, x), estimate * 0.5f, near);
  return small ? root / kRootOfScale : root;
}
)";

std::string source_array_formulas(const ir::Target& target) {
  std::string text = "namespace {\n";
  auto number = [](float value) { return hex(static_cast<double>(value)) + "f"; };
  auto table = [&](const char* name, const auto& entries) {
    text += std::string("constexpr float ") + name + "[] = {";
    for (size_t j = 0; j < entries.size(); ++j)
      text += (j % 8 == 0 ? "\n    " : " ") + number(entries[j]) + ",";
    text += "};\n";
  };
  table("kExpHigh", exp_formula().high);
  table("kExpLow", exp_formula().low);
  table("kLogTerms", LogFormula::kTerms);
  auto doubles = [&](const char* name, const auto& terms) {
    text += std::string("constexpr double ") + name + "[] = {";
    for (double term : terms) text += hex(term) + ", ";
    text += "};\n";
  };
  doubles("kSineTerms", SineFormula::kTerms);
  doubles("kTanhAbove", TanhFormula::kAbove);
  doubles("kTanhBelow", TanhFormula::kBelow);
  text += "constexpr double kTanhMost = " + hex(TanhFormula::kMost) +
          ", kTanhLarge = " + hex(TanhFormula::kLarge) +
          ";\nconstexpr uint64_t kLast = " + std::to_string(TanhFormula::kLast) +
          ", kUnsure = " + std::to_string(TanhFormula::kUnsure) +
          ", kUnsureLarge = " + std::to_string(TanhFormula::kUnsureLarge) + ";\n";
  text += "constexpr double kHalfTurn = " + hex(SineFormula::kHalfTurn) +
          ", kHalfTurnLow = " + hex(SineFormula::kHalfTurnLow) + ";\n";
  auto constant = [&](const char* name, float value) {
    text += std::string("constexpr float ") + name + " = " + number(value) + ";\n";
  };
  constant("kRootLeast", RootFormula::kLeast);
  constant("kRootMost", RootFormula::kMost);
  constant("kFusedRootLeast", FusedRootFormula::kLeast);
  constant("kRootScale", FusedRootFormula::kScale);
  constant("kRootOfScale", FusedRootFormula::kRootOfScale);
  constant("kExpInverse", ExpFormula::kInverse);
  constant("kExpStepHigh", ExpFormula::kStepHigh);
  constant("kExpStepLow", ExpFormula::kStepLow);
  constant("kSineLimit", SineFormula::kLimit);
  constant("kTurnInverse", SineFormula::kInverse);
  constant("kQuarterTurn", SineFormula::kQuarterTurn);
  constant("kLn2High", LogFormula::kLn2High);
  constant("kLn2Low", LogFormula::kLn2Low);
  text += "constexpr uint32_t kTwoThirds = " + std::to_string(LogFormula::kTwoThirds) +
          ", kMantissa = " + std::to_string(LogFormula::kMantissa) + ";\n";
  if (target.avx512()) text += kFusedRoot;
  return text + R"(float array_sqrt(float x) {
  if (x < 0) return std::numeric_limits<float>::quiet_NaN();
  if (!(x >= kRootLeast && x <= kRootMost)) return std::sqrt(x);
  const float estimate = _mm_cvtss_f32(_mm_rsqrt_ss(_mm_set_ss(x)));
  const float near = x * estimate, slope = estimate * 0.5f, rest = 0.5f - near * slope;
  const float nearer = near + near * rest;
  return nearer + (x - nearer * nearer) * (slope + slope * rest);
}
float array_exp(float x) {
  if (!(std::fabs(x) <= -kLeastNormal)) return static_cast<float>(inline_exp(static_cast<double>(x)));
  const float q = std::nearbyint(x * kExpInverse);
  float s = x - q * kExpStepHigh;
  s = s - q * kExpStepLow;
  s = s + s * s * 0.5f;
  const int k = static_cast<int>(q), j = k & 127;
  const float u = kExpHigh[j] + (kExpLow[j] + kExpHigh[j] * s);
  return std::bit_cast<float>(std::bit_cast<int>(u) + (k - j) * (1 << 16));
}
float array_log(float x) {
  if (x < 0) return std::numeric_limits<float>::quiet_NaN();
  if (!(x >= std::numeric_limits<float>::min() && x < std::numeric_limits<float>::infinity()))
    return static_cast<float>(std::log(static_cast<double>(x)));
  const uint32_t bits = std::bit_cast<uint32_t>(x) - kTwoThirds;
  const float k = static_cast<float>(static_cast<int32_t>(bits) >> 23);
  const float r = std::bit_cast<float>((bits & kMantissa) + kTwoThirds) - 1;
  float p = 0;
  for (float term : kLogTerms) p = p * r + term;
  return ((r + r * (r * p)) + k * kLn2Low) + k * kLn2High;
}
float sine(float x, float n, double shift) {
  const double count = static_cast<double>(n) - shift;
  const double r = std::fabs(static_cast<double>(x)) - count * kHalfTurn - count * kHalfTurnLow;
  const double z = r * r;
  double p = 0;
  for (double term : kSineTerms) p = p * z + term;
  const float result = static_cast<float>(r + r * (z * p));
  return (static_cast<int>(n) & 1) != 0 ? -result : result;
}
template <auto* kLibrary>
float array_sin(float x) {
  if (!(std::fabs(x) <= kSineLimit)) return vml(kLibrary, x);
  const float result = sine(x, std::nearbyint(std::fabs(x) * kTurnInverse), 0);
  return std::signbit(x) ? -result : result;
}
template <auto* kLibrary>
float array_tanh(float x) {
  double a = std::fabs(static_cast<double>(x));
  if (!(a < kTanhMost)) a = kTanhMost;
  const double z = a * a;
  double above = 0, below = 0;
  for (double term : kTanhAbove) above = above * z + term;
  for (double term : kTanhBelow) below = below * z + term;
  const double result = a * above / below;
  const uint64_t unsure = a >= kTanhLarge ? kUnsureLarge : kUnsure;
  const uint64_t from_middle = std::bit_cast<uint64_t>(result) + unsure - kLast / 2;
  if (x != x || from_middle % kLast <= 2 * unsure) return vml(kLibrary, x);
  return std::copysign(static_cast<float>(result), x);
}
template <auto* kLibrary>
float array_cos(float x) {
  if (!(std::fabs(x) <= kSineLimit)) return vml(kLibrary, x);
  return sine(x, std::nearbyint((std::fabs(x) + kQuarterTurn) * kTurnInverse), 0.5);
}
}  // namespace
)";
}

}  // namespace graft::codegen
