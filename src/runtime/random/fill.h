// ATen's Mersenne Twister and what it makes of its words, for whole vectors of them. Compiled for
// AVX2 whatever the rest is compiled for: call it only where has_avx2(). Nothing of ATen's or the
// C++ library's comes in here, since its inline functions would be compiled for AVX2 as well.
#pragma once

#include <cstdint>

namespace graft::runtime::random {

constexpr int kStateWords = 624;

/// The next block of words, in place of the last.
void next_block(uint32_t* state);
/// to[i] = the random number that the state's word from[i] stands for.
void temper(const uint32_t* from, uint32_t* to, int64_t count);

/// to[i] = are the 53 low bits of the i-th pair of words, the first the higher, less than
/// `threshold`?
void below(const uint32_t* words, uint64_t threshold, bool* to, int64_t count);

/// to[i] = the low 24 bits of words[i] as a fraction, times `range`, plus `from`; in one rounding
/// where `fused`.
void uniform(const uint32_t* words, float from, float range, bool fused, float* to, int64_t count);

/// to[i] = `factor` times the logarithm of what the i-th pair of words, a number in [0, 1), leaves
/// of 1: as libm's log1p() gives it, rounded to fp32.
void exponential(const uint32_t* words, double factor, float* to, int64_t count);

/// Are none negative, infinite or NaN, and some above zero?
bool are_weights(const float* x, int64_t count);

/// Does this build of libtorch come with the functions of ATen's normal()?
bool has_normal();
/// Each `data[16]` of uniform numbers in [0, 1) becomes as many normal ones.
void normal(float* data, float mean, float deviation, int64_t blocks);

}  // namespace graft::runtime::random
