// Memory from the operating system, for the pool.
#pragma once

#include <cstddef>

namespace graft::runtime {

struct SystemBlock {
  /// 64-byte aligned; a large block is page aligned, and from 2 MB on aligned to a huge page. Null:
  /// the system has no memory.
  void* data = nullptr;
  void* base = nullptr;   ///< for system_free
  size_t base_bytes = 0;  ///< 0: malloc's
};

/// malloc's: `bytes` from `data` on, and at least 64 writable bytes before.
SystemBlock system_allocate(size_t bytes);
/// A large block, a mapping of `room` bytes, of which `bytes` are wanted for now: what is never
/// touched costs no memory.
SystemBlock system_map(size_t bytes, size_t room);
void system_free(void* base, size_t base_bytes);

/// GRAFT_POOL_MB, or the smaller of a quarter of the machine's memory and 4 GiB.
size_t cache_limit_bytes();

}  // namespace graft::runtime
