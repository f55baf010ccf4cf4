#include <immintrin.h>

#include "sorting/scan.h"

namespace graft {
namespace {

/// A bit for each number of a vector.
template <int kHow>
int compare_vector(const float* x, float limit) {
  return _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x), _mm256_set1_ps(limit), kHow));
}
template <int kHow>
int compare_vector(const double* x, double limit) {
  return _mm256_movemask_pd(_mm256_cmp_pd(_mm256_loadu_pd(x), _mm256_set1_pd(limit), kHow));
}

template <int kHow, class T>
uint64_t compare(const T* x, T limit) {
  constexpr int kLanes = sizeof(__m256) / sizeof(T);
  uint64_t bits = 0;
  for (int k = 0; k < kScanned; k += kLanes)
    bits |= static_cast<uint64_t>(static_cast<unsigned>(compare_vector<kHow>(x + k, limit))) << k;
  return bits;
}

}  // namespace

uint64_t may_be_better(const float* x, float limit, bool largest) {
  return largest ? compare<_CMP_NLT_UQ>(x, limit) : compare<_CMP_NGT_UQ>(x, limit);
}

uint64_t may_be_better(const double* x, double limit, bool largest) {
  return largest ? compare<_CMP_NLT_UQ>(x, limit) : compare<_CMP_NGT_UQ>(x, limit);
}

uint64_t are_beyond(const float* x, float limit, bool largest) {
  return largest ? compare<_CMP_NLE_UQ>(x, limit) : compare<_CMP_NGE_UQ>(x, limit);
}

uint64_t are_beyond(const double* x, double limit, bool largest) {
  return largest ? compare<_CMP_NLE_UQ>(x, limit) : compare<_CMP_NGE_UQ>(x, limit);
}

}  // namespace graft
