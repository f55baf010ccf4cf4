// Arrange: makes a kernel's loops fit the machine: merges loops that walk memory as one, chooses
// the vector loop, gives tile-local temporaries scratch memory, and sets how much work a task gets
// at least.
#pragma once

#include "ir/kernel.h"
#include "passes/pipeline.h"

namespace graft::passes {

void arrange(ir::Kernel& kernel, const std::vector<ir::Storage>& storages,
             const std::vector<bool>& local_temporary, const Settings& settings);

/// An access's strides along Range variables, by variable: where a tile's part of memory lies.
std::vector<int64_t> tile_strides(const ir::Kernel& kernel, const ir::Placed& p,
                                  const ir::Access& x);

/// Shrinks temporaries that live inside one tile (marked in `local`) to the tile's slice, in
/// thread-local memory, as far as `budget` bytes go.
void to_scratch(ir::Kernel& kernel, const std::vector<bool>& local, int64_t budget);

/// Marks the stores of large results that nothing reads but the iteration that has the value at
/// hand, or that only their own tile reads: it then reads a copy in scratch.
void stream_results(ir::Schedule& schedule, const Settings& settings);

/// Packs the temporaries that are still memory into one arena, by their lifetimes over the steps.
void plan_memory(ir::Schedule& schedule);

}  // namespace graft::passes
