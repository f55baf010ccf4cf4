// Tells whether bytes on disk are those that were written.
#pragma once

#include <cstddef>
#include <cstdint>

namespace graft::systems::states {

/// 64 bits over `bytes`, in independent lanes so that it runs at the memory's speed. Finds
/// torn and damaged blocks; no protection against intent.
uint64_t checksum(const void* data, size_t bytes);

}  // namespace graft::systems::states
