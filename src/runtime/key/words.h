// A growing array of 64-bit words that needs no heap for the usual key.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

namespace graft::runtime {

class Words {
 public:
  Words() = default;
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  /// Room for `count` more words; the pointer is valid until the next call of room().
  uint64_t* room(size_t count) {
    if (size_ + count > capacity_) grow(size_ + count);
    return data_ + size_;
  }
  /// Sets the end of the words written into room().
  void end_at(const uint64_t* end) { size_ = static_cast<size_t>(end - data_); }
  void push(uint64_t word) {
    *room(1) = word;
    ++size_;
  }
  void set(size_t index, uint64_t word) { data_[index] = word; }
  void clear() { size_ = 0; }
  size_t size() const { return size_; }
  std::span<const uint64_t> view() const { return {data_, size_}; }

 private:
  // Eight tensors of six dimensions, and what else a key holds.
  static constexpr size_t kInline = 144;

  void grow(size_t wanted) {
    size_t capacity = wanted * 2;
    auto heap = std::make_unique_for_overwrite<uint64_t[]>(capacity);
    std::memcpy(heap.get(), data_, size_ * sizeof(uint64_t));
    heap_ = std::move(heap);
    data_ = heap_.get();
    capacity_ = capacity;
  }

  size_t size_ = 0, capacity_ = kInline;
  uint64_t* data_ = inline_;
  std::unique_ptr<uint64_t[]> heap_;
  uint64_t inline_[kInline];
};

inline bool same_words(std::span<const uint64_t> a, std::span<const uint64_t> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

/// Of `count` words, each given by `word(i)`. Mixes in four independent lanes, so that the
/// multiplications overlap. Equal hashes prove nothing: words are compared too.
template <class Word>
uint64_t hash_words(size_t count, Word word) {
  constexpr uint64_t kMul = 0x9e3779b97f4a7c15;
  auto mix = [](uint64_t a, uint64_t b) {
    auto product = static_cast<unsigned __int128>(a ^ b) * kMul;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  uint64_t lane[4] = {count, 0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0};
  size_t i = 0;
  for (; i + 4 <= count; i += 4)
    for (size_t k = 0; k < 4; ++k) lane[k] = mix(lane[k], word(i + k));
  for (; i < count; ++i) lane[i & 3] = mix(lane[i & 3], word(i));
  return mix(mix(lane[0], lane[1] + 1), mix(lane[2], lane[3] + 2));
}
inline uint64_t hash_words(std::span<const uint64_t> words) {
  return hash_words(words.size(), [&](size_t i) { return words[i]; });
}

}  // namespace graft::runtime
