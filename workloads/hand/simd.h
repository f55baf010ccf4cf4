// Vectors for the hand-written kernels. A kernel is a template over the width W, and `run_best`
// calls the instance compiled for the instruction set that ATen itself uses on this machine
// (ATEN_CPU_CAPABILITY included).
//
// A kernel's `kContract` says whether products may be contracted into fused multiply-adds. Eager
// rounds after each operator, so only a kernel that cannot have eager's bits anyway, or that adds
// no product, may allow it.
#pragma once

#include <ATen/Version.h>

#include <cstdint>
#include <cstring>
#include <string>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#if defined(__clang__)
#pragma clang fp contract(off)
#define GRAFT_HAND_TARGET(isa, contract) __attribute__((target(isa)))
#else
#pragma GCC diagnostic ignored \
    "-Wpsabi"  // vectors wider than the unit's own target, in functions always inlined
#define GRAFT_HAND_TARGET(isa, contract) \
  __attribute__((target(isa), optimize("fp-contract=" contract)))
#endif
#define GRAFT_HAND_INLINE static inline __attribute__((always_inline))

namespace graft::workloads::hand {

template <int W>
struct Vec {
  typedef float F __attribute__((vector_size(W * 4)));
  typedef int32_t I __attribute__((vector_size(W * 4)));
  typedef uint32_t U __attribute__((vector_size(W * 4)));
  typedef uint16_t H __attribute__((vector_size(W * 2)));
};
template <int W>
using F = typename Vec<W>::F;
template <int W>
using I = typename Vec<W>::I;
template <int W>
using U = typename Vec<W>::U;

template <int W>
GRAFT_HAND_INLINE F<W> splat(float value) {
  return F<W>{} + value;
}

template <int W>
GRAFT_HAND_INLINE F<W> load(const float* from) {
  F<W> value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// bf16 to fp32: the upper half of the bits.
template <int W>
GRAFT_HAND_INLINE F<W> load(const uint16_t* from) {
  typename Vec<W>::H half;
  std::memcpy(&half, from, sizeof half);
  return (F<W>)(__builtin_convertvector(half, U<W>) << 16);
}

/// fp32 rounded to bf16, to nearest even, kept as fp32. A NaN stays one: those of bf16 inputs and
/// the one that arithmetic makes have no bits in the lower half, so that rounding cannot carry into
/// their exponent.
template <int W>
GRAFT_HAND_INLINE F<W> round_bf16(const F<W>& value) {
  const U<W> bits = (U<W>)value;
  return (F<W>)((bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u);
}

template <int W>
GRAFT_HAND_INLINE void store(float* to, const F<W>& value) {
  std::memcpy(to, &value, sizeof value);
}

/// A value already rounded to bf16.
template <int W>
GRAFT_HAND_INLINE void store(uint16_t* to, const F<W>& value) {
  const typename Vec<W>::H half = __builtin_convertvector((U<W>)value >> 16, typename Vec<W>::H);
  std::memcpy(to, &half, sizeof half);
}

/// Writes past the caches, which saves reading the cache line first: for results that do not fit
/// the caches anyway. `to` is 16-byte aligned.
GRAFT_HAND_INLINE void stream_bytes(void* to, const void* from, size_t bytes) {
#if defined(__x86_64__)
  for (size_t at = 0; at < bytes; at += 16) {
    __m128i part;
    std::memcpy(&part, static_cast<const char*>(from) + at, sizeof part);
    _mm_stream_si128(reinterpret_cast<__m128i*>(static_cast<char*>(to) + at), part);
  }
#else
  std::memcpy(to, from, bytes);
#endif
}

template <int W, bool Stream>
GRAFT_HAND_INLINE void put(float* to, const F<W>& value) {
  if constexpr (Stream) {
    stream_bytes(to, &value, sizeof value);
  } else {
    store<W>(to, value);
  }
}

/// 2 W neighbouring bf16 values as fp32, those at even places apart from those at odd ones. It
/// costs two instructions, and elementwise work does not need them in order.
template <int W>
struct Pair {
  F<W> even, odd;
};

template <int W>
GRAFT_HAND_INLINE Pair<W> load_pair(const uint16_t* from) {
  U<W> bits;
  std::memcpy(&bits, from, sizeof bits);
  return {(F<W>)(bits << 16), (F<W>)(bits & 0xffff0000u)};
}

/// Values already rounded to bf16.
template <int W, bool Stream>
GRAFT_HAND_INLINE void put_pair(uint16_t* to, const Pair<W>& value) {
  const U<W> bits = ((U<W>)value.even >> 16) | (U<W>)value.odd;
  if constexpr (Stream) {
    stream_bytes(to, &bits, sizeof bits);
  } else {
    std::memcpy(to, &bits, sizeof bits);
  }
}

template <int W>
GRAFT_HAND_INLINE F<W> max(const F<W>& a, const F<W>& b) {
  return a > b ? a : b;
}

/// To nearest even. Larger values have no fraction to round.
template <int W>
GRAFT_HAND_INLINE F<W> round_even(const F<W>& x) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: adding it leaves no bits for a fraction
  const F<W> size = (F<W>)((U<W>)x & 0x7fffffffu);
  return size < 4194304.0f ? (x + kShift) - kShift : x;
}

/// e^x within 1 ulp (measured over all of fp32's range; denormal results included). Overflows to
/// infinity, keeps NaN. x = n ln2 + r, ln2 in two parts so that n ln2_hi is exact; e^r = 1 + r + r²
/// p(r), p a weighted minimax polynomial whose own error is 0.05 ulp. 2^n is applied in two
/// factors, so that n may leave the range of one exponent.
template <int W>
GRAFT_HAND_INLINE F<W> exp(const F<W>& argument) {
  constexpr float kShift = 12582912.0f;
  F<W> x = argument < -104.0f ? splat<W>(-104.0f) : argument;
  x = x > 89.0f ? splat<W>(89.0f) : x;
  const F<W> shifted = x * 1.44269504f + kShift;
  const I<W> n = (I<W>)shifted - 0x4b400000;  // the bits of kShift
  const F<W> whole = shifted - kShift;
  const F<W> r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  F<W> p = splat<W>(1.3814596382e-03f);
  p = p * r + 8.3687170909e-03f;
  p = p * r + 4.1668388093e-02f;
  p = p * r + 1.6666520629e-01f;
  p = p * r + 4.9999993448e-01f;
  const F<W> e = (p * (r * r) + r) + 1.0f;
  const I<W> first = n >> 1, second = n - first;
  return e * (F<W>)((first + 127) << 23) * (F<W>)((second + 127) << 23);
}

#if defined(__x86_64__)
template <class Kernel, class... Args>
GRAFT_HAND_TARGET("avx2", "off")
void run_avx2(Args... args) {
  Kernel::template run<8>(args...);
}
template <class Kernel, class... Args>
GRAFT_HAND_TARGET("avx2,fma", "fast")
void run_avx2_fma(Args... args) {
  Kernel::template run<8>(args...);
}
template <class Kernel, class... Args>
GRAFT_HAND_TARGET("avx512f,avx512bw,avx512vl,avx512dq", "off")
void run_avx512(Args... args) {
  Kernel::template run<16>(args...);
}
template <class Kernel, class... Args>
GRAFT_HAND_TARGET("avx512f,avx512bw,avx512vl,avx512dq", "fast")
void run_avx512_fma(Args... args) {
  Kernel::template run<16>(args...);
}
#endif

/// Kernel::run<W>(args...), a GRAFT_HAND_INLINE static member template, at the best width.
template <class Kernel, class... Args>
void run_best(Args... args) {
#if defined(__x86_64__)
  static const std::string isa = at::get_cpu_capability();
  if (isa == "AVX512")
    return Kernel::kContract ? run_avx512_fma<Kernel>(args...) : run_avx512<Kernel>(args...);
  if (isa == "AVX2")
    return Kernel::kContract ? run_avx2_fma<Kernel>(args...) : run_avx2<Kernel>(args...);
#endif
  Kernel::template run<4>(args...);
}

}  // namespace graft::workloads::hand
