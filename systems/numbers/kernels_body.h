// The loops over codes, on vectors of kLanes numbers. Without a guard: each instruction set
// includes it once, within its namespace and target, below its own types U (uint32), I (int32), F
// (float) and Q (uint64, half as many lanes) and the functions on them that compilers do not find
// by themselves.

/// Blocks whose scales are made at once: at most, and such that their values stay in the first
/// cache.
constexpr int kTile = 64;
constexpr int64_t kTileValues = 2048;
inline int64_t tile_of(int64_t block) {
  const int64_t most = block < kTileValues ? kTileValues / block : 1;
  return most < kTile ? most : kTile;
}

/// Memory takes that many bytes' coding to answer. With what is asked for, a tile stays in the
/// first cache.
constexpr int64_t kAhead = 16384;

/// Values whose codes are stored at once.
constexpr int kGroup = 4 * kLanes;

inline U broadcast(uint32_t x) {
  return U{} + x;
}
inline F broadcast(float x) {
  return x - F{};  // which compilers know to be x, as they do not of x + 0
}
inline U smaller(U a, U b) {
  return a < b ? a : b;
}
inline U larger(U a, U b) {
  return a > b ? a : b;
}
inline U bits_of(F x) {
  return (U)x;
}

inline U magnitudes(F x) {
  return (U)x & 0x7fffffff;
}

constexpr uint32_t kSignBit = 0x80000000, kInfinityBits = 0x7f800000, kNanBits = 0x7fc00000;
constexpr uint32_t kSmallestNormal = 0x00800000;

constexpr float power_of_two(int exponent) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(exponent + 127) << 23);
}

/// The bits of a magnitude, or the limit's if it is above that or not a number.
inline U cut_off(F x, U limit) {
  if constexpr (kHasRange)
    return bits_of(least_magnitude<true>(x, (F)limit));
  else
    return smaller(magnitudes(x), limit);
}
/// … with the number's sign.
inline F cut_off_signed(F x, U limit) {
  if constexpr (kHasRange)
    return least_magnitude<false>(x, (F)limit);
  else
    return (F)(smaller(magnitudes(x), limit) | (bits_of(x) & kSignBit));
}

/// What follows from an element.
template <int kElement>
struct Coding {
  static constexpr const Element& kIs = kElements[kElement];
  static constexpr uint32_t kMask = (1u << kIs.bits) - 1;
  static constexpr int kShift = 23 - kIs.mantissa_bits;  // of a mantissa within fp32's
  static constexpr uint32_t kMaxBits = __builtin_bit_cast(uint32_t, kIs.max);
  static constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kIs.bias) << kIs.mantissa_bits;
  static constexpr uint32_t kMaxCode = (kMaxBits >> kShift) - kRebias;  // of a float
  static constexpr uint32_t kNanCode = kMask >> 1;
  static constexpr uint32_t kOverflowCode = kIs.has_infinity ? kMaxCode + 1 : kNanCode;
  static constexpr int kUlp = 1 - kIs.bias - kIs.mantissa_bits;  // exponent, of a subnormal
  static constexpr uint32_t kMinNormalBits =
      __builtin_bit_cast(uint32_t, power_of_two(1 - kIs.bias));
};

// ---- Values and codes in memory

inline F load(const float* from) {
  F x;
  __builtin_memcpy(&x, from, sizeof(x));
  return x;
}
inline F load(const uint16_t* from) {
  return (F)(widen_halves(from) << 16);
}

inline void store(float* to, F x) {
  __builtin_memcpy(to, &x, sizeof(x));
}
inline void store(uint16_t* to, F x) {
  const U bits = bits_of(x);
  const U rounded = bits + 0x7fff + ((bits >> 16) & 1);
  narrow_halves(to, ((bits & ~kSignBit) > kInfinityBits ? bits | 0x400000 : rounded) >> 16);
}

template <int kBits>
inline void store_codes(uint8_t* to, U codes) {
  if constexpr (kBits == 8) {
    narrow_bytes(to, codes);
  } else if constexpr (kBits == 6) {
    narrow_sixes(to, codes);
  } else {
    const Q both = (Q)codes;
    narrow_pairs(to, both | (both >> 28));
  }
}

/// Of four vectors; past the caches where the instruction set can and the first codes of all lie at
/// a multiple of 64 bytes.
template <int kBits>
inline void store_codes(uint8_t* to, const U (&codes)[4], bool past_caches) {
  if constexpr (kPacksFour) {
    pack_four<kBits>(to, codes, past_caches);
  } else {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) store_codes<kBits>(to + i * kLanes * kBits / 8, codes[i]);
  }
}

/// Codes in the low bits; above those of 4 bits there may be others.
template <int kBits>
inline U load_codes(const uint8_t* from) {
  if constexpr (kBits == 8) {
    return widen_bytes(from);
  } else if constexpr (kBits == 6) {
    U shifts;
    for (int i = 0; i < kLanes; ++i) shifts[i] = static_cast<uint32_t>(i % 4 * 6);
    return (spread_triples(from) >> shifts) & 63;
  } else {
    const Q pairs = widen_bytes_to_64(from);
    return (U)(pairs | (pairs << 28));
  }
}

// ---- One vector

/// Counter-based: 32 bits for each position.
inline U random_bits(uint64_t seed, int64_t position) {
  const uint64_t high = static_cast<uint64_t>(position) >> 32;
  uint64_t key = (seed + high * 0x9e3779b97f4a7c15u) ^ 0x2545f4914f6cdd1du;
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9u;
  key = (key ^ (key >> 27)) * 0x94d049bb133111ebu;
  U x = broadcast(static_cast<uint32_t>(position)) ^ static_cast<uint32_t>(key);
  for (int i = 0; i < kLanes; ++i)
    x[i] = static_cast<uint32_t>(position + i) ^ static_cast<uint32_t>(key);
  x = (x ^ (x >> 16)) * 0x7feb352du + static_cast<uint32_t>(key >> 32);
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

/// The bits at which magnitudes are cut off: the max, or what rounds to a code above the max's.
template <int kElement>
inline U limit_of(bool saturate) {
  using C = Coding<kElement>;
  constexpr uint32_t kBeyond = (C::kMaxBits & kInfinityBits) + kSmallestNormal;
  return broadcast(saturate || !C::kIs.has_nan ? C::kMaxBits : kBeyond);
}

/// kPlain: x has no NaN, and the limit is the max.
template <int kElement, bool kStochastic, bool kPlain>
inline U encode_lanes(F x, U limit, U random) {
  using C = Coding<kElement>;
  constexpr uint32_t kLow = C::kMask >> 1;
  // What is added to a number to be rounded has one ulp as its own, and a mantissa such that the
  // sum's lowest bits are the code.
  if constexpr (!kStochastic && C::kIs.is_integer()) {
    constexpr float kUp = 1.5f * power_of_two(23 + C::kUlp);
    return bits_of(cut_off_signed(x, limit) + kUp) & C::kMask;
  }
  const U bits = cut_off(x, limit);
  U code;
  if constexpr (!kStochastic) {
    // What an ulp is follows from the exponent, which is that of the smallest normal code at least.
    constexpr uint32_t kUp = static_cast<uint32_t>(C::kShift) << 23;
    const U exponent = larger(bits, broadcast(C::kMinNormalBits)) & kInfinityBits;
    const U up = exponent + (exponent >> C::kShift) + (kUp - (C::kMinNormalBits >> C::kShift));
    code = bits_of((F)bits + (F)up);
    if constexpr (kPlain || !C::kIs.has_nan)
      return (code & kLow) | ((bits_of(x) >> (32 - C::kIs.bits)) & ~kLow);
    code = code & C::kMask;
  } else {
    // Below the smallest normal code, multiples of one ulp.
    const F ulps = (F)smaller(bits, broadcast(C::kMinNormalBits)) * power_of_two(-C::kUlp);
    const I whole = __builtin_convertvector(ulps, I);
    const F rest = ulps - __builtin_convertvector(whole, F);
    const F chance = __builtin_convertvector((I)(random >> 8), F) * power_of_two(-24);
    code = (U)whole - (U)(chance < rest);  // a comparison gives -1
    if constexpr (!C::kIs.is_integer()) {
      const U normal = ((bits + (random & ((1u << C::kShift) - 1))) >> C::kShift) - C::kRebias;
      code = bits < C::kMinNormalBits ? code : normal;
    }
  }
  const U sign = bits_of(x) & kSignBit;
  if constexpr (C::kIs.is_integer()) {
    const U negative = (U)((I)sign >> 31);
    return ((code ^ negative) - negative) & C::kMask;
  } else {
    if constexpr (C::kIs.has_nan && !kPlain) {
      code = code > C::kMaxCode ? broadcast(C::kOverflowCode) : code;
      code = magnitudes(x) > kInfinityBits ? broadcast(C::kNanCode) : code;
    }
    return code | (sign >> (32 - C::kIs.bits));
  }
}

/// From codes with nothing above them.
template <int kElement>
inline F decode_lanes(U code) {
  using C = Coding<kElement>;
  constexpr int kAbove = 32 - C::kIs.bits;
  if constexpr (C::kIs.is_integer()) {
    return __builtin_convertvector((I)(code << kAbove) >> kAbove, F);
  } else {
    const U magnitude = code & (C::kMask >> 1);
    const U normal = (magnitude << C::kShift) + (static_cast<uint32_t>(127 - C::kIs.bias) << 23);
    const F subnormal = (F)(normal + kSmallestNormal) - power_of_two(1 - C::kIs.bias);
    U bits = magnitude < (1u << C::kIs.mantissa_bits) ? bits_of(subnormal) : normal;
    if constexpr (C::kIs.has_nan) bits = magnitude > C::kMaxCode ? bits | kInfinityBits : bits;
    return (F)(bits | ((code << kAbove) & kSignBit));
  }
}

inline U lanes_from(int first) {
  U out;
  for (int lane = 0; lane < kLanes; ++lane) out[lane] = static_cast<uint32_t>(first + lane);
  return out;
}

/// The numbers of the first codes.
template <int kElement, int kCount>
struct Values {
  Values() {
    for (int i = 0; i < kCount; i += kLanes) store(all + i, decode_lanes<kElement>(lanes_from(i)));
  }
  alignas(64) float all[kCount];
};

/// Decodes what load_codes gives.
template <int kElement>
struct Decoder {
  F operator()(U code) const { return decode_lanes<kElement>(code); }
};
template <int kElement>
  requires(kElements[kElement].bits == 6 && kHasWideTable)
struct Decoder<kElement> {
  F operator()(U code) const { return (F)(bits_of(table.at(code)) | ((code << 26) & kSignBit)); }
  WideTable<kElement> table{Values<kElement, 32>().all};
};
template <int kElement>
  requires(kElements[kElement].bits == 4)
struct Decoder<kElement> {
  F operator()(U code) const { return table.at(code); }
  Table table{Values<kElement, 16>().all};
};

// ---- The largest of many vectors at once

/// Lane l has the larger of lanes l and l ^ kStep: of b where l has that bit, else of a.
template <int kStep, int... lane>
inline U fold(U a, U b, std::integer_sequence<int, lane...>) {
  return larger(
      __builtin_shufflevector(a, b, (lane & kStep ? kLanes + lane : lane)...),
      __builtin_shufflevector(a, b, (lane & kStep ? kLanes + (lane ^ kStep) : lane ^ kStep)...));
}

/// Lane l has the largest lane of vector_at(l); of fewer vectors, from `first` on, the largest of
/// as many lanes as there are vectors.
template <int kCount = kLanes, class VectorAt>
[[gnu::always_inline]] inline U largest_lanes(const VectorAt& vector_at, int first = 0) {
  if constexpr (kCount == 1)
    return vector_at(first);
  else
    return fold<kCount / 2>(largest_lanes<kCount / 2>(vector_at, first),
                            largest_lanes<kCount / 2>(vector_at, first + kCount / 2),
                            std::make_integer_sequence<int, kLanes>());
}

// ---- Scales of blocks

#include "systems/numbers/kernels_scales.h"

// ---- Ranges

template <class T>
uint32_t largest(const void* values, int64_t count) {
  const T* x = static_cast<const T*>(values);
  U all[4] = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes)
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) all[k] = larger(all[k], magnitudes(load(x + i + k * kLanes)));
  for (; i + kLanes <= count; i += kLanes) all[0] = larger(all[0], magnitudes(load(x + i)));
  if (i < count) {
    T rest[kLanes] = {};
    __builtin_memcpy(rest, x + i, static_cast<size_t>(count - i) * sizeof(T));
    all[0] = larger(all[0], magnitudes(load(rest)));
  }
  return largest_lane(larger(larger(all[0], all[1]), larger(all[2], all[3])));
}

/// Values of the task, from `done` on, times a factor.
template <int kElement, class T, bool kStochastic, bool kPlain>
inline U encode_at(const EncodeTask& task, const T* from, int64_t done, float factor, U limit) {
  U random = {};
  if constexpr (kStochastic) random = random_bits(task.seed, task.first + done);
  return encode_lanes<kElement, kStochastic, kPlain>(load(from) * factor, limit, random);
}

/// Values [begin, end) of the task, whole groups of four vectors. Gives the largest magnitudes.
template <int kElement, class T, bool kStochastic, bool kPlain>
inline U encode_groups(const EncodeTask& task, int64_t begin, int64_t end, float factor, U limit) {
  constexpr int kBits = kElements[kElement].bits;
  const T* x = static_cast<const T*>(task.values);
  U most = {};
  for (int64_t i = begin; i < end; i += kGroup) {
    U codes[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const int64_t done = i + k * kLanes;
      __builtin_prefetch(reinterpret_cast<const char*>(x + done) + kAhead);
      most = larger(most, magnitudes(load(x + done)));
      codes[k] = encode_at<kElement, T, kStochastic, kPlain>(task, x + done, done, factor, limit);
    }
    store_codes<kBits>(task.codes + i * kBits / 8, codes, task.past_caches);
  }
  return most;
}

/// One factor for all.
template <int kElement, class T, bool kStochastic>
uint32_t encode_tensor(const EncodeTask& task) {
  constexpr int kBits = kElements[kElement].bits;
  constexpr int64_t kPart = 16 * kGroup;
  const T* x = static_cast<const T*>(task.values);
  const U limit = limit_of<kElement>(task.saturate);
  const float factor = 1.0f / task.tensor_scale;
  U most = {};
  int64_t i = 0;
  for (const int64_t groups = task.count / kGroup * kGroup; i < groups;) {
    const int64_t end = i + kPart < groups ? i + kPart : groups;
    U here;
    if (task.saturate) {
      here = encode_groups<kElement, T, kStochastic, true>(task, i, end, factor, limit);
      if (largest_lane(here) > kInfinityBits)  // again, with an eye on NaNs
        encode_groups<kElement, T, kStochastic, false>(task, i, end, factor, limit);
    } else {
      here = encode_groups<kElement, T, kStochastic, false>(task, i, end, factor, limit);
    }
    most = larger(most, here);
    i = end;
  }
  for (; i + kLanes <= task.count; i += kLanes) {
    most = larger(most, magnitudes(load(x + i)));
    store_codes<kBits>(task.codes + i * kBits / 8,
                       encode_at<kElement, T, kStochastic, false>(task, x + i, i, factor, limit));
  }
  if (i < task.count) {  // codes of 8 bits only
    T rest[kLanes] = {};
    uint8_t codes[kLanes];
    __builtin_memcpy(rest, x + i, static_cast<size_t>(task.count - i) * sizeof(T));
    most = larger(most, magnitudes(load(rest)));
    store_codes<8>(codes, encode_at<kElement, T, kStochastic, false>(task, rest, i, factor, limit));
    __builtin_memcpy(task.codes + i, codes, static_cast<size_t>(task.count - i));
  }
  return largest_lane(most);
}

/// A factor for each block; kBlock: its size, 0: the task's. A block with a NaN has a NaN as
/// scale, and no other value is much above the max: elements need not look for either.
template <int kElement, class T, bool kStochastic, int kBlock>
uint32_t encode_blocks(const EncodeTask& task) {
  constexpr int kBits = kElements[kElement].bits;
  constexpr int64_t kKnown = kBlock == 0 ? 1 : kBlock;
  const int64_t block = kBlock == 0 ? task.block : kBlock, blocks = task.count / block;
  const U limit = limit_of<kElement>(true);
  const int64_t most_tile = tile_of(block);
  // Runs that begin anywhere are stored through the caches.
  const bool past_caches = task.past_caches && (kBlock != 0 || block * kBits / 8 % 64 == 0);
  for (int64_t b = 0; b < blocks; b += most_tile) {
    const int64_t tile = blocks - b < most_tile ? blocks - b : most_tile;
    alignas(64) float factors[kTile];
    const T* x = static_cast<const T*>(task.values) + b * block;
    const auto most_of = [&](int64_t i) {
      const T* from = static_cast<const T*>(task.values) + i * block;
      U all = magnitudes(load(from));
#pragma GCC unroll 8
      for (int64_t k = kLanes; k < block; k += kLanes)
        all = larger(all, magnitudes(load(from + k)));
      return all;
    };
    make_scales<kElement>(task, most_of, b, tile, factors);
    // Runs of blocks, as far as it is known which vector is in which; else of one block.
    const int64_t run = kBlock == 0 ? block : tile * block;
    for (int64_t first = 0; first < tile * block; first += run) {
      const float* factor = factors + (kBlock == 0 ? first / block : 0);
      const auto code = [&](int64_t k) {
        // The passes over magnitudes would wait for memory, while this one does not use it.
        __builtin_prefetch(reinterpret_cast<const char*>(x + first + k) + kAhead);
        return encode_at<kElement, T, kStochastic, true>(task, x + first + k, b * block + first + k,
                                                         factor[kBlock == 0 ? 0 : k / kKnown],
                                                         limit);
      };
      uint8_t* to = task.codes + (b * block + first) * kBits / 8;
      int64_t k = 0;
      for (; k + kGroup <= run; k += kGroup) {
        U codes[4];
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) codes[v] = code(k + v * kLanes);
        store_codes<kBits>(to + k * kBits / 8, codes, past_caches);
      }
      for (; k < run; k += kLanes) store_codes<kBits>(to + k * kBits / 8, code(k));
    }
  }
  return 0;
}

template <int kElement, class T, bool kStochastic>
uint32_t encode_all(const EncodeTask& task) {
  if (task.block == 0) return encode_tensor<kElement, T, kStochastic>(task);
  if constexpr (!kStochastic) {
    if (task.block == 16) return encode_blocks<kElement, T, kStochastic, 16>(task);
    if (task.block == 32) return encode_blocks<kElement, T, kStochastic, 32>(task);
  }
  return encode_blocks<kElement, T, kStochastic, 0>(task);
}

template <int kElement, class T, bool kStochastic>
uint32_t encode(const EncodeTask& task) {
  EncodeTask mine = task;
  if (reinterpret_cast<uintptr_t>(task.codes) % 64 != 0) mine.past_caches = false;
  const uint32_t most = encode_all<kElement, T, kStochastic>(mine);
  if (mine.past_caches) end_streams();
  return most;
}

template <int kElement, class T, bool kStream>
inline void decode_at(const Decoder<kElement>& decoder, const DecodeTask& task, int64_t done,
                      float scale) {
  constexpr int kBits = kElements[kElement].bits;
  const F value = decoder(load_codes<kBits>(task.codes + done * kBits / 8)) * scale;
  T* to = static_cast<T*>(task.values) + done;
  if constexpr (kStream)
    stream(to, value);
  else
    store(to, value);
}

/// One scale for all.
template <int kElement, class T, bool kStream>
void decode_tensor(const DecodeTask& task) {
  const Decoder<kElement> decoder;
  int64_t i = 0;
  for (; i + kLanes <= task.count; i += kLanes)
    decode_at<kElement, T, kStream>(decoder, task, i, task.tensor_scale);
  if (i < task.count) {  // codes of 8 bits only
    T rest[kLanes];
    uint8_t codes[kLanes] = {};
    __builtin_memcpy(codes, task.codes + i, static_cast<size_t>(task.count - i));
    store(rest, decoder(load_codes<8>(codes)) * task.tensor_scale);
    __builtin_memcpy(static_cast<T*>(task.values) + i, rest,
                     static_cast<size_t>(task.count - i) * sizeof(T));
  }
}

/// A scale for each block; kBlock: its size, 0: the task's.
template <int kElement, class T, bool kStream, int kBlock>
void decode_blocks(const DecodeTask& task) {
  const Decoder<kElement> decoder;
  const int64_t block = kBlock == 0 ? task.block : kBlock, blocks = task.count / block;
  for (int64_t b = 0; b < blocks; b += kTile) {
    const int64_t tile = blocks - b < kTile ? blocks - b : kTile;
    alignas(64) float scales[kTile + kLanes];
    read_scales(task.scale, task.scales, task.tensor_scale, b, tile, scales);
    for (int64_t i = 0; i < tile; ++i)
#pragma GCC unroll 4
      for (int64_t k = 0; k < block; k += kLanes)
        decode_at<kElement, T, kStream>(decoder, task, (b + i) * block + k, scales[i]);
  }
}

template <int kElement, class T, bool kStream>
void decode_all(const DecodeTask& task) {
  if (task.block == 0) return decode_tensor<kElement, T, kStream>(task);
  if (task.block == 16) return decode_blocks<kElement, T, kStream, 16>(task);
  if (task.block == 32) return decode_blocks<kElement, T, kStream, 32>(task);
  return decode_blocks<kElement, T, kStream, 0>(task);
}

template <int kElement, class T>
void decode(const DecodeTask& task) {
  if constexpr (std::is_same_v<T, float>) {
    if (task.past_caches && reinterpret_cast<uintptr_t>(task.values) % sizeof(F) == 0) {
      decode_all<kElement, T, true>(task);
      return end_streams();
    }
  }
  decode_all<kElement, T, false>(task);
}

#include "systems/numbers/kernels_dot.h"

// ---- The table

template <int kElement, class T>
constexpr std::array<uint32_t (*)(const EncodeTask&), 2> kEncoders = {encode<kElement, T, false>,
                                                                      encode<kElement, T, true>};

template <size_t... kElement>
constexpr Kernels kernels_for(const char* name, std::index_sequence<kElement...>) {
  return {name,
          {{{kEncoders<kElement, float>, kEncoders<kElement, uint16_t>}...}},
          {{{decode<kElement, float>, decode<kElement, uint16_t>}...}},
          {dot<kElement>...},
          {largest<float>, largest<uint16_t>},
          arrange};
}
