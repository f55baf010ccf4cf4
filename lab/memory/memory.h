// What a piece of a program does with memory: a scope that sees the allocation and release of every
// CPU tensor's memory. It reports the peak, who made the largest allocations, and how far the
// process grew.
#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lab/run.h"

namespace graft::lab {

/// The allocator's state after an allocation or a free.
struct MemoryPoint {
  double seconds = 0;    ///< since the scope began
  int64_t live = 0;      ///< bytes of live tensors, those before the scope included
  int64_t reserved = 0;  ///< bytes that the allocator holds: live bytes and those kept for reuse
};

/// Allocations of one size by one maker that were live at the peak.
struct MemoryOwner {
  int64_t bytes = 0;  ///< of each allocation
  int64_t count = 0;
  std::string op;      ///< "aten::softmax > aten::_softmax": outermost and innermost; empty: no op
  std::string region;  ///< "layer 0/attention", of MemoryRegion and RECORD_USER_SCOPE; or empty
};

/// Most live bytes at allocations within a region and the regions inside it, above the start.
struct MemoryRange {
  std::string region;
  int64_t peak_bytes = 0;
};

/// Bytes and counts. A tensor here is an allocation: views of one storage count once.
struct MemoryReport {
  double seconds = 0;  ///< length of the scope
  /// Live before the scope, if allocated within an enclosing tracker; 0 for the outermost.
  int64_t start_bytes = 0;
  int64_t peak_bytes = 0;     ///< most live bytes, above start_bytes
  int64_t end_bytes = 0;      ///< live at the end, those before the scope included
  int64_t peak_reserved = 0;  ///< most bytes held by the allocator, above start_bytes
  int64_t allocations = 0;
  int64_t frees = 0;
  int64_t start_tensors = 0;  ///< live, as start_bytes
  int64_t peak_tensors = 0;   ///< live at the peak of bytes, those before the scope included
  int64_t end_tensors = 0;
  int64_t strange_frees = 0;   ///< of memory older than the outermost tracker; not in `frees`
  double peak_seconds = 0;     ///< time of the peak
  int64_t start_resident = 0;  ///< of the process; -1 where Linux does not say
  int64_t peak_resident = 0;   ///< largest growth of the process in the scope; -1: not known
  int64_t end_resident = 0;    ///< of the process
  std::vector<MemoryPoint> timeline;  ///< by time; a long one is thinned out but keeps its peaks
  std::vector<MemoryOwner> largest;   ///< live at the peak, made in the scope; largest sum first
  std::vector<MemoryRange> ranges;    ///< in the order in which they first allocated
};
nlohmann::json to_json(const MemoryReport& report);

struct MemoryOptions {
  size_t largest = 10;  ///< owners in the report
  /// Bytes that an allocator other than c10's own keeps for reuse; called at every allocation and
  /// free. c10's keeps none of its own (the C library may).
  std::function<int64_t()> cached;
};

/// While alive, sees the CPU allocations and frees of its thread, of ATen's intra-op threads, and
/// of threads that inherit the thread's state (autograd's, at::launch's). It sees what c10's memory
/// reporting covers: tensors of c10's allocator and of Graft's pool. Other threads are not seen,
/// nor is memory that is not a tensor's, except in the resident size.
///
/// Trackers nest: an inner one starts from what the outer ones know to be live. A tracker is made,
/// stopped and destroyed on one thread, the inner before the outer. It uses the thread's profiler
/// slot: the constructor throws std::runtime_error if a profiler has it, and none may be started
/// while it lives. It costs about 0.3 µs per allocation and per operator, so nothing should be
/// timed under it. It resets Linux's record of the process's peak size.
class MemoryTracker {
 public:
  explicit MemoryTracker(MemoryOptions options = {});
  ~MemoryTracker();
  MemoryTracker(const MemoryTracker&) = delete;
  MemoryTracker& operator=(const MemoryTracker&) = delete;

  /// Ends the scope before the tracker's life does. A second call does nothing.
  void stop();
  /// What happened until now, or until stop().
  MemoryReport report() const;
  /// The same for a row of a run.
  MemoryUse use() const;
  /// Bytes of live tensors now, those before the scope included.
  int64_t live_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Names what its thread does while it lives, for MemoryOwner::region. Make it while the tracker
/// lives. Regions nest. In a profile it is a user range.
class MemoryRegion {
 public:
  explicit MemoryRegion(const std::string& name);
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;

 private:
  at::RecordFunction range_;
};

}  // namespace graft::lab
