#include "systems/compression/codec.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "systems/compression/wide.h"

#pragma GCC push_options
#pragma GCC optimize("O3")  // vectorises the loops below

namespace graft::systems {
namespace {

constexpr int64_t kGrain = 32768;  // values per task at least

/// Calls `work(block, begin, end)`, in any order.
template <class Work>
void for_blocks(const Layout& layout, Work work) {
  at::parallel_for(0, layout.blocks(), std::max<int64_t>(1, kGrain / layout.block),
                   [&](int64_t first, int64_t last) {
                     for (int64_t b = first; b < last; ++b)
                       work(b, b * layout.block, std::min((b + 1) * layout.block, layout.count));
                   });
}

/// Magnitudes of floats compare as these numbers do; NaN is above infinity.
[[gnu::always_inline]] inline int32_t magnitude(float value) {
  return std::bit_cast<int32_t>(value) & 0x7fffffff;
}

[[gnu::always_inline]] inline void largest_magnitude(const float* values, int64_t count,
                                                     int32_t* out) {
  int32_t most = 0;
  for (int64_t i = 0; i < count; ++i) most = std::max(most, magnitude(values[i]));
  *out = most;
}

[[gnu::always_inline]] inline void round_to_nearest(const float* values, int64_t count,
                                                    float inverse, int8_t* codes) {
  // At this size a float's last place is 1, so that the sum is rounded to a whole number, which is
  // in the lowest bits.
  constexpr float kShift = 0x1.8p23f;
  for (int64_t i = 0; i < count; ++i)
    codes[i] = static_cast<int8_t>(std::bit_cast<int32_t>(values[i] * inverse + kShift));
}

[[gnu::always_inline]] inline void round_by_chance(const float* values, int64_t count,
                                                   float inverse, uint32_t seed, uint32_t first,
                                                   int8_t* codes) {
  for (int64_t i = 0; i < count; ++i) {
    // The finaliser of MurmurHash3 (Appleby); 16 bits of it, so that a whole number stays what it
    // is: 128 + chance is exact.
    uint32_t x = seed ^ ((first + static_cast<uint32_t>(i)) * 0x9e3779b9u);
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    const float chance = static_cast<float>(static_cast<int32_t>((x ^ (x >> 16)) >> 16)) * 0x1p-16f;
    const int32_t code = static_cast<int32_t>(values[i] * inverse + (128 + chance)) - 128;
    codes[i] = static_cast<int8_t>(std::min(std::max(code, -127), 127));
  }
}

[[gnu::always_inline]] inline void add_scaled(const int8_t* codes, int64_t count, float scale,
                                              float* sums) {
  for (int64_t i = 0; i < count; ++i) sums[i] += scale * static_cast<float>(codes[i]);
}

/// The sum of their magnitudes, in an order that vectors of any size have.
[[gnu::always_inline]] inline void sum_magnitudes(const float* values, int64_t count, float* out) {
  std::array<float, 16> lanes{};
  int64_t i = 0;
  for (; i + 16 <= count; i += 16)
    for (size_t lane = 0; lane < 16; ++lane)
      lanes[lane] += std::abs(values[i + static_cast<int64_t>(lane)]);
  for (; i < count; ++i) lanes[0] += std::abs(values[i]);
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  *out = sum;
}

/// A 1 for each value that is not negative.
[[gnu::always_inline]] inline void signs_of(const float* values, int64_t count, uint8_t* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = values[i] >= 0;
}

[[gnu::always_inline]] inline void subtract_signs(float* values, int64_t count, float scale) {
  for (int64_t i = 0; i < count; ++i) values[i] -= values[i] >= 0 ? scale : -scale;
}

/// 1 or -1 for each bit of a byte.
constexpr auto kSigns = [] {
  std::array<std::array<float, 8>, 256> out{};
  for (size_t byte = 0; byte < 256; ++byte)
    for (size_t bit = 0; bit < 8; ++bit) out[byte][bit] = byte >> bit & 1 ? 1.0f : -1.0f;
  return out;
}();

[[gnu::always_inline]] inline void add_signs(const uint8_t* bits, int64_t bytes, float scale,
                                             float* sums) {
  for (int64_t i = 0; i < bytes; ++i)
    for (size_t bit = 0; bit < 8; ++bit)
      sums[8 * i + static_cast<int64_t>(bit)] += scale * kSigns[bits[i]][bit];
}

float scale_of(const uint8_t* bytes, const Layout& layout, int64_t block) {
  float scale;
  std::memcpy(&scale, bytes + layout.code_bytes() + 4 * block, 4);
  return scale;
}

void set_scale(uint8_t* bytes, const Layout& layout, int64_t block, float scale) {
  std::memcpy(bytes + layout.code_bytes() + 4 * block, &scale, 4);
}

}  // namespace

void encode_bytes(const float* values, const Layout& layout, CodeRounding rounding, uint8_t* out) {
  for_blocks(layout, [&](int64_t block, int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    int32_t bits = 0;
    wide<largest_magnitude>(values + begin, count, &bits);
    const float most = std::bit_cast<float>(bits);
    int8_t* codes = reinterpret_cast<int8_t*>(out) + begin;
    // 127 / most overflows for the smallest numbers; such a block is as good as zero.
    if (!std::isfinite(most) || most < std::numeric_limits<float>::min() * 128) {
      set_scale(out, layout, block,
                std::isfinite(most) ? 0 : std::numeric_limits<float>::quiet_NaN());
      std::fill(codes, codes + count, int8_t{0});
      return;
    }
    set_scale(out, layout, block, most / 127);
    const float inverse = 127 / most;
    if (rounding.stochastic)
      wide<round_by_chance>(values + begin, count, inverse, rounding.seed,
                            static_cast<uint32_t>(begin), codes);
    else
      wide<round_to_nearest>(values + begin, count, inverse, codes);
  });
}

void add_bytes(const uint8_t* bytes, const Layout& layout, float* sums) {
  const int8_t* codes = reinterpret_cast<const int8_t*>(bytes);
  for_blocks(layout, [&](int64_t block, int64_t begin, int64_t end) {
    wide<add_scaled>(codes + begin, end - begin, scale_of(bytes, layout, block), sums + begin);
  });
}

void encode_bits(float* values, const Layout& layout, bool subtract, uint8_t* out) {
  for_blocks(layout, [&](int64_t block, int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    float sum = 0;
    wide<sum_magnitudes>(static_cast<const float*>(values) + begin, count, &sum);
    const bool finite = std::isfinite(sum);
    const float scale =
        finite ? sum / static_cast<float>(count) : std::numeric_limits<float>::quiet_NaN();
    set_scale(out, layout, block, scale);
    constexpr int64_t kTile = 512;
    std::array<uint8_t, kTile> signs;
    for (int64_t i = begin; i < end; i += kTile) {
      const int64_t in_tile = std::min(kTile, end - i);
      wide<signs_of>(static_cast<const float*>(values) + i, in_tile, signs.data());
      std::fill(signs.begin() + in_tile, signs.end(), uint8_t{0});
      for (int64_t j = 0; j < in_tile; j += 8) {
        uint64_t eight;
        std::memcpy(&eight, signs.data() + j, 8);
        // The bits of the factor move bit 8 j to bit 56 + j.
        out[(i + j) / 8] = static_cast<uint8_t>(eight * 0x0102040810204080u >> 56);
      }
    }
    if (!subtract) return;
    if (finite)
      wide<subtract_signs>(values + begin, count, scale);
    else
      std::fill(values + begin, values + end, 0.0f);
  });
}

void add_bits(const uint8_t* bytes, const Layout& layout, float* sums) {
  for_blocks(layout, [&](int64_t block, int64_t begin, int64_t end) {
    const float scale = scale_of(bytes, layout, block);
    const int64_t whole = (end - begin) / 8;
    wide<add_signs>(bytes + begin / 8, whole, scale, sums + begin);
    for (int64_t i = begin + 8 * whole; i < end; ++i)
      sums[i] += scale * kSigns[bytes[i / 8]][static_cast<size_t>(i % 8)];
  });
}

std::vector<int32_t> largest(const float* values, int64_t count, int64_t k) {
  // Finds the k-th largest magnitude by its upper, middle and lowest bits: passes over the values
  // with few counters, where sorting would compare each with twenty others.
  int32_t least = 0;
  int64_t wanted = k;
  for (const auto& [shift, bits] : {std::pair(19, 12), {7, 12}, {0, 7}}) {
    std::array<int32_t, 1 << 12> counters{};
    const int32_t mask = (1 << bits) - 1;
    for (int64_t i = 0; i < count; ++i) {
      const int32_t m = magnitude(values[i]);
      if (static_cast<int64_t>(m) >> (shift + bits) == least)
        ++counters[static_cast<size_t>(m >> shift & mask)];
    }
    int32_t bin = mask;
    while (counters[static_cast<size_t>(bin)] < wanted)
      wanted -= counters[static_cast<size_t>(bin--)];
    least = least << bits | bin;
  }
  // Of those equal to it, `wanted` are taken.
  std::vector<int32_t> out;
  out.reserve(static_cast<size_t>(k));
  for (int64_t i = 0; i < count; ++i) {
    const int32_t m = magnitude(values[i]);
    if (m > least || (m == least && wanted-- > 0)) out.push_back(static_cast<int32_t>(i));
  }
  return out;
}

}  // namespace graft::systems

#pragma GCC pop_options
