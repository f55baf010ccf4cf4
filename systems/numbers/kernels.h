// The loops over codes, once per instruction set. Pointers to values are to fp32, or to bf16
// where a table's index says so (1).
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "graft/systems/numbers.h"

namespace graft::systems::numbers {

/// `n` numbers that are computed with at once.
template <class T, int n>
struct Vector {
  typedef T type __attribute__((vector_size(sizeof(T) * n)));
};

/// Values are to be read whole blocks at a time; without blocks any number.
struct EncodeTask {
  const void* values = nullptr;
  uint8_t* codes = nullptr;
  int64_t count = 0;
  int64_t first = 0;  ///< position of the first value in the tensor, for stochastic rounding
  uint64_t seed = 0;
  bool saturate = true;
  float tensor_scale = 1;
  int64_t block = 0;
  ScaleKind scale = ScaleKind::F32;
  void* scales = nullptr;    ///< of the first block; null without blocks
  bool past_caches = false;  ///< codes are too many to be read again from a cache
};

struct DecodeTask {
  const uint8_t* codes = nullptr;
  void* values = nullptr;
  int64_t count = 0;
  float tensor_scale = 1;
  int64_t block = 0;
  ScaleKind scale = ScaleKind::F32;
  const void* scales = nullptr;
  bool past_caches = false;  ///< values are too many to be read again from a cache
};

/// Rows of codes times one vector. `columns` is a multiple of 16.
struct DotTask {
  const uint8_t* codes = nullptr;  ///< of row 0
  const void* scales = nullptr;
  float tensor_scale = 1;
  int64_t block = 0;
  ScaleKind scale = ScaleKind::F32;
  int64_t columns = 0, begin = 0, end = 0;
  const float* x = nullptr;
  /// x as arrange() leaves it; null where the element has no such order.
  const float* arranged = nullptr;
  float* out = nullptr;      ///< of row 0
  float* scratch = nullptr;  ///< scratch_size() numbers
};

/// Rows whose scales a kernel reads at once.
constexpr int64_t kRowsOfScales = 8;

/// Numbers of scratch that a DotTask needs.
constexpr int64_t scratch_size(int64_t blocks_of_a_row) {
  return kRowsOfScales * blocks_of_a_row + 16;
}

constexpr size_t kElementCount = kElements.size();

struct Kernels {
  const char* name;
  /// By element, type of the values, and rounding. Gives the bits of the largest magnitude, 0
  /// with blocks.
  std::array<std::array<std::array<uint32_t (*)(const EncodeTask&), 2>, 2>, kElementCount> encode;
  std::array<std::array<void (*)(const DecodeTask&), 2>, kElementCount> decode;
  std::array<void (*)(const DotTask&), kElementCount> dot;
  /// The bits of the largest magnitude; above those of infinity where there is a NaN.
  std::array<uint32_t (*)(const void* values, int64_t count), 2> largest;
  /// Puts x in the order in which codes of 4 bits come out of words of 32.
  void (*arrange)(const float* x, int64_t columns, float* out);
};

extern const Kernels kAvx512Kernels, kAvx2Kernels, kBaselineKernels;

/// Those in use.
const Kernels& kernels();

}  // namespace graft::systems::numbers
