#include <immintrin.h>

#include <utility>

#include "systems/numbers/kernels.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi2,f16c")

namespace graft::systems::numbers {
namespace avx512 {
namespace {

constexpr int kLanes = 16;
using U = Vector<uint32_t, kLanes>::type;
using I = Vector<int32_t, kLanes>::type;
using F = Vector<float, kLanes>::type;
using Q = Vector<uint64_t, kLanes / 2>::type;

// GCC 12 warns of what the forms without a mask leave undefined.
constexpr __mmask16 kAll = 0xffff;

inline __m128i load_128(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

inline U widen_bytes(const uint8_t* from) {
  return (U)_mm512_maskz_cvtepu8_epi32(kAll, load_128(from));
}
inline Q widen_bytes_to_64(const uint8_t* from) {
  return (Q)_mm512_maskz_cvtepu8_epi64(0xff,
                                       _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}
inline U widen_halves(const uint16_t* from) {
  return (U)_mm512_maskz_cvtepu16_epi32(kAll,
                                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
/// To each four lanes the next three bytes.
inline U spread_triples(const uint8_t* from) {
  uint32_t last;
  __builtin_memcpy(&last, from + 8, sizeof(last));
  const __m128i all = _mm_insert_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)),
                                       static_cast<int>(last), 2);
  const __m512i order = _mm512_set_epi64(0xff0b0a09ff0b0a09, 0xff0b0a09ff0b0a09, 0xff080706ff080706,
                                         0xff080706ff080706, 0xff050403ff050403, 0xff050403ff050403,
                                         0xff020100ff020100, 0xff020100ff020100);
  return (U)_mm512_shuffle_epi8(_mm512_maskz_broadcast_i32x4(kAll, all), order);
}
/// Floats of 8 bits as fp16's upper bytes, or as the bits below its exponent's highest.
constexpr bool kHasHalves = true;
template <bool kIsUpperByte>
inline F from_halves(const uint8_t* from) {
  __m256i bits = _mm256_cvtepi8_epi16(load_128(from));
  if constexpr (kIsUpperByte)
    bits = _mm256_slli_epi16(bits, 8);
  else
    bits = _mm256_and_si256(_mm256_slli_epi16(bits, 7), _mm256_set1_epi16(~(1 << 14)));
  return (F)_mm512_maskz_cvtph_ps(kAll, bits);
}
/// Keeps the largest bytes, without their signs; then says if one had all ones.
using Bytes = __m512i;
inline void watch_bytes(Bytes& most, const uint8_t* from) {
  most = _mm512_maskz_max_epu8(~uint64_t{0}, most,
                               _mm512_or_si512(_mm512_loadu_si512(from), _mm512_set1_epi8(-128)));
}
inline bool has_ones(Bytes most) {
  return _mm512_cmpeq_epi8_mask(most, _mm512_set1_epi8(-1)) != 0;
}
inline void narrow_bytes(uint8_t* to, U x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_maskz_cvtepi32_epi8(kAll, (__m512i)x));
}
inline void narrow_halves(uint16_t* to, U x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_maskz_cvtepi32_epi16(kAll, (__m512i)x));
}
/// Four codes of 6 bits into three bytes.
inline __m128i pack_sixes(__m128i bytes) {
  const __m128i twelves = _mm_maddubs_epi16(bytes, _mm_set1_epi16(64 << 8 | 1));
  const __m128i triples = _mm_madd_epi16(twelves, _mm_set1_epi32(4096 << 16 | 1));
  return _mm_shuffle_epi8(triples, _mm_set_epi32(-1, 0x0e0d0c0a, 0x09080605, 0x04020100));
}
inline void narrow_sixes(uint8_t* to, U x) {
  const __m128i packed = pack_sixes(_mm512_maskz_cvtepi32_epi8(kAll, (__m512i)x));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), packed);
  const int32_t last = _mm_extract_epi32(packed, 2);
  __builtin_memcpy(to + 8, &last, sizeof(last));
}
inline __m512i pack_sixes(__m512i bytes) {
  const __m512i twelves = _mm512_maddubs_epi16(bytes, _mm512_set1_epi16(64 << 8 | 1));
  const __m512i triples = _mm512_madd_epi16(twelves, _mm512_set1_epi32(4096 << 16 | 1));
  return _mm512_shuffle_epi8(triples, _mm512_set4_epi32(-1, 0x0e0d0c0a, 0x09080605, 0x04020100));
}
inline void narrow_pairs(uint8_t* to, Q x) {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm512_maskz_cvtepi64_epi8(0xff, (__m512i)x));
}
inline __m128i quarter(__m512i x, int i) {
  const __m256i half = i < 2 ? _mm512_maskz_extracti64x4_epi64(0xff, x, 0)
                             : _mm512_maskz_extracti64x4_epi64(0xff, x, 1);
  return i % 2 == 0 ? _mm256_castsi256_si128(half) : _mm256_extracti128_si256(half, 1);
}
/// The codes of four vectors.
constexpr bool kPacksFour = true;
template <int kBits>
inline void pack_four(uint8_t* to, const U (&codes)[4], bool past_caches) {
  const __m512i low = _mm512_maskz_packus_epi32(~0u, (__m512i)codes[0], (__m512i)codes[1]);
  const __m512i high = _mm512_maskz_packus_epi32(~0u, (__m512i)codes[2], (__m512i)codes[3]);
  // Four codes of each vector in turn, in each quarter.
  const __m512i bytes = _mm512_maskz_packus_epi16(~uint64_t{0}, low, high);
  const __m512i in_turn = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  const __m512i ordered = _mm512_maskz_permutexvar_epi32(kAll, in_turn, bytes);
  if constexpr (kBits == 8) {
    if (past_caches)
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to), ordered);
    else
      _mm512_storeu_si512(to, ordered);
  } else if constexpr (kBits == 6) {
    const __m512i close = _mm512_set_epi32(0, 0, 0, 0, 14, 13, 12, 10, 9, 8, 6, 5, 4, 2, 1, 0);
    const __m512i packed = _mm512_maskz_permutexvar_epi32(kAll, close, pack_sixes(ordered));
    if (past_caches)
      for (int i = 0; i < 3; ++i)
        _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, quarter(packed, i));
    else
      _mm512_mask_storeu_epi32(to, 0x0fff, packed);
  } else {
    const __m512i pairs = _mm512_maddubs_epi16(ordered, _mm512_set1_epi16(16 << 8 | 1));
    const __m256i packed = _mm512_maskz_cvtepi16_epi8(~0u, pairs);
    if (past_caches)
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to), packed);
    else
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), packed);
  }
}
inline uint32_t largest_lane(U x) {
  __m256i half = _mm256_max_epu32(_mm512_maskz_extracti64x4_epi64(0xff, (__m512i)x, 0),
                                  _mm512_maskz_extracti64x4_epi64(0xff, (__m512i)x, 1));
  __m128i most = _mm_max_epu32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  most = _mm_max_epu32(most, _mm_shuffle_epi32(most, 0x4e));
  most = _mm_max_epu32(most, _mm_shuffle_epi32(most, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(most));
}
/// The number of the smaller magnitude, with x's sign or without one; `limit` where x is a NaN.
constexpr bool kHasRange = true;
template <bool kMagnitude>
inline F least_magnitude(F x, F limit) {
  constexpr int kLeast = 2, kNoSign = 2 << 2;
  return (F)_mm512_maskz_range_ps(kAll, (__m512)x, (__m512)limit,
                                  kMagnitude ? kLeast | kNoSign : kLeast);
}
/// x[from[i]]; of the indices, bits above the lowest four do not count.
inline F permute(F x, U from) {
  return (F)_mm512_maskz_permutexvar_ps(kAll, (__m512i)from, (__m512)x);
}
inline void stream(float* to, F x) {
  _mm512_stream_ps(to, (__m512)x);
}
inline void end_streams() {
  _mm_sfence();
}

/// 16 numbers, to be looked up by the lowest four bits of indices.
struct Table {
  explicit Table(const float* all) { __builtin_memcpy(&values, all, sizeof(values)); }
  F at(U index) const { return permute(values, index); }
  F values;
};

/// 32 numbers, likewise by the lowest five bits.
constexpr bool kHasWideTable = true;
template <int kElement>
struct WideTable {
  explicit WideTable(const float* all) { __builtin_memcpy(values, all, sizeof(values)); }
  F at(U index) const {
    return (F)_mm512_permutex2var_ps((__m512)values[0], (__m512i)index, (__m512)values[1]);
  }
  F values[2];
};

/// 16 numbers that bf16 holds, looked up by the lowest four bits of each half of a lane: those of
/// the upper halves as their bits' upper halves, and of the lower ones as the lower halves.
constexpr bool kHasPairTable = true;
template <int kElement>
struct PairTable {
  static_assert(kElements[kElement].bits == 4);
  explicit PairTable(const float* all) {
    uint16_t halves[32];
    for (size_t i = 0; i < 32; ++i)
      halves[i] = static_cast<uint16_t>(__builtin_bit_cast(uint32_t, all[i % 16]) >> 16);
    __builtin_memcpy(&values, halves, sizeof(values));
  }
  U at(U indices) const { return (U)_mm512_maskz_permutexvar_epi16(~0u, (__m512i)indices, values); }
  __m512i values;
};

#include "systems/numbers/kernels_body.h"

}  // namespace
}  // namespace avx512

const Kernels kAvx512Kernels =
    avx512::kernels_for("avx512", std::make_index_sequence<kElementCount>());

}  // namespace graft::systems::numbers

#pragma GCC pop_options
