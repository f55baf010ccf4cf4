// Scales of blocks, made and read. A part of kernels_body.h, and without a guard as that is.

/// What kLanes blocks are coded with: their scales as they are stored, and what their values are to
/// be multiplied by.
struct Scales {
  F scale;  ///< of ScaleKind::F32
  U code;   ///< of the others
  F factor;
};
/// From the bits of the blocks' largest magnitudes.
template <int kElement, ScaleKind kScale>
[[gnu::always_inline]] inline Scales scales_for(U bits, float tensor_scale) {
  constexpr const Element& kIs = kElements[kElement];
  constexpr int kE4m3 = element_index("e4m3");
  constexpr int kMaxExponent = static_cast<int>(Coding<kElement>::kMaxBits >> 23) - 127;
  const auto is_finite = bits < kInfinityBits;
  Scales out{};
  if constexpr (kScale == ScaleKind::E8M0) {
    const I exponent = (I)(bits >> 23) - kMaxExponent;
    const U code = (U)(exponent > 1 ? exponent : I{} + 1);
    out.factor = (F)((254 - code) << 23);
    out.code = is_finite ? code : broadcast(uint32_t{255});
  } else if constexpr (kScale == ScaleKind::E4M3) {
    const F scale = (F)bits / (kIs.max * tensor_scale);
    const U rounded = encode_lanes<kE4m3, false, true>(scale, limit_of<kE4m3>(true), U{});
    const U code = larger(rounded, broadcast(uint32_t{1}));
    out.factor = 1.0f / (decode_lanes<kE4m3>(code) * tensor_scale);
    out.code = is_finite ? code : broadcast(Coding<kE4m3>::kNanCode);
  } else {
    const U scale = larger(bits_of((F)bits / kIs.max), broadcast(kSmallestNormal));
    out.factor = 1.0f / (F)scale;
    out.scale = (F)(is_finite ? scale : broadcast(kNanBits));
  }
  out.factor = (F)(is_finite ? bits_of(out.factor) : broadcast(kNanBits));
  return out;
}

/// The scales of the task's `count` blocks from `block` on, and their factors, from the vectors
/// with the largest of each that most_of(a block) gives.
template <int kElement, ScaleKind kScale, class MostOf>
inline void make_scales_of(const EncodeTask& task, const MostOf& most_of, int64_t block,
                           int64_t count, float* factors) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const U bits = largest_lanes([&](int lane) { return most_of(block + i + lane); });
    const Scales made = scales_for<kElement, kScale>(bits, task.tensor_scale);
    store(factors + i, made.factor);
    if constexpr (kScale == ScaleKind::F32)
      store(static_cast<float*>(task.scales) + block + i, made.scale);
    else
      narrow_bytes(static_cast<uint8_t*>(task.scales) + block + i, made.code);
  }
  if (i == count) return;
  U bits{};
  for (int64_t lane = 0; lane < count - i; ++lane)
    bits[lane] = largest_lane(most_of(block + i + lane));
  const Scales made = scales_for<kElement, kScale>(bits, task.tensor_scale);
  store(factors + i, made.factor);
  const auto left = static_cast<size_t>(count - i);
  if constexpr (kScale == ScaleKind::F32) {
    __builtin_memcpy(static_cast<float*>(task.scales) + block + i, &made.scale,
                     left * sizeof(float));
  } else {
    uint8_t bytes[kLanes];
    narrow_bytes(bytes, made.code);
    __builtin_memcpy(static_cast<uint8_t*>(task.scales) + block + i, bytes, left);
  }
}
template <int kElement, class MostOf>
inline void make_scales(const EncodeTask& task, const MostOf& most_of, int64_t block, int64_t count,
                        float* factors) {
  switch (task.scale) {
    case ScaleKind::F32:
      return make_scales_of<kElement, ScaleKind::F32>(task, most_of, block, count, factors);
    case ScaleKind::E4M3:
      return make_scales_of<kElement, ScaleKind::E4M3>(task, most_of, block, count, factors);
    case ScaleKind::E8M0:
      return make_scales_of<kElement, ScaleKind::E8M0>(task, most_of, block, count, factors);
  }
}

// ---- Read from memory

/// The powers of two of kLanes bytes.
inline F scales_of_e8m0(const uint8_t* from) {
  const U code = widen_bytes(from);
  // 2^-127 is subnormal, and 255 not a number: half a unit more than the exponent says.
  return (F)(code << 23 | (((code + 1) & 254) == 0 ? kSmallestNormal / 2 : U{}));
}

/// … of as many numbers of 8 bits.
inline F scales_of_e4m3(const uint8_t* from) {
  constexpr int kE4m3 = element_index("e4m3");
  if constexpr (!kHasHalves) return decode_lanes<kE4m3>(widen_bytes(from));
  const F numbers = from_halves<false>(from) * power_of_two(15 - kElements[kE4m3].bias);
  return (widen_bytes(from) & 127) == 127 ? broadcast(__builtin_nanf("")) : numbers;
}

/// read() for `count` numbers; of the last ones, from a copy that ends later. `out` has room for
/// kLanes more.
template <class Read>
inline void read_all(const uint8_t* from, int64_t count, float* out, const Read& read) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(out + i, read(from + i));
  if (i == count) return;
  uint8_t last[kLanes] = {};
  __builtin_memcpy(last, from + i, static_cast<size_t>(count - i));
  store(out + i, read(last));
}

/// Scales, with the tensor's, of `count` blocks from `first` on. `out` has room for kLanes more.
void read_scales(ScaleKind kind, const void* scales, float tensor_scale, int64_t first,
                 int64_t count, float* out) {
  const uint8_t* bytes = static_cast<const uint8_t*>(scales) + first;
  if (kind == ScaleKind::F32)
    __builtin_memcpy(out, static_cast<const float*>(scales) + first,
                     static_cast<size_t>(count) * sizeof(float));
  else if (kind == ScaleKind::E8M0)
    read_all(bytes, count, out, scales_of_e8m0);
  else
    read_all(bytes, count, out,
             [=](const uint8_t* from) { return scales_of_e4m3(from) * tensor_scale; });
}
