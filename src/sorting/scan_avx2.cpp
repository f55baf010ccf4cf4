#include <immintrin.h>

#include "sorting/scan.h"

namespace graft {
namespace {

template <int kHow>
uint64_t compare(const float* x, float limit) {
  const __m256 all = _mm256_set1_ps(limit);
  uint64_t bits = 0;
  for (int k = 0; k < kScanned; k += 8) {
    const int those = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x + k), all, kHow));
    bits |= static_cast<uint64_t>(static_cast<unsigned>(those)) << k;
  }
  return bits;
}

template <int kHow>
uint64_t compare(const double* x, double limit) {
  const __m256d all = _mm256_set1_pd(limit);
  uint64_t bits = 0;
  for (int k = 0; k < kScanned; k += 4) {
    const int those = _mm256_movemask_pd(_mm256_cmp_pd(_mm256_loadu_pd(x + k), all, kHow));
    bits |= static_cast<uint64_t>(static_cast<unsigned>(those)) << k;
  }
  return bits;
}

}  // namespace

uint64_t may_be_better(const float* x, float limit, bool largest) {
  return largest ? compare<_CMP_NLT_UQ>(x, limit) : compare<_CMP_NGT_UQ>(x, limit);
}

uint64_t may_be_better(const double* x, double limit, bool largest) {
  return largest ? compare<_CMP_NLT_UQ>(x, limit) : compare<_CMP_NGT_UQ>(x, limit);
}

}  // namespace graft
