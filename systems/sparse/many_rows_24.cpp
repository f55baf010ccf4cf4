// A packed weight times many rows. Rows lie side by side, so that a kept weight multiplies a vector
// of them wherever its column stands: half of a dense product's multiplications.
#include <ATen/Version.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "systems/sparse/sparse_24.h"

namespace graft::systems {
namespace {

constexpr int64_t kWords = 4;     // whose columns' rows stay in the first cache: 32 KiB at most
constexpr int64_t kOutputs = 64;  // whose sums stay in the second, and whose pages in the TLB

template <int W>
struct Vector {
  typedef float Type __attribute__((vector_size(W * 4)));
};

/// Sums of `Vectors` vectors of rows, in as many chains as hide an addition's latency.
template <int W, int Vectors>
struct Sums {
  using V = typename Vector<W>::Type;
  static constexpr int kChains = 4 / Vectors;
  V chains[kChains][Vectors] = {};

  /// A word of places: 16 values, of 32 columns. `x`: those columns' rows.
  __attribute__((always_inline)) void add(uint32_t places, const float* values, const float* x) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      const float* from = x + (i / 2 * 4 + ((places >> 2 * i) & 3)) * (W * Vectors);
      const V value = values[i] - V{};  // less 0 is a plain broadcast; 0 plus it is not, for -0
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) {
        V part;
        std::memcpy(&part, from + v * W, sizeof part);
        chains[i % kChains][v] += value * part;
      }
    }
  }

  __attribute__((always_inline)) void load(const float* from) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) std::memcpy(&chains[0][v], from + v * W, sizeof(V));
  }
  __attribute__((always_inline)) void store(float* to) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
#pragma GCC unroll 4
      for (int c = 1; c < kChains; ++c) chains[0][v] += chains[c][v];
      std::memcpy(to + v * W, &chains[0][v], sizeof(V));
    }
  }
};

template <int W, int Vectors>
__attribute__((always_inline)) inline void multiply(const Packed<float>& w, const float* x,
                                                    float* y, int64_t begin, int64_t end) {
  constexpr int kWidth = W * Vectors;
  const int64_t words = w.columns / 32;
  for (int64_t tile = begin; tile < end; tile += kOutputs)
    for (int64_t first = 0; first < words; first += kWords) {
      const int64_t last = std::min(words, first + kWords);
      for (int64_t o = tile; o < std::min(end, tile + kOutputs); ++o) {
        Sums<W, Vectors> sums;
        if (first > 0) sums.load(y + o * kWidth);
        for (int64_t word = first; word < last; ++word) {
          const int64_t at = o * words + word;
          // Rows of the weight are read in pieces, which no hardware foresees.
          __builtin_prefetch(w.values + (at + kWords) * 16);
          sums.add(w.places[at], w.values + at * 16, x + word * 32 * kWidth);
        }
        sums.store(y + o * kWidth);
      }
    }
}

template <int W>
__attribute__((always_inline)) inline void multiply(const Packed<float>& w, const float* x,
                                                    float* y, int vectors, int64_t begin,
                                                    int64_t end) {
  if (vectors == 1) return multiply<W, 1>(w, x, y, begin, end);
  if (vectors == 2) return multiply<W, 2>(w, x, y, begin, end);
  multiply<W, 4>(w, x, y, begin, end);
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma"))) void multiply_avx512(
    const Packed<float>& w, const float* x, float* y, int vectors, int64_t begin, int64_t end) {
  multiply<16>(w, x, y, vectors, begin, end);
}
__attribute__((target("avx2,fma"))) void multiply_avx2(const Packed<float>& w, const float* x,
                                                       float* y, int vectors, int64_t begin,
                                                       int64_t end) {
  multiply<8>(w, x, y, vectors, begin, end);
}
#endif
void multiply_portable(const Packed<float>& w, const float* x, float* y, int vectors, int64_t begin,
                       int64_t end) {
  multiply<4>(w, x, y, vectors, begin, end);
}

struct Routine {
  int lanes;
  void (*run)(const Packed<float>&, const float*, float*, int, int64_t, int64_t);
};
const Routine& routine() {
  static const Routine best = [] {
#if defined(__x86_64__)
    const std::string isa = at::get_cpu_capability();
    if (isa == "AVX512") return Routine{16, multiply_avx512};
    if (isa == "AVX2") return Routine{8, multiply_avx2};
#endif
    return Routine{4, multiply_portable};
  }();
  return best;
}

}  // namespace

int64_t many_rows_lanes() {
  return routine().lanes;
}

void many_rows(const Packed<float>& w, const float* x, float* y, int vectors, int64_t begin,
               int64_t end) {
  routine().run(w, x, y, vectors, begin, end);
}

}  // namespace graft::systems
