// The memory pool behind graft::PoolGuard, plan outputs and plan temporaries.
//
// Blocks come in size classes, four per doubling. Freed blocks are kept: up to 1 MB first in a
// cache of the freeing thread (no lock, about 10 ns), then, like all larger ones, in lists shared
// by the process. Blocks of 1 MB and more are mappings aligned to huge pages, so that a kernel that
// writes a fresh 33 MB result pays for 17 page faults and not for 8,000, and a result that reuses
// memory for none. A block of more than 16 KB has room for the largest class of its doubling, so
// that it serves sizes that grow; of a mapping, what was never used costs no memory.
//
// Bounded: at most GRAFT_POOL_MB megabytes (by default the smaller of a quarter of the machine's
// memory and 4 GiB) are kept in the shared lists; what is freed beyond that goes back to the
// system. The pool is never destroyed, so that tensors may be freed by static destructors; fork
// leaves the child a pool that works.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "graft/pool.h"

namespace graft::runtime {

/// Memory aligned to 64 bytes (from 1 MB on: to a page) with unspecified contents; null for 0
/// bytes. Throws c10::Error when the system has no more.
void* pool_allocate(size_t bytes);
/// May be called on any thread. Null is ignored.
void pool_free(void* block) noexcept;

/// pool_allocate's memory as an owning pointer for a c10::Storage; reported to ATen's memory
/// profiling.
c10::DataPtr pool_data(size_t bytes);

/// Makes c10's CPU allocator ask the pool while a guard is alive. PoolGuard does it; idempotent.
void install_pool_allocator();

/// Around a compiled function's eager calls: the pool, where it keeps anything (GRAFT_POOL_MB=0).
class EagerPool {
 public:
  EagerPool();

 private:
  std::optional<PoolGuard> guard_;
};

/// Called before and after a fork. The child has only the forking thread, so no other thread may
/// hold a lock then.
void pool_before_fork();
void pool_after_fork();  ///< in parent and child

/// Is this a live block of the pool? Takes a lock.
bool pool_owns(const void* block);
/// The size that was asked for when the block was allocated.
size_t pool_requested_bytes(const void* block);
/// Bytes of the block that a request gets: its size class.
size_t pool_block_bytes(size_t bytes);

}  // namespace graft::runtime
