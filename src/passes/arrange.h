// Arrange: makes a kernel's loops fit the machine: merges loops that walk memory as one, chooses
// the vector loop, gives tile-local temporaries scratch memory, and sets how much work a task gets
// at least.
#pragma once

#include "ir/kernel.h"
#include "passes/pipeline.h"

namespace graft::passes {

void arrange(ir::Kernel& kernel, const std::vector<ir::Storage>& storages,
             const std::vector<bool>& local_temporary, const Settings& settings);

/// Marks the stores of large results that nothing reads.
void stream_results(ir::Schedule& schedule, const Settings& settings);

/// Packs the temporaries that are still memory into one arena, by their lifetimes over the steps.
void plan_memory(ir::Schedule& schedule);

}  // namespace graft::passes
