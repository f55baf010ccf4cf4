// Arrange: fits a kernel's loops to the machine. It merges adjacent loops that walk memory as one,
// chooses the vector loop, gives tile-local temporaries scratch memory, and sets the least amount
// of work per task.
#pragma once

#include "ir/kernel.h"
#include "passes/pipeline.h"

namespace graft::passes {

/// May add storages to the schedule: the kernel's scratch.
void arrange(ir::Kernel& kernel, ir::Schedule& schedule, const std::vector<bool>& local_temporary,
             const Settings& settings);

/// An access's stride along each Range variable: what moves its address from tile to tile.
std::vector<int64_t> tile_strides(const ir::Kernel& kernel, const ir::Placed& p,
                                  const ir::Access& x);

/// Shrinks temporaries that live inside one tile (marked in `local`) to the tile's slice, in
/// thread-local memory, as far as `budget` bytes go.
void to_scratch(ir::Kernel& kernel, const std::vector<bool>& local, int64_t budget);

/// Makes neighbouring tiles the lanes of a vector, where the program is sequential along the axis
/// that a tile walks (GPTQ's columns, scans, recurrences) and this costs less: memory that a tile
/// walks contiguously is transposed into scratch, lanes side by side, and back.
///
///     v0:2048                                        vector v0:2048
///       step v1:128                                    %9[v0+v2*16] = %4[v0*128+v2]  transposed
///         %5[v0*128+v1] = f(%4[v0*128+v1])       →     step v1:128
///         serial v2:128-v1                               %8[v0+v1*16] = f(%9[v0+v1*16])
///           %4[v0*128+v1+v2] = …                         …
///                                                      %5[v0*128+v2] = %8[v0+v2*16]  transposed
///
/// False when it leaves the kernel as it is.
bool to_lanes(ir::Kernel& kernel, ir::Schedule& schedule, const std::vector<bool>& local,
              const Settings& settings);

/// Wraps the body in a vector loop over what was a Range variable: lanes are neighbouring tiles.
void wrap(ir::Kernel& kernel, int var);
/// An axis of the statement by its variable; -1: it has none.
int axis_of(const ir::Placed& p, int var);

/// Marks the stores of large results as streamed (past the cache) where nothing later reads them
/// from memory: a reader in the same iteration uses the value itself, and one in the same tile gets
/// a copy in scratch.
void stream_results(ir::Schedule& schedule, const Settings& settings);

/// Packs the temporaries that remain in memory into one arena, by their lifetimes over the steps.
void plan_memory(ir::Schedule& schedule);

}  // namespace graft::passes
