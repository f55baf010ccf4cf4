// Where ranks are threads of one process (run_ranks): a rank's memory, and ATen's threads.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "graft/systems/processes.h"

namespace graft::experiments {

/// Gives ATen back the number of threads that it had: ranks set it for themselves, and with it for
/// threads to come.
struct ThreadCount {
  ThreadCount() = default;
  ThreadCount(const ThreadCount&) = delete;
  ~ThreadCount() { at::set_num_threads(before); }
  const int before = at::get_num_threads();
};

/// Returns when all ranks are here. c10d's barrier is not for threads of one process: it keeps its
/// tensor in a variable that they share.
inline void meet(systems::Group& group) {
  group.all_gather(at::zeros({1}));
}

/// Counts the allocations of the thread that makes it, and the frees by that thread, until it ends.
class ThreadMemory {
 public:
  ThreadMemory() : counter_(std::make_shared<Counter>()), guard_(kKind, counter_) {}
  /// The most bytes live at once, of those allocated since it was made.
  int64_t peak_bytes() const { return counter_->peak; }

 private:
  static constexpr auto kKind = c10::DebugInfoKind::PROFILER_STATE;
  struct Counter : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
      live += bytes;
      peak = std::max(peak, live);
    }
    bool memoryProfilingEnabled() const override { return true; }
    int64_t live = 0, peak = 0;
  };
  std::shared_ptr<Counter> counter_;
  c10::DebugInfoGuard guard_;
};

}  // namespace graft::experiments
