#include "systems/states/checksum.h"

#include <array>
#include <bit>
#include <cstring>

namespace graft::systems::states {
namespace {

constexpr uint64_t kOdd = 0x9E3779B97F4A7C15ULL;  // 2^64 / golden ratio

// One to one in each argument: a word that differs always makes another state.
uint64_t mix(uint64_t state, uint64_t word) {
  return std::rotl((state ^ word) * kOdd, 29);
}

}  // namespace

uint64_t checksum(const void* data, size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  // Each multiplication waits for the one before in its lane, and not for the others.
  std::array<uint64_t, 4> lanes = {kOdd, kOdd * 2, kOdd * 3, kOdd * 4};
  size_t at = 0;
  for (; at + sizeof(lanes) <= bytes; at += sizeof(lanes)) {
    std::array<uint64_t, 4> words;
    std::memcpy(words.data(), p + at, sizeof(words));
    lanes = {mix(lanes[0], words[0]), mix(lanes[1], words[1]), mix(lanes[2], words[2]),
             mix(lanes[3], words[3])};
  }
  uint64_t sum = bytes * kOdd;
  for (const uint64_t lane : lanes) sum = mix(sum, lane);
  for (; at < bytes; ++at) sum = mix(sum, p[at]);
  return sum ^ sum >> 32;
}

}  // namespace graft::systems::states
