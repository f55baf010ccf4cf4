// Loops for this machine's vectors. AVX2 without FMA: multiplications and additions round as they
// do everywhere, so that processes on different machines agree in every bit.
#pragma once

namespace graft::systems {

template <auto kLoop, class... Args>
[[gnu::target("avx2")]] void with_avx2(Args... args) {
  kLoop(args...);
}

/// Calls `kLoop`, an always_inline function without result.
template <auto kLoop, class... Args>
void wide(Args... args) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  has_avx2 ? with_avx2<kLoop>(args...) : kLoop(args...);
}

}  // namespace graft::systems
