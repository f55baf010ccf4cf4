// Rows of codes times a vector. A part of kernels_body.h, and without a guard as that is.

constexpr int kWord = 8;            // codes of 4 bits in 32
constexpr int kWords = 8 * kLanes;  // codes in a vector of words
constexpr int kRowsTogether = 4;
constexpr int64_t kFarAhead = 12288;  // where a row's codes are looked up in place

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
  F operator()(const uint8_t* row, int64_t k) const {
    constexpr int kBits = kElements[kElement].bits;
    return decoder(load_codes<kBits>(row + k * kBits / 8));
  }
  static bool hides_nan(const uint8_t* /*row*/, int64_t /*begin*/, int64_t /*end*/) {
    return false;
  }
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
  F operator()(const uint8_t* row, int64_t k) const { return from_halves<kIsUpperByte>(row + k); }
  /// Is there a NaN that operator() took for a number?
  static bool hides_nan(const uint8_t* row, int64_t begin, int64_t end) {
    if constexpr (kIsUpperByte) return false;
    Bytes most = {};
    int64_t k = begin;
    for (; k + kBytes <= end; k += kBytes) watch_bytes(most, row + k);
    uint8_t rest[kBytes] = {};
    __builtin_memcpy(rest, row + k, static_cast<size_t>(end - k));
    watch_bytes(most, rest);
    return has_ones(most);
  }
  static constexpr int64_t kBytes = sizeof(Bytes);
};

/// Which scale each lane of a vector of words has: all one where blocks are that long.
struct Spread {
  /// Of blocks of a task, 0: one to a row of so many columns.
  Spread(int64_t of_task, int64_t columns)
      : is_even(of_task == 0 || of_task % kWords == 0 || kWords % of_task == 0),
        is_wide(of_task == 0 || of_task >= kWords),
        block(of_task == 0 ? columns : of_task),
        in_words(kWords / block),
        in_row(columns / block) {
    for (int lane = 0; lane < kLanes && !is_wide; ++lane)
      lanes[lane] = static_cast<uint32_t>(kWord * lane / block);
  }
  bool is_even;  ///< words begin where blocks do, or within one
  bool is_wide;
  int64_t block, in_words,
      in_row;  ///< values of a block; blocks of a vector of words, and of a row
  U lanes = {};
};

/// Sums of columns [begin, columns) of one row, in order.
template <int kElement>
inline F dot_in_order(const Decoder<kElement>& decoder, const DotTask& task, int64_t block,
                      const uint8_t* row, const float* scales, int64_t begin) {
  constexpr int kBits = kElements[kElement].bits;
  const int64_t columns = task.columns, row_bytes = columns * kBits / 8;
  const float* const x = task.x;
  const Reader<kElement> read(decoder);
  if (begin >= columns) return F{};
  // A row ends before the processor sees a stream.
  const auto ask_ahead = [&](int64_t k) { __builtin_prefetch(row + row_bytes + k * kBits / 8); };
  int64_t b = begin / block;  // a division takes longer than a short block
  int64_t at = begin;
  F sums[4] = {};
  if (block == 2 * kLanes)
    for (; at + 4 * kLanes <= columns; at += 4 * kLanes, b += 2) {
      ask_ahead(at);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i)
        sums[i] += read(row, at + i * kLanes) * load(x + at + i * kLanes) *
                   (scales[b + i / 2] * Reader<kElement>::kFactor);
    }
  F sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  for (; at < columns; ++b) {
    const int64_t end = (b + 1) * block;
    F part[4] = {};
    int64_t k = at;
    for (; k + 4 * kLanes <= end; k += 4 * kLanes) {
      ask_ahead(k);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) part[i] += read(row, k + i * kLanes) * load(x + k + i * kLanes);
    }
    for (; k + 2 * kLanes <= end; k += 2 * kLanes)
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) part[i] += read(row, k + i * kLanes) * load(x + k + i * kLanes);
    if (k < end) part[0] += read(row, k) * load(x + k);
    const F all = (part[0] + part[1]) + (part[2] + part[3]);
    sum += all * Reader<kElement>::kFactor * scales[b];
    at = end;
  }
  return read.hides_nan(row, begin, columns) ? sum + __builtin_nanf("") : sum;
}

/// Adds up the upper half of the lanes and the lower one, and so on.
template <int kStep, int... lane>
inline float sum_of(F x, std::integer_sequence<int, lane...> lanes) {
  if constexpr (kStep == 0)
    return x[0];
  else
    return sum_of<kStep / 2>(x + __builtin_shufflevector(x, x, ((lane + kStep) % kLanes)...),
                             lanes);
}
inline float sum_of(F x) {
  return sum_of<kLanes / 2>(x, std::make_integer_sequence<int, kLanes>());
}

/// Adds words of codes of some rows times x, as arrange() has it, to a sum of each row.
template <int kElement>
struct WordReader {};
template <int kElement>
  requires(!kHasPairTable && kElements[kElement].bits == 4)
struct WordReader<kElement> {
  template <int kRows>
  void add(const U (&words)[kRows], const float* x, F (&sums)[kRows]) const {
#pragma GCC unroll 8
    for (int j = 0; j < kWord; ++j) {
      const F factor = load(x + j * kLanes);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sums[r] += decoder(words[r] >> (4 * j)) * factor;
    }
  }
  Decoder<kElement> decoder;
};
/// Two codes are looked up at once: that takes fewer instructions that move lanes.
template <int kElement>
  requires(kHasPairTable && kElements[kElement].bits == 4)
struct WordReader<kElement> {
  template <int kRows>
  void add(const U (&words)[kRows], const float* x, F (&sums)[kRows]) const {
#pragma GCC unroll 4
    for (int j = 0; j < kWord / 2; ++j) {
      const F low = load(x + j * kLanes), high = load(x + (j + kWord / 2) * kLanes);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const U pair = table.at(words[r] >> (4 * j));
        sums[r] += (F)(pair << 16) * low;
        sums[r] += (F)(pair & 0xffff0000) * high;
      }
    }
  }
  PairTable<kElement> table{Values<kElement, 16>().all};
};

/// Rows of codes of 4 bits, whose words are looked up in place. Gives the columns done.
template <int kElement, bool kIsWide, int kRows>
inline int64_t dot_words(const WordReader<kElement>& read, const DotTask& task,
                         const Spread& spread, const uint8_t* codes, const float* scales,
                         F (&sums)[kRows]) {
  const int64_t row_bytes = task.columns / 2;
  int64_t at = 0, left = spread.block;  // of the first scale's
  for (; at + kWords <= task.columns; at += kWords) {
    U words[kRows];
    F parts[kRows] = {};
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const uint8_t* from = codes + r * row_bytes + at / 2;
      __builtin_memcpy(&words[r], from, sizeof(U));
      __builtin_prefetch(from + kFarAhead);
    }
    read.add(words, task.arranged + at, parts);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const float* scale = scales + r * spread.in_row;
      sums[r] += parts[r] * (kIsWide ? broadcast(*scale) : permute(load(scale), spread.lanes));
    }
    if (!kIsWide)
      scales += spread.in_words;
    else if ((left -= kWords) == 0)
      ++scales, left = spread.block;
  }
  return at;
}

/// So many rows at `codes`, with their scales.
template <int kElement, int kRows>
inline void dot_together(const Decoder<kElement>& decoder, const WordReader<kElement>& read_words,
                         const DotTask& task, const Spread& spread, const uint8_t* codes,
                         const float* scales, float* out) {
  constexpr int kBits = kElements[kElement].bits;
  F sums[kRows] = {};
  int64_t done = 0;
  if constexpr (kBits == 4)
    if (spread.is_even)
      done = spread.is_wide
                 ? dot_words<kElement, true>(read_words, task, spread, codes, scales, sums)
                 : dot_words<kElement, false>(read_words, task, spread, codes, scales, sums);
  for (int r = 0; r < kRows; ++r)
    out[r] = sum_of(sums[r] + dot_in_order(decoder, task, spread.block,
                                           codes + r * task.columns * kBits / 8,
                                           scales + r * spread.in_row, done));
}

template <int kElement>
void dot(const DotTask& task) {
  constexpr int kBits = kElements[kElement].bits;
  const Decoder<kElement> decoder;
  const WordReader<kElement> read_words;
  const Spread spread(task.block, task.columns);
  const int64_t blocks = spread.in_row, row_bytes = task.columns * kBits / 8;
  // Those of fp32 are read where they lie, if nothing reads beyond them. Others are made of several
  // rows at once: what was stored just before and elsewhere divided is slow to load.
  const bool in_place = task.block != 0 && task.scale == ScaleKind::F32 && spread.is_wide;
  for (int64_t row = task.begin; row < task.end;) {
    const float* scales = task.scratch;
    const int64_t tile = task.end - row < kRowsOfScales ? task.end - row : kRowsOfScales;
    if (in_place)
      scales = static_cast<const float*>(task.scales) + row * blocks;
    else if (task.block == 0)
      for (int64_t r = 0; r < tile; ++r) task.scratch[r] = task.tensor_scale;
    else
      read_scales(task.scale, task.scales, task.tensor_scale, row * blocks, tile * blocks,
                  task.scratch);
    const int64_t end = row + tile;
    const uint8_t* codes = task.codes + row * row_bytes;
    // What x is loaded for is shared by rows whose words are looked up in place.
    constexpr int kTogether = kBits == 4 ? kRowsTogether : 1;
    for (; row + kTogether <= end; row += kTogether) {
      dot_together<kElement, kTogether>(decoder, read_words, task, spread, codes, scales,
                                        task.out + row);
      codes += kTogether * row_bytes, scales += kTogether * blocks;
    }
    for (; row < end; ++row, codes += row_bytes, scales += blocks)
      dot_together<kElement, 1>(decoder, read_words, task, spread, codes, scales, task.out + row);
  }
}
