// The pool as c10 sees it: owning pointers, the CPU allocator, and the guard that switches it on.
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include "graft/pool.h"
#include "runtime/memory/pool.h"

namespace graft::runtime {

namespace {

thread_local bool t_active = false;
c10::Allocator* g_previous = nullptr;

void report(void* block, int64_t bytes) {
  if (block != nullptr && c10::memoryProfilingEnabled())
    c10::reportMemoryUsageToProfiler(block, bytes, 0, 0, c10::Device(c10::kCPU));
}

void pool_delete(void* block) {
  if (block == nullptr) return;
  report(block, -static_cast<int64_t>(pool_requested_bytes(block)));
  pool_free(block);
}

/// Asks the pool on threads with a guard, and whoever was asked before on all others.
class PoolAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    return t_active ? pool_data(bytes) : g_previous->allocate(bytes);
  }
  /// oneDNN's buffers are allocated raw and freed by this, with a guard alive or not.
  c10::DeleterFnPtr raw_deleter() const override {
    return g_previous->raw_deleter() == nullptr ? nullptr : &raw_delete;
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void raw_delete(void* block) {
    pool_owns(block) ? pool_delete(block) : g_previous->raw_deallocate(block);
  }
};

}  // namespace

c10::DataPtr pool_data(size_t bytes) {
  void* block = pool_allocate(bytes);
  report(block, static_cast<int64_t>(bytes));
  return {block, block, &pool_delete, c10::Device(c10::kCPU)};
}

void install_pool_allocator() {
  // Above the priority of allocators that were set without naming one, below whoever insists.
  constexpr uint8_t kPriority = 10;
  static const bool installed [[maybe_unused]] = [] {
    g_previous = c10::GetAllocator(c10::kCPU);
    c10::SetAllocator(c10::kCPU, new PoolAllocator, kPriority);
    return true;
  }();
}

}  // namespace graft::runtime

namespace graft {

PoolGuard::PoolGuard() : previous_(runtime::t_active) {
  runtime::install_pool_allocator();
  runtime::t_active = true;
}
PoolGuard::~PoolGuard() {
  runtime::t_active = previous_;
}

}  // namespace graft
