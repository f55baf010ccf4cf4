// The records of one memory tracker: which blocks are live, and which were live at the peak.
#pragma once

#include <c10/core/Allocator.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "lab/memory/label.h"
#include "lab/memory/memory.h"

namespace graft::lab::detail {

/// Points in time, at most kMost. When it is full, of each two neighbours the one with more live
/// bytes stays, and each later point stands for twice as many events.
class Timeline {
 public:
  static constexpr size_t kMost = 4096;
  void add(const MemoryPoint& point);
  /// All points; the last is the one that was added last.
  std::vector<MemoryPoint> points() const;

 private:
  std::vector<MemoryPoint> points_;
  MemoryPoint last_{}, highest_{};  // of those that the next point stands for
  size_t pending_ = 0, stride_ = 1;
};

/// Receives c10's memory reports. Thread-safe. `parent`: the enclosing tracker's ledger, which gets
/// each report first.
class Ledger final : public c10::MemoryReportingInfoBase,
                     public std::enable_shared_from_this<Ledger> {
 public:
  Ledger(MemoryOptions options, std::shared_ptr<Ledger> parent);

  void reportMemoryUsage(void* block, int64_t bytes, size_t total_allocated, size_t total_reserved,
                         c10::Device device) override;
  bool memoryProfilingEnabled() const override { return open_; }

  /// Begins the scope. Reports before start() and after close() are ignored.
  void start();
  void close();
  bool open() const { return open_; }
  int64_t live() const;
  /// Notes the process's resident size, in this scope and those that enclose it.
  void saw_resident(int64_t bytes);
  /// Its `peak_resident` is absolute; the tracker fills in the other resident sizes.
  MemoryReport report() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Block {
    int64_t bytes = 0;
    int64_t number = 0;  // of the allocation, from 1
    Label label;
  };

  void allocated(void* block, int64_t bytes, const Label& label);
  /// The size of the block, if this ledger or one that encloses it saw its allocation.
  std::optional<int64_t> freed(void* block);
  void take_out(std::unordered_map<void*, Block>::iterator found);
  void note();  // the new state, after an event
  double seconds() const;
  std::vector<MemoryOwner> largest() const;
  std::vector<MemoryRange> ranges() const;

  const MemoryOptions options_;
  const std::shared_ptr<Ledger> parent_;
  std::atomic<bool> open_{false};

  mutable std::mutex mutex_;
  Clock::time_point start_;
  std::unordered_map<void*, Block> blocks_;  // made in this scope and live
  std::vector<Block> gone_since_peak_;       // live at the peak, freed since
  int64_t made_ = 0;                         // allocations so far
  int64_t made_at_peak_ = 0;
  int64_t live_ = 0, tensors_ = 0;
  std::vector<MemoryRange> innermost_;  // by the region that was the innermost one
  Timeline timeline_;
  MemoryReport report_;  // what events add up to; the rest is filled in by report()
};

}  // namespace graft::lab::detail
