// For any processor: vectors of four, whatever the compiler makes of them.
#include <utility>

#include "systems/numbers/kernels.h"

namespace graft::systems::numbers {
namespace baseline {
namespace {

constexpr int kLanes = 4;
using U = Vector<uint32_t, kLanes>::type;
using I = Vector<int32_t, kLanes>::type;
using F = Vector<float, kLanes>::type;
using Q = Vector<uint64_t, kLanes / 2>::type;

inline U widen_bytes(const uint8_t* from) {
  return U{from[0], from[1], from[2], from[3]};
}
inline Q widen_bytes_to_64(const uint8_t* from) {
  return Q{from[0], from[1]};
}
inline U widen_halves(const uint16_t* from) {
  return U{from[0], from[1], from[2], from[3]};
}
/// To each four lanes the next three bytes.
inline U spread_triples(const uint8_t* from) {
  return U{} +
         (from[0] | static_cast<uint32_t>(from[1]) << 8 | static_cast<uint32_t>(from[2]) << 16);
}
/// No instruction reads fp16.
constexpr bool kHasHalves = false;
using Bytes = U;
template <bool kIsUpperByte>
F from_halves(const uint8_t* from);
template <class T>
void watch_bytes(T& most, const uint8_t* from);
template <class T>
bool has_ones(T most);
inline void narrow_bytes(uint8_t* to, U x) {
  for (int i = 0; i < kLanes; ++i) to[i] = static_cast<uint8_t>(x[i]);
}
inline void narrow_halves(uint16_t* to, U x) {
  for (int i = 0; i < kLanes; ++i) to[i] = static_cast<uint16_t>(x[i]);
}
inline void narrow_sixes(uint8_t* to, U x) {
  const uint32_t four = x[0] | x[1] << 6 | x[2] << 12 | x[3] << 18;
  __builtin_memcpy(to, &four, 3);
}
inline void narrow_pairs(uint8_t* to, Q x) {
  for (int i = 0; i < kLanes / 2; ++i) to[i] = static_cast<uint8_t>(x[i]);
}
inline uint32_t largest_lane(U x) {
  uint32_t most = x[0];
  for (int i = 1; i < kLanes; ++i) most = x[i] > most ? x[i] : most;
  return most;
}
/// x[from[i]]; of the indices, bits above the lowest two do not count.
inline F permute(F x, U from) {
  F out;
  for (int i = 0; i < kLanes; ++i) out[i] = x[from[i] % kLanes];
  return out;
}
inline void stream(float* to, F x) {
  __builtin_memcpy(to, &x, sizeof(x));
}
inline void end_streams() {}

/// 16 numbers, to be looked up by the lowest four bits of indices.
struct Table {
  explicit Table(const float* all) { __builtin_memcpy(values, all, sizeof(values)); }
  F at(U index) const {
    F out;
    for (int i = 0; i < kLanes; ++i) out[i] = values[index[i] % 16];
    return out;
  }
  float values[16];
};

// In this order.
#include "systems/numbers/kernels_narrow.h"

#include "systems/numbers/kernels_body.h"

}  // namespace
}  // namespace baseline

const Kernels kBaselineKernels =
    baseline::kernels_for("baseline", std::make_index_sequence<kElementCount>());

}  // namespace graft::systems::numbers
