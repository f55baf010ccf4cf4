#include "record/holes.h"

#include <algorithm>

namespace graft::record {

void Allocations::reportMemoryUsage(void* ptr, int64_t alloc_size, size_t total_allocated,
                                    size_t total_reserved, c10::Device device) {
  // c10 hands its thread-local state on to threads that the run starts; only this thread's memory
  // is asked for.
  if (alloc_size > 0 && device.is_cpu() && std::this_thread::get_id() == thread_) {
    const auto first = reinterpret_cast<int64_t>(ptr);
    blocks_.push_back({first, first + alloc_size});
  }
  if (previous_ != nullptr && previous_->memoryProfilingEnabled()) {
    previous_->reportMemoryUsage(ptr, alloc_size, total_allocated, total_reserved, device);
  }
}

void Allocations::reportOutOfMemory(int64_t alloc_size, size_t total_allocated,
                                    size_t total_reserved, c10::Device device) {
  if (previous_ != nullptr) {
    previous_->reportOutOfMemory(alloc_size, total_allocated, total_reserved, device);
  }
}

bool Allocations::contain(const Range& range) const {
  return std::any_of(blocks_.begin(), blocks_.end(),
                     [&](const Range& block) { return block.overlaps(range); });
}

}  // namespace graft::record
