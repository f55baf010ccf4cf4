// Stream: where results are together larger than the last cache, those that nothing later reads
// from memory are stored past the cache. A plain store first reads the line that it will overwrite.
// A reader in the same iteration uses the value itself, and one in the same tile gets a copy in
// scratch.
//
//     %3[v0*2048+v1] = x                       %3[v0*2048+v1] = x  streamed
//     … a later loop of the tile …      →      %10[v1] = x                       in scratch
//     %9[v0*2048+v2] = %3[v0*2048+v2] * …      %9[v0*2048+v2] = %10[v2] * …  streamed
#pragma once

#include "ir/kernel.h"
#include "passes/settings.h"

namespace graft::passes {

/// May add storages to the schedule: the copies.
void stream_results(ir::Schedule& schedule, const Settings& settings);

}  // namespace graft::passes
