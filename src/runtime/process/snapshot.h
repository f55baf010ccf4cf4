// A value that is read at every call and rarely replaced.
//
// Readers take no lock: a reader adds itself to a counter on a cache line that few other threads
// use, reads a pointer, and removes itself at the end. A writer swaps the pointer; the old value is
// freed once every reader that could have seen it is gone, at a later write or when the Snapshot
// dies. Reading costs two atomic additions.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace graft::runtime {

/// The thread's number, in the order in which threads first ask.
inline size_t thread_number() {
  static std::atomic<size_t> next{0};
  thread_local const size_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

template <class T>
class Snapshot {
 public:
  explicit Snapshot(std::unique_ptr<const T> value) : current_(value.release()) {}
  ~Snapshot() { delete current_.load(); }  // no readers then, or the owner has a bug
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  /// While alive, *reader stays valid.
  class Reader {
   public:
    explicit Reader(const Snapshot& from) : count_(from.lines_[thread_number() % kLines].readers) {
      count_.fetch_add(kOneRead + 1, std::memory_order_seq_cst);
      value_ = from.current_.load(std::memory_order_seq_cst);
    }
    ~Reader() { count_.fetch_sub(1, std::memory_order_release); }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    const T& operator*() const { return *value_; }
    const T* operator->() const { return value_; }

   private:
    std::atomic<int64_t>& count_;
    const T* value_;
  };

  /// Another number after each replace(). What is read later is of that version or a newer one.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

  /// How many Readers there have been.
  int64_t reads() const {
    int64_t sum = 0;
    for (const Line& line : lines_) sum += line.readers.load(std::memory_order_relaxed) / kOneRead;
    return sum;
  }

  /// The value. The caller holds the writers' lock.
  const T& peek() const { return *current_.load(std::memory_order_relaxed); }

  /// One writer at a time.
  void replace(std::unique_ptr<const T> value) {
    const T* old = current_.exchange(value.release(), std::memory_order_seq_cst);
    version_.fetch_add(1, std::memory_order_release);
    retired_.push_back({std::unique_ptr<const T>(old), 0});
    collect();
  }

  /// Frees old values that no reader can still see. The caller holds the writers' lock.
  void collect() {
    // A line at zero after the swap: its readers from before are gone, and later ones see the new
    // value.
    for (size_t i = 0; i < kLines; ++i)
      if ((lines_[i].readers.load(std::memory_order_seq_cst) & (kOneRead - 1)) == 0)
        for (Retired& retired : retired_) retired.quiet |= uint64_t{1} << i;
    std::erase_if(retired_, [](const Retired& retired) { return retired.quiet == kAllQuiet; });
  }

 private:
  static constexpr size_t kLines = 32;
  static constexpr uint64_t kAllQuiet = (uint64_t{1} << kLines) - 1;

  // Readers now in the low bits, readers ever above.
  static constexpr int64_t kOneRead = int64_t{1} << 20;
  struct alignas(64) Line {
    mutable std::atomic<int64_t> readers{0};
  };
  struct Retired {
    std::unique_ptr<const T> value;
    uint64_t quiet;  ///< lines seen at zero since
  };

  std::atomic<const T*> current_;
  std::atomic<uint64_t> version_{0};
  std::array<Line, kLines> lines_;
  std::vector<Retired> retired_;
};

}  // namespace graft::runtime
