// A packed weight times few rows: it is read once, and all else stays in the cache. 32 columns of x
// lie in two registers (AVX-512); the places of 16 values make the indices by which one instruction
// picks what these multiply.
#include <ATen/Version.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstring>
#include <string>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "systems/sparse/sparse_24.h"

namespace graft::systems {
namespace {

/// `rows` of x and outputs `o` to o + Outputs.
template <class T, int Rows, int Outputs>
struct Portable {
  static void run(const Packed<T>& w, const float* x, float* y, int64_t stride, int64_t o) {
    const int64_t words = w.columns / 32;
    float sums[Outputs][Rows] = {};
    for (int64_t word = 0; word < words; ++word)
      for (int k = 0; k < Outputs; ++k) {
        const uint32_t bits = w.places[(o + k) * words + word];
        const T* values = w.values + ((o + k) * words + word) * 16;
        for (int i = 0; i < 16; ++i) {
          const int64_t column = word * 32 + i / 2 * 4 + ((bits >> 2 * i) & 3);
          for (int r = 0; r < Rows; ++r)
            sums[k][r] += static_cast<float>(values[i]) * x[r * w.columns + column];
        }
      }
    for (int k = 0; k < Outputs; ++k)
      for (int r = 0; r < Rows; ++r) y[r * stride + o + k] = sums[k][r];
  }
};

/// The lanes of each sum, added in order, so that results have the same bits however outputs are
/// grouped.
template <class V, int Outputs, int Rows>
__attribute__((always_inline)) inline void store_sums(const V (&sums)[Outputs][Rows], float* y,
                                                      int64_t stride, int64_t o) {
#pragma GCC unroll 4
  for (int k = 0; k < Outputs; ++k)
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) {
      float parts[sizeof(V) / sizeof(float)];
      std::memcpy(parts, &sums[k][r], sizeof parts);
      float sum = 0;
      for (const float part : parts) sum += part;
      y[r * stride + o + k] = sum;
    }
}

#if defined(__x86_64__)

typedef uint32_t U16 __attribute__((vector_size(64)));

__attribute__((target("avx512f"), always_inline)) inline __m512 load16(const float* from) {
  return _mm512_loadu_ps(from);
}
__attribute__((target("avx512f"), always_inline)) inline __m512 load16(const c10::BFloat16* from) {
  uint16_t half __attribute__((vector_size(32)));
  std::memcpy(&half, from, sizeof half);
  return (__m512)(__builtin_convertvector(half, U16) << 16);
}
__attribute__((target("avx512f"), always_inline)) inline __m512 load16(const c10::Half* from) {
  constexpr __mmask16 kAll = 0xffff;
  return _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

template <class T, int Rows, int Outputs>
struct Avx512 {
  __attribute__((target("avx512f"))) static void run(const Packed<T>& w, const float* x, float* y,
                                                     int64_t stride, int64_t o) {
    const int64_t words = w.columns / 32;
    const U16 shifts = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
    const __m512i groups =
        _mm512_set_epi32(28, 28, 24, 24, 20, 20, 16, 16, 12, 12, 8, 8, 4, 4, 0, 0);
    const __m512i three = _mm512_set1_epi32(3);
    __m512 sums[Outputs][Rows];
    for (auto& row : sums)
      for (__m512& sum : row) sum = _mm512_setzero_ps();
    for (int64_t word = 0; word < words; ++word) {
      __m512 low[Rows], high[Rows];
#pragma GCC unroll 4
      for (int r = 0; r < Rows; ++r) {
        low[r] = _mm512_loadu_ps(x + r * w.columns + word * 32);
        high[r] = _mm512_loadu_ps(x + r * w.columns + word * 32 + 16);
      }
#pragma GCC unroll 4
      for (int k = 0; k < Outputs; ++k) {
        const int64_t at = (o + k) * words + word;
        const U16 bits = (U16{} + w.places[at]) >> shifts;
        constexpr int kAndOr = 0xea;  // bits & three | groups
        const __m512i index = _mm512_ternarylogic_epi32((__m512i)bits, three, groups, kAndOr);
        const __m512 values = load16(w.values + at * 16);
#pragma GCC unroll 4
        for (int r = 0; r < Rows; ++r)
          sums[k][r] =
              _mm512_fmadd_ps(values, _mm512_permutex2var_ps(low[r], index, high[r]), sums[k][r]);
      }
    }
    store_sums(sums, y, stride, o);
  }
};

__attribute__((target("avx2"), always_inline)) inline __m256 load8(const float* from) {
  return _mm256_loadu_ps(from);
}
__attribute__((target("avx2"), always_inline)) inline __m256 load8(const c10::BFloat16* from) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}
__attribute__((target("avx2,f16c"), always_inline)) inline __m256 load8(const c10::Half* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

template <class T, int Rows, int Outputs>
struct Avx2 {
  __attribute__((target("avx2,fma,f16c"))) static void run(const Packed<T>& w, const float* x,
                                                           float* y, int64_t stride, int64_t o) {
    const int64_t words = w.columns / 32;
    const __m256i shifts = _mm256_set_epi32(14, 12, 10, 8, 6, 4, 2, 0);
    const __m256i groups = _mm256_set_epi32(4, 4, 0, 0, 4, 4, 0, 0);
    const __m256i three = _mm256_set1_epi32(3);
    __m256 sums[Outputs][Rows];
    for (auto& row : sums)
      for (__m256& sum : row) sum = _mm256_setzero_ps();
    for (int64_t part = 0; part < 2 * words; ++part)
#pragma GCC unroll 4
      for (int k = 0; k < Outputs; ++k) {
        const uint32_t places = w.places[(o + k) * words + part / 2] >> part % 2 * 16;
        const __m256i bits = _mm256_srlv_epi32(_mm256_set1_epi32(static_cast<int>(places)), shifts);
        const __m256i index = _mm256_or_si256(_mm256_and_si256(bits, three), groups);
        const __m256 values = load8(w.values + (o + k) * words * 16 + part * 8);
#pragma GCC unroll 4
        for (int r = 0; r < Rows; ++r) {
          // The first four values stand in the first eight of these columns.
          const float* from = x + r * w.columns + part * 16;
          const __m256 first = _mm256_permutevar8x32_ps(_mm256_loadu_ps(from), index);
          const __m256 second = _mm256_permutevar8x32_ps(_mm256_loadu_ps(from + 8), index);
          sums[k][r] = _mm256_fmadd_ps(values, _mm256_blend_ps(first, second, 0xf0), sums[k][r]);
        }
      }
    store_sums(sums, y, stride, o);
  }
};

#endif

template <template <class, int, int> class Isa, class T, int Rows>
void outputs(const Packed<T>& w, const float* x, float* y, int64_t stride, int64_t begin,
             int64_t end) {
  constexpr int kOutputs = Rows <= 2 ? 4 : 2;  // that share what they load of x
  int64_t o = begin;
  for (; o + kOutputs <= end; o += kOutputs) Isa<T, Rows, kOutputs>::run(w, x, y, stride, o);
  for (; o < end; ++o) Isa<T, Rows, 1>::run(w, x, y, stride, o);
}

template <template <class, int, int> class Isa, class T>
void of_rows(const Packed<T>& w, const float* x, int rows, float* y, int64_t stride, int64_t begin,
             int64_t end) {
  switch (rows) {
    case 1:
      return outputs<Isa, T, 1>(w, x, y, stride, begin, end);
    case 2:
      return outputs<Isa, T, 2>(w, x, y, stride, begin, end);
    case 3:
      return outputs<Isa, T, 3>(w, x, y, stride, begin, end);
    default:
      return outputs<Isa, T, 4>(w, x, y, stride, begin, end);
  }
}

}  // namespace

template <class T>
void few_rows(const Packed<T>& w, const float* x, int rows, float* y, int64_t stride, int64_t begin,
              int64_t end) {
#if defined(__x86_64__)
  // ATen's choice, so that ATEN_CPU_CAPABILITY counts here too.
  static const std::string isa = at::get_cpu_capability();
  if (isa == "AVX512") return of_rows<Avx512>(w, x, rows, y, stride, begin, end);
  if (isa == "AVX2") return of_rows<Avx2>(w, x, rows, y, stride, begin, end);
#endif
  of_rows<Portable>(w, x, rows, y, stride, begin, end);
}

template void few_rows(const Packed<float>&, const float*, int, float*, int64_t, int64_t, int64_t);
template void few_rows(const Packed<c10::BFloat16>&, const float*, int, float*, int64_t, int64_t,
                       int64_t);
template void few_rows(const Packed<c10::Half>&, const float*, int, float*, int64_t, int64_t,
                       int64_t);

}  // namespace graft::systems
