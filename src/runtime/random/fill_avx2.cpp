#include "runtime/random/fill.h"

#if __has_include(<ATen/native/cpu/avx_mathfun.h>)
#define CPU_CAPABILITY_AVX2
#include <ATen/native/cpu/avx_mathfun.h>
#define GRAFT_HAS_MATHFUN 1
#else
#include <immintrin.h>
#define GRAFT_HAS_MATHFUN 0
#endif

namespace graft::runtime::random {
namespace {

constexpr int kMiddle = 397;

inline uint32_t twist(uint32_t u, uint32_t v) {
  const uint32_t mixed = (u & 0x80000000U) | (v & 0x7fffffffU);
  return (mixed >> 1) ^ ((0U - (v & 1U)) & 0x9908b0dfU);
}

/// Of the i-th pair of words, the first the higher: its 53 low bits.
inline uint64_t number_of(const uint32_t* words, int64_t i) {
  const uint64_t pair = static_cast<uint64_t>(words[2 * i]) << 32 | words[2 * i + 1];
  return pair & ((uint64_t{1} << 53) - 1);
}

__m256d both(double x) {
  return _mm256_set1_pd(x);
}
__m256i all(int64_t x) {
  return _mm256_set1_epi64x(x);
}
/// Of whole numbers below 2^52.
__m256d as_double(__m256i x) {
  constexpr int64_t kBits = 0x4330000000000000;  // 2^52, whose unit in the last place is 1
  return _mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(x, all(kBits))), both(0x1p52));
}

/// The logarithm of numbers in (0, 1], to two units in the last place: that of a power of two and,
/// as 2 atanh(f / (2 + f)), that of the rest 1 + f in [sqrt(1/2), sqrt(2)). (The coefficients
/// interpolate at Chebyshev's points; the error of the polynomial is 2^-57 of the result.)
__m256d logarithm(__m256d x) {
  constexpr int64_t kRootOfHalf = 0x3fe6a09e667f3bcd, kMany = 64;  // powers of two, above 53
  constexpr double kTerms[] = {0x1.2b584aae78a57p-3, 0x1.39fe606542ddep-3, 0x1.7462b4ab2ef6bp-3,
                               0x1.c71c62e5800a1p-3, 0x1.2492492df148dp-2, 0x1.99999999952e2p-2,
                               0x1.5555555555558p-1};
  constexpr double kHigh = 0x1.62e42p-1, kLow = 0x1.fdf473de6af28p-22;  // of log(2)
  const __m256i bits = _mm256_castpd_si256(x);
  const __m256i power = _mm256_srli_epi64(
      _mm256_add_epi64(_mm256_sub_epi64(bits, all(kRootOfHalf)), all(kMany << 52)), 52);
  const __m256i rest =
      _mm256_sub_epi64(bits, _mm256_slli_epi64(_mm256_sub_epi64(power, all(kMany)), 52));
  const __m256d k = _mm256_sub_pd(as_double(power), both(kMany));
  const __m256d f = _mm256_sub_pd(_mm256_castsi256_pd(rest), both(1));
  const __m256d s = _mm256_div_pd(f, _mm256_add_pd(f, both(2)));
  const __m256d z = _mm256_mul_pd(s, s);
  __m256d sum = both(kTerms[0]);
  for (int i = 1; i < 7; ++i) sum = _mm256_fmadd_pd(sum, z, both(kTerms[i]));
  const __m256d half = _mm256_mul_pd(both(0.5), _mm256_mul_pd(f, f));
  const __m256d small =
      _mm256_fmadd_pd(s, _mm256_fmadd_pd(sum, z, half), _mm256_mul_pd(k, both(kLow)));
  return _mm256_fmadd_pd(k, both(kHigh), _mm256_sub_pd(f, _mm256_sub_pd(half, small)));
}

/// Rounded to fp32, might numbers that many units in the last place away give another one? Those
/// that have few bits there are said to.
__m256d are_near_a_middle(__m256d x) {
  constexpr int64_t kBelow = (int64_t{1} << 29) - 1, kMiddle = int64_t{1} << 28, kNear = 16;
  constexpr double kSmall = 0x1p-120;
  const __m256i below = _mm256_and_si256(_mm256_castpd_si256(x), all(kBelow));
  const __m256i near = _mm256_and_si256(_mm256_cmpgt_epi64(below, all(kMiddle - kNear)),
                                        _mm256_cmpgt_epi64(all(kMiddle + kNear), below));
  return _mm256_or_pd(_mm256_castsi256_pd(near), _mm256_cmp_pd(x, both(kSmall), _CMP_LT_OQ));
}

}  // namespace

void next_block(uint32_t* state) {
  constexpr int n = kStateWords;
  for (int i = 0; i < n - kMiddle; ++i)
    state[i] = state[i + kMiddle] ^ twist(state[i], state[i + 1]);
  for (int i = n - kMiddle; i < n - 1; ++i)
    state[i] = state[i + kMiddle - n] ^ twist(state[i], state[i + 1]);
  state[n - 1] = state[kMiddle - 1] ^ twist(state[n - 1], state[0]);
}

void temper(const uint32_t* from, uint32_t* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t y = from[i];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680U;
    y ^= (y << 15) & 0xefc60000U;
    to[i] = y ^ (y >> 18);
  }
}

void below(const uint32_t* words, uint64_t threshold, bool* to, int64_t count) {
  const __m256i limit = _mm256_set1_epi64x(static_cast<int64_t>(threshold));
  const __m256i mask = _mm256_set1_epi64x((int64_t{1} << 53) - 1);
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const auto* from = reinterpret_cast<const __m256i*>(words + 2 * i);
    const __m256i turned = _mm256_shuffle_epi32(_mm256_loadu_si256(from), 0xb1);
    const __m256i less = _mm256_cmpgt_epi64(limit, _mm256_and_si256(turned, mask));
    // One bit of each lane, spread over four bytes.
    const auto bits = static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(less)));
    const uint32_t bytes = (bits * 0x00204081U) & 0x01010101U;
    __builtin_memcpy(to + i, &bytes, sizeof(bytes));
  }
  for (; i < count; ++i) to[i] = number_of(words, i) < threshold;
}

void uniform(const uint32_t* words, float from, float range, bool fused, float* to, int64_t count) {
  auto fraction = [&](int64_t i) {
    return static_cast<float>(static_cast<int32_t>(words[i] & 0xffffffU)) * 0x1p-24F;
  };
  if (fused) {
    for (int64_t i = 0; i < count; ++i) to[i] = __builtin_fmaf(fraction(i), range, from);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = fraction(i) * range + from;
  }
}

void exponential(const uint32_t* words, double factor, float* to, int64_t count) {
  const auto one = [&](int64_t i) {
    const double u = static_cast<double>(number_of(words, i)) * 0x1p-53;
    to[i] = static_cast<float>(factor * __builtin_log1p(-u));
  };
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const auto* from = reinterpret_cast<const __m256i*>(words + 2 * i);
    const __m256i pairs = _mm256_loadu_si256(from);
    // Each half fits where as_double() can tell, and so does what the sum leaves of 2^53.
    const __m256d low = as_double(_mm256_srli_epi64(pairs, 32));
    const __m256d high = as_double(_mm256_and_si256(pairs, all((int64_t{1} << 21) - 1)));
    const __m256d number = _mm256_fmadd_pd(high, both(0x1p32), low);
    const __m256d left = _mm256_mul_pd(_mm256_sub_pd(both(0x1p53), number), both(0x1p-53));
    const __m256d drawn = _mm256_mul_pd(both(factor), logarithm(left));
    _mm_storeu_ps(to + i, _mm256_cvtpd_ps(drawn));
    const int near = _mm256_movemask_pd(are_near_a_middle(drawn));
    for (int lane = 0; near != 0 && lane < 4; ++lane)
      if ((near >> lane & 1) != 0) one(i + lane);
  }
  for (; i < count; ++i) one(i);
}

bool are_weights(const float* x, int64_t count) {
  const __m256 zero = _mm256_setzero_ps(), infinity = _mm256_set1_ps(__builtin_inff());
  __m256 good = _mm256_castsi256_ps(all(-1)), some = zero;
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 values = _mm256_loadu_ps(x + i);
    good = _mm256_and_ps(good, _mm256_and_ps(_mm256_cmp_ps(values, zero, _CMP_GE_OQ),
                                             _mm256_cmp_ps(values, infinity, _CMP_LT_OQ)));
    some = _mm256_or_ps(some, _mm256_cmp_ps(values, zero, _CMP_GT_OQ));
  }
  bool all_good = _mm256_movemask_ps(good) == 0xff, any = _mm256_movemask_ps(some) != 0;
  for (; i < count; ++i) {
    all_good = all_good && x[i] >= 0 && x[i] < __builtin_inff();
    any = any || x[i] > 0;
  }
  return all_good && any;
}

#if GRAFT_HAS_MATHFUN

bool has_normal() {
  return true;
}

void normal(float* data, float mean, float deviation, int64_t blocks) {
  const __m256 two_pi = _mm256_set1_ps(static_cast<float>(2.0 * 3.14159265358979323846));
  const __m256 means = _mm256_set1_ps(mean), deviations = _mm256_set1_ps(deviation);
  for (int64_t i = 0; i < blocks; ++i, data += 16) {
    const __m256 u1 = _mm256_sub_ps(_mm256_set1_ps(1), _mm256_loadu_ps(data));
    const __m256 theta = _mm256_mul_ps(two_pi, _mm256_loadu_ps(data + 8));
    const __m256 radius = _mm256_sqrt_ps(_mm256_mul_ps(_mm256_set1_ps(-2), log256_ps(u1)));
    __m256 sine, cosine;
    sincos256_ps(theta, &sine, &cosine);
    const __m256 a = _mm256_mul_ps(radius, cosine), b = _mm256_mul_ps(radius, sine);
    _mm256_storeu_ps(data, _mm256_fmadd_ps(a, deviations, means));
    _mm256_storeu_ps(data + 8, _mm256_fmadd_ps(b, deviations, means));
  }
}

#else

bool has_normal() {
  return false;
}

void normal(float*, float, float, int64_t) {}

#endif

}  // namespace graft::runtime::random
