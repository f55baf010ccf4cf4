#include "systems/processes/add_terms.h"

#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>

namespace graft::systems {

namespace {

/// Elements at a time; so many are whole vectors.
constexpr int64_t kBlock = 64;

/// Arrays are one or apart.
template <class T>
[[gnu::always_inline]] inline void add_two(const T* a, const T* b, int64_t count, T* to, T* also) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) to[i] = also[i] = static_cast<T>(a[i] + b[i]);
}

template <class T>
[[gnu::always_inline]] inline void add_block(const std::vector<const char*>& terms, int64_t first,
                                             int64_t count, char* to, char* also) {
  T sums[kBlock];
  const auto term = [&](size_t i) { return reinterpret_cast<const T*>(terms[i]) + first; };
  const T* before = term(0);
  for (size_t i = 1; i + 1 < terms.size(); ++i, before = sums)
    add_two<T>(before, term(i), count, sums, sums);
  add_two<T>(before, term(terms.size() - 1), count, reinterpret_cast<T*>(to) + first,
             reinterpret_cast<T*>(also) + first);
}

template <class T>
[[gnu::always_inline]] inline void add_arrays(const std::vector<const char*>& terms, int64_t numel,
                                              char* to, char* also) {
  int64_t first = 0;
  for (; first + kBlock <= numel; first += kBlock) add_block<T>(terms, first, kBlock, to, also);
  if (first < numel) add_block<T>(terms, first, numel - first, to, also);
}

/// The same loops by wider instructions.
template <class T>
#ifdef __x86_64__
__attribute__((target("avx2")))
#endif
void add_arrays_wide(const std::vector<const char*>& terms, int64_t numel, char* to, char* also) {
  add_arrays<T>(terms, numel, to, also);
}

bool has_wide_instructions() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx2") > 0;
#else
  return false;
#endif
}

void add_16_bits(c10::ScalarType dtype, const std::vector<const char*>& terms, int64_t numel,
                 char* to, char* also) {
  const auto tensor = [&](const char* array) {
    return at::from_blob(const_cast<char*>(array), {numel}, dtype);
  };
  at::Tensor sum = tensor(terms[0]).to(at::kFloat);
  for (size_t term = 1; term < terms.size(); ++term) sum.add_(tensor(terms[term]));
  tensor(to).copy_(sum);
  if (also != to) std::memcpy(also, to, static_cast<size_t>(numel) * c10::elementSize(dtype));
}

}  // namespace

void add_terms(c10::ScalarType dtype, const std::vector<const char*>& terms, int64_t numel,
               char* to, char* also) {
  if (also == nullptr) also = to;
  if (dtype == at::kHalf || dtype == at::kBFloat16)
    return add_16_bits(dtype, terms, numel, to, also);
  static const bool wide = has_wide_instructions();
  AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND(at::kBool, dtype, "all_reduce", [&] {
    (wide ? add_arrays_wide<scalar_t> : add_arrays<scalar_t>)(terms, numel, to, also);
  });
}

}  // namespace graft::systems
