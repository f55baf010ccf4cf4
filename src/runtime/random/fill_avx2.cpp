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
  auto bit = [&](int64_t i) {
    const uint64_t number = static_cast<uint64_t>(words[2 * i]) << 32 | words[2 * i + 1];
    return (number & ((uint64_t{1} << 53) - 1)) < threshold;
  };
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
  for (; i < count; ++i) to[i] = bit(i);
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
