// Memory that the run allocates, seen below the dispatcher.
#pragma once

#include <c10/core/Allocator.h>

#include <thread>
#include <vector>

#include "record/storages.h"

namespace graft::record {

/// Notes what CPU allocators hand out on one thread, through the hook that c10 keeps for memory
/// profilers. A tensor that no recorded operator made, but whose memory was allocated during the
/// run, was made by a kernel called past the dispatcher: a hole in the record. A profiler that was
/// installed before still gets its reports.
class Allocations final : public c10::MemoryReportingInfoBase {
 public:
  explicit Allocations(c10::MemoryReportingInfoBase* previous)
      : previous_(previous), thread_(std::this_thread::get_id()) {}

  void reportMemoryUsage(void* ptr, int64_t alloc_size, size_t total_allocated,
                         size_t total_reserved, c10::Device device) override;
  void reportOutOfMemory(int64_t alloc_size, size_t total_allocated, size_t total_reserved,
                         c10::Device device) override;
  bool memoryProfilingEnabled() const override { return true; }

  /// Was any byte of the range allocated during the run? Blocks freed since count too: whoever has
  /// their memory now got it during the run.
  bool contain(const Range& range) const;

 private:
  c10::MemoryReportingInfoBase* previous_;
  std::thread::id thread_;
  std::vector<Range> blocks_;
};

}  // namespace graft::record
