#include <immintrin.h>

#include <utility>

#include "systems/numbers/kernels.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi2,f16c")

namespace graft::systems::numbers {
namespace avx2 {
namespace {

constexpr int kLanes = 8;
using U = Vector<uint32_t, kLanes>::type;
using I = Vector<int32_t, kLanes>::type;
using F = Vector<float, kLanes>::type;
using Q = Vector<uint64_t, kLanes / 2>::type;

inline __m128i load_64(const void* from) {
  return _mm_loadl_epi64(static_cast<const __m128i*>(from));
}

inline U widen_bytes(const uint8_t* from) {
  return (U)_mm256_cvtepu8_epi32(load_64(from));
}
inline Q widen_bytes_to_64(const uint8_t* from) {
  int32_t four;
  __builtin_memcpy(&four, from, sizeof(four));
  return (Q)_mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four));
}
inline U widen_halves(const uint16_t* from) {
  return (U)_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
/// To each four lanes the next three bytes.
inline U spread_triples(const uint8_t* from) {
  uint32_t low;
  uint16_t high;
  __builtin_memcpy(&low, from, sizeof(low));
  __builtin_memcpy(&high, from + 4, sizeof(high));
  const __m256i all = _mm256_set1_epi64x(static_cast<int64_t>(uint64_t{high} << 32 | low));
  const __m256i order = _mm256_set_epi64x(
      static_cast<int64_t>(0xff050403ff050403), static_cast<int64_t>(0xff050403ff050403),
      static_cast<int64_t>(0xff020100ff020100), static_cast<int64_t>(0xff020100ff020100));
  return (U)_mm256_shuffle_epi8(all, order);
}
/// Floats of 8 bits as fp16's upper bytes, or as the bits below its exponent's highest.
constexpr bool kHasHalves = true;
template <bool kIsUpperByte>
inline F from_halves(const uint8_t* from) {
  __m128i bits = _mm_cvtepi8_epi16(load_64(from));
  if constexpr (kIsUpperByte)
    bits = _mm_slli_epi16(bits, 8);
  else
    bits = _mm_and_si128(_mm_slli_epi16(bits, 7), _mm_set1_epi16(~(1 << 14)));
  return (F)_mm256_cvtph_ps(bits);
}
/// Keeps the largest bytes, without their signs; then says if one had all ones.
using Bytes = __m256i;
inline void watch_bytes(Bytes& most, const uint8_t* from) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  most = _mm256_max_epu8(most, _mm256_or_si256(bytes, _mm256_set1_epi8(-128)));
}
inline bool has_ones(Bytes most) {
  return _mm256_movemask_epi8(_mm256_cmpeq_epi8(most, _mm256_set1_epi8(-1))) != 0;
}
/// The lowest byte, or bytes, of each 32 or 64 bits, by their order within 16 bytes; 8 in all.
inline __m128i gather_bytes(__m256i x, __m128i order) {
  const __m256i packed = _mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(order));
  return _mm_or_si128(_mm256_castsi256_si128(packed),
                      _mm_slli_si128(_mm256_extracti128_si256(packed, 1), 4));
}
/// Four codes of 6 bits into three bytes.
inline __m128i pack_sixes(__m128i bytes) {
  const __m128i twelves = _mm_maddubs_epi16(bytes, _mm_set1_epi16(64 << 8 | 1));
  const __m128i triples = _mm_madd_epi16(twelves, _mm_set1_epi32(4096 << 16 | 1));
  return _mm_shuffle_epi8(triples, _mm_set_epi32(-1, 0x0e0d0c0a, 0x09080605, 0x04020100));
}
inline __m128i gathered_bytes(U x) {
  return gather_bytes((__m256i)x, _mm_set_epi32(-1, -1, -1, 0x0c080400));
}
inline void narrow_sixes(uint8_t* to, U x) {
  const auto packed = static_cast<uint64_t>(_mm_cvtsi128_si64(pack_sixes(gathered_bytes(x))));
  __builtin_memcpy(to, &packed, 6);
}
inline void narrow_bytes(uint8_t* to, U x) {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), gathered_bytes(x));
}
inline void narrow_halves(uint16_t* to, U x) {
  const __m128i order = _mm_set_epi32(-1, -1, 0x0d0c0908, 0x05040100);
  const __m256i packed = _mm256_shuffle_epi8((__m256i)x, _mm256_broadcastsi128_si256(order));
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(to),
      _mm_unpacklo_epi64(_mm256_castsi256_si128(packed), _mm256_extracti128_si256(packed, 1)));
}
inline void narrow_pairs(uint8_t* to, Q x) {
  const __m256i packed = _mm256_shuffle_epi8(
      (__m256i)x, _mm256_broadcastsi128_si256(_mm_set_epi32(-1, -1, -1, -1 << 16 | 0x0800)));
  const int32_t four = _mm_cvtsi128_si32(_mm256_castsi256_si128(packed)) & 0xffff;
  const int32_t high = _mm_cvtsi128_si32(_mm256_extracti128_si256(packed, 1));
  const int32_t all = four | static_cast<int32_t>(static_cast<uint32_t>(high) << 16);
  __builtin_memcpy(to, &all, sizeof(all));
}
inline uint32_t largest_lane(U x) {
  __m128i most =
      _mm_max_epu32(_mm256_castsi256_si128((__m256i)x), _mm256_extracti128_si256((__m256i)x, 1));
  most = _mm_max_epu32(most, _mm_shuffle_epi32(most, 0x4e));
  most = _mm_max_epu32(most, _mm_shuffle_epi32(most, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(most));
}
/// x[from[i]]; of the indices, bits above the lowest three do not count.
inline F permute(F x, U from) {
  return (F)_mm256_permutevar8x32_ps((__m256)x, (__m256i)from);
}
inline void stream(float* to, F x) {
  _mm256_stream_ps(to, (__m256)x);
}
inline void end_streams() {
  _mm_sfence();
}

/// 16 numbers, to be looked up by the lowest four bits of indices.
struct Table {
  explicit Table(const float* all) { __builtin_memcpy(values, all, sizeof(values)); }
  F at(U index) const {
    const F low = permute(values[0], index), high = permute(values[1], index);
    return (F)_mm256_blendv_ps((__m256)low, (__m256)high, (__m256)(index << 28));
  }
  F values[2];
};

// In this order.
#include "systems/numbers/kernels_narrow.h"

#include "systems/numbers/kernels_body.h"

}  // namespace
}  // namespace avx2

const Kernels kAvx2Kernels = avx2::kernels_for("avx2", std::make_index_sequence<kElementCount>());

}  // namespace graft::systems::numbers

#pragma GCC pop_options
