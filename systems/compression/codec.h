// Gradients as bytes: loops over plain memory, the same result with any number of threads.
#pragma once

#include <cstdint>
#include <vector>

namespace graft::systems {

/// The bytes of `count` values: codes, and behind them a scale per block.
struct Layout {
  int64_t count = 0, block = 1;
  bool bits = false;  ///< a code is a bit, not a byte

  int64_t blocks() const { return (count + block - 1) / block; }
  /// Up to the scales, a multiple of 4.
  int64_t code_bytes() const { return ((bits ? (count + 7) / 8 : count) + 3) / 4 * 4; }
  int64_t bytes() const { return code_bytes() + 4 * blocks(); }
};

/// Chance for rounding: a function of the seed and a value's index.
struct CodeRounding {
  bool stochastic = false;
  uint32_t seed = 0;
};

/// Codes from -127 to 127. A block with a value that is not finite gets a NaN as scale.
void encode_bytes(const float* values, const Layout& layout, CodeRounding rounding, uint8_t* out);
/// sums += what the bytes stand for.
void add_bytes(const uint8_t* bytes, const Layout& layout, float* sums);

/// Signs; `block` must be a multiple of 8. With `subtract`, `values` becomes what the bits leave
/// out: zero in a block with a value that is not finite, whose scale is a NaN.
void encode_bits(float* values, const Layout& layout, bool subtract, uint8_t* out);
void add_bits(const uint8_t* bytes, const Layout& layout, float* sums);

/// Indices of the `k` values of largest magnitude, in ascending order; of equal ones the first. NaN
/// counts as larger than any.
std::vector<int32_t> largest(const float* values, int64_t count, int64_t k);

}  // namespace graft::systems
