// Size classes of the memory pool: four per doubling, from 64 bytes up.
#pragma once

#include <bit>
#include <cstddef>

namespace graft::runtime {

constexpr size_t kAlignment = 64;
/// From here on a block is a mapping of its own.
constexpr size_t kLargeBytes = size_t{1} << 20;

/// 1..64 → 0, 65..128 → 1, …, 256 → 3, 257..320 → 4, …: four equal steps per doubling.
constexpr int size_class(size_t bytes) {
  if (bytes <= 256) return bytes == 0 ? 0 : static_cast<int>((bytes - 1) / 64);
  int log = std::bit_width(bytes - 1) - 1;  // 2^log < bytes <= 2^(log + 1)
  int quarter = static_cast<int>((bytes - 1) >> (log - 2)) & 3;
  return (log - 8) * 4 + quarter + 4;
}

constexpr size_t class_bytes(int index) {
  if (index < 4) return static_cast<size_t>(index + 1) * 64;
  int log = (index - 4) / 4 + 8, quarter = (index - 4) % 4;
  return (size_t{1} << log) + (static_cast<size_t>(quarter + 1) << (log - 2));
}

constexpr int kClassesPerDoubling = 4;
/// The first and the last class of the doubling that a class from 4 on belongs to.
constexpr int first_of_doubling(int index) {
  return index / kClassesPerDoubling * kClassesPerDoubling;
}
constexpr int last_of_doubling(int index) {
  return first_of_doubling(index) + kClassesPerDoubling - 1;
}
/// Classes below are small.
constexpr int kSmallClasses = size_class(kLargeBytes);
/// From here on, a block of several pages, a block has room for the largest class of its doubling.
constexpr int kGrowingClasses = size_class(size_t{16} << 10) + 1;
/// Requests above are refused.
constexpr size_t kMaxBytes = size_t{1} << 46;
constexpr int kClasses = size_class(kMaxBytes) + 1;

static_assert(size_class(64) == 0 && size_class(65) == 1 && size_class(256) == 3 &&
              size_class(257) == 4);
static_assert(class_bytes(size_class(320)) == 320 && class_bytes(size_class(321)) == 384);
static_assert(class_bytes(last_of_doubling(size_class(513))) == 1024);
static_assert(class_bytes(size_class(512)) == 512 && class_bytes(size_class(513)) == 640);

}  // namespace graft::runtime
