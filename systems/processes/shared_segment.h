// Memory that processes of one machine share: how far each is, and its slots.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace c10d {
class Store;
}

namespace graft::systems {

constexpr int64_t kSlotBytes = int64_t{1} << 19;
constexpr int64_t kLineBytes = 64;
/// Per process. More would leave the third cache, where a piece is read by all right after it was
/// written.
constexpr int64_t kSlots = 8;

class SharedSegment {
 public:
  /// As SharedSum::join.
  static std::unique_ptr<SharedSegment> join(c10d::Store& store, int rank, int size);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  /// Of what precedes the slots.
  static int64_t heads_bytes(int size);

  int rank() const { return rank_; }
  int size() const { return size_; }
  char* slot(int rank, int64_t piece) const;
  /// Where a process leaves the sums of its portion of a piece: one of size() portions, rounded up
  /// to whole lines.
  char* sums(int rank, int64_t piece) const;
  /// Has the slot the process's own portion, too? Then others may sum that.
  bool& has_all(int rank, int64_t piece) const { return place(rank).has_all[piece % kSlots]; }
  /// What the piece in that slot is a part of: processes that sum different things must notice.
  uint64_t& label(int rank, int64_t piece) const { return place(rank).labels[piece % kSlots]; }

  /// Pieces that a process has put in, summed its portion of, and read; all numbers count up for
  /// good.
  int64_t put(int rank) const { return place(rank).put.load(std::memory_order_acquire); }
  int64_t summed(int rank) const { return place(rank).summed.load(std::memory_order_acquire); }
  int64_t read(int rank) const { return place(rank).read.load(std::memory_order_acquire); }
  void tell_put(int64_t pieces);
  void tell_summed(int64_t pieces);
  void tell_read(int64_t pieces);

  uint32_t news() const;
  /// Waits until somebody has told something since `seen`, the news() from before the caller
  /// looked. False: nobody did, within some milliseconds.
  bool wait_for_news(uint32_t seen) const;
  /// Throws where a process ended, or after `until`, unless there are news since `seen`.
  void check_others(uint32_t seen, std::chrono::steady_clock::time_point until) const;

 private:
  struct alignas(128) Place {
    std::atomic<int64_t> put, summed, read;
    std::atomic<int32_t> process;  ///< its id
    std::atomic<int32_t> left;
    uint64_t labels[kSlots];  ///< written before `put` tells of the piece, as is
    bool has_all[kSlots];
  };
  struct Head;
  static std::unique_ptr<SharedSegment> make(int size, std::string& name);
  static std::unique_ptr<SharedSegment> open(const std::string& name, uint64_t mark, int rank,
                                             int size);

  SharedSegment(void* memory, int64_t bytes, int rank, int size)
      : memory_(static_cast<char*>(memory)), bytes_(bytes), rank_(rank), size_(size) {}
  Head& head() const;
  Place& place(int rank) const;
  void tell() const;
  /// Empty: nobody.
  std::string who_left() const;

  char* const memory_;
  const int64_t bytes_;
  const int rank_, size_;
};

}  // namespace graft::systems
