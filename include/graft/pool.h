// A caching memory pool for CPU tensors, with huge pages for large blocks.
#pragma once

#include <cstdint>

#include "graft/export.h"

namespace graft {

/// While it lives, CPU tensors that its thread allocates come from Graft's pool, which reuses freed
/// blocks, so that large results cost no page faults. It serves eager code as well as compiled
/// code. Guards nest. Memory may be freed on any thread, also after the guard is gone.
class GRAFT_API PoolGuard {
 public:
  PoolGuard();
  ~PoolGuard();
  PoolGuard(const PoolGuard&) = delete;
  PoolGuard& operator=(const PoolGuard&) = delete;

 private:
  bool previous_;
};

struct PoolStats {
  int64_t in_use_bytes = 0;  ///< handed out now
  int64_t cached_bytes = 0;  ///< kept for reuse
  int64_t hits = 0;          ///< allocations served from the cache
  int64_t misses = 0;        ///< allocations that asked the system
};
GRAFT_API PoolStats pool_stats();
/// Gives cached blocks back to the system: all but the few small ones that other threads keep.
GRAFT_API void pool_trim();

}  // namespace graft
