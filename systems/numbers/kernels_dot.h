// Rows of codes times a vector. A part of kernels_body.h, and without a guard as that is.

constexpr int kRows = 4;            // that are read at once
constexpr int kWord = 8;            // codes of 4 bits in 32
constexpr int kWords = 8 * kLanes;  // codes in a vector of words

/// Lane l of vector j is x[8 l + j] of a vector of words: the code that words shifted by 4 j have
/// lowest. What is left of a row stays in order.
void arrange(const float* x, int64_t columns, float* out) {
  int64_t at = 0;
  for (; at + kWords <= columns; at += kWords)
    for (int j = 0; j < kWord; ++j)
      for (int lane = 0; lane < kLanes; ++lane)
        out[at + j * kLanes + lane] = x[at + kWord * lane + j];
  __builtin_memcpy(out + at, x + at, static_cast<size_t>(columns - at) * sizeof(float));
}

/// Gives the numbers of a row in order, kFactor times too small.
template <int kElement>
struct Reader {
  static constexpr float kFactor = 1;
  explicit Reader(const Decoder<kElement>& decoder) : decoder(decoder) {}
  F operator()(const uint8_t* row, int64_t k) {
    constexpr int kBits = kElements[kElement].bits;
    return decoder(load_codes<kBits>(row + k * kBits / 8));
  }
  bool met_nan() const { return false; }
  const Decoder<kElement>& decoder;
};
/// Floats of 8 bits lie in fp16: with exponents of 5 bits as its upper byte, with 4 below the
/// exponent's highest bit, where a NaN becomes a number.
template <int kElement>
  requires(kHasHalves && kElements[kElement].bits == 8 && !kElements[kElement].is_integer())
struct Reader<kElement> {
  static constexpr bool kIsUpperByte = kElements[kElement].mantissa_bits == 2;
  static constexpr float kFactor = power_of_two(15 - kElements[kElement].bias);
  explicit Reader(const Decoder<kElement>& /*decoder*/) {}
  F operator()(const uint8_t* row, int64_t k) {
    if constexpr (!kIsUpperByte) watch_bytes(most, row + k);
    return from_halves<kIsUpperByte>(row + k);
  }
  bool met_nan() const { return !kIsUpperByte && has_ones(most); }
  Bytes most = {};  // as watch_bytes() leaves it
};

/// Sums of columns [begin, columns) of one row, in order.
template <int kElement>
inline F dot_in_order(const Decoder<kElement>& decoder, const DotTask& task, const uint8_t* row,
                      const float* scales, const float* x, int64_t begin) {
  const int64_t row_bytes = task.columns * kElements[kElement].bits / 8;
  const int64_t block = task.block == 0 ? task.columns : task.block;
  Reader<kElement> read(decoder);
  F sum = {};
  int64_t b = begin / block;  // a division takes longer than a short block
  for (int64_t at = begin; at < task.columns; ++b) {
    const int64_t end = (b + 1) * block;
    F part[2] = {};
    int64_t k = at;
    for (; k + 2 * kLanes <= end; k += 2 * kLanes) {
      // A row ends before the processor sees a stream.
      __builtin_prefetch(row + row_bytes + k * kElements[kElement].bits / 8);
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) part[i] += read(row, k + i * kLanes) * load(x + k + i * kLanes);
    }
    for (; k < end; k += kLanes) part[0] += read(row, k) * load(x + k);
    sum += (part[0] + part[1]) * Reader<kElement>::kFactor * scales[b];
    at = end;
  }
  return read.met_nan() ? sum + __builtin_nanf("") : sum;
}

inline float sum_of(F x) {
  float sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += x[lane];
  return sum;
}

/// kRows rows of codes of 4 bits, whose words are looked up in place. Gives the columns done.
template <int kElement>
inline int64_t dot_words(const Decoder<kElement>& decoder, const DotTask& task,
                         const uint8_t* codes, const float* scales, int64_t scales_stride,
                         F* sums) {
  const int64_t row_bytes = task.columns / 2, block = task.block == 0 ? kWords : task.block;
  if (block % kWords != 0 && kWords % block != 0) return 0;
  const bool is_wide = block >= kWords;
  const int64_t in_words = is_wide ? 0 : kWords / block;
  U spread = {};  // the block of each lane, counted within the words
  for (int lane = 0; lane < kLanes && !is_wide; ++lane)
    spread[lane] = static_cast<uint32_t>(kWord * lane / block);
  F total[kRows] = {};                  // in registers, as what a pointer leads to is not
  int64_t at = 0, b = 0, left = block;  // of block b
  for (; at + kWords <= task.columns; at += kWords) {
    U words[kRows];
    F part[kRows] = {};
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const uint8_t* from = codes + r * row_bytes + at / 2;
      __builtin_memcpy(&words[r], from, sizeof(U));
      __builtin_prefetch(from + kRows * row_bytes);  // rows end before the processor sees a stream
    }
#pragma GCC unroll 8
    for (int j = 0; j < kWord; ++j) {
      const F x = load(task.arranged + at + j * kLanes);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) part[r] += decoder(words[r] >> (4 * j)) * x;
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const float* scale = scales + r * scales_stride + b;
      total[r] += part[r] * (is_wide ? broadcast(*scale) : permute(load(scale), spread));
    }
    b += in_words;
    if (is_wide && task.block != 0 && (left -= kWords) == 0) ++b, left = block;
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) sums[r] += total[r];
  return at;
}

template <int kElement>
void dot(const DotTask& task) {
  constexpr int kBits = kElements[kElement].bits;
  const Decoder<kElement> decoder;
  const int64_t blocks = task.block == 0 ? 1 : task.columns / task.block;
  const int64_t stride = blocks + kLanes, row_bytes = task.columns * kBits / 8;
  for (int64_t row = task.begin; row < task.end;) {
    const int64_t rows = task.end - row < kRows ? task.end - row : kRows;
    for (int64_t r = 0; r < rows; ++r) {
      float* scales = task.scratch + r * stride;
      if (task.block == 0)
        scales[0] = task.tensor_scale;
      else
        read_scales(task.scale, task.scales, task.tensor_scale, (row + r) * blocks, blocks, scales);
    }
    const uint8_t* codes = task.codes + row * row_bytes;
    F sums[kRows] = {};
    int64_t done = 0;
    if constexpr (kBits == 4)
      if (rows == kRows) done = dot_words(decoder, task, codes, task.scratch, stride, sums);
    for (int64_t r = 0; r < rows; ++r)
      task.out[row + r] = sum_of(sums[r] + dot_in_order(decoder, task, codes + r * row_bytes,
                                                        task.scratch + r * stride, task.x, done));
    row += rows;
  }
}
