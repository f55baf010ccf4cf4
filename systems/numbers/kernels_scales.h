// Scales of blocks, read from memory. A part of kernels_body.h, and without a guard as that is.

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
