// Vectors: chooses each kernel's vector loops, and puts reduced loops inside of kept ones. The
// vector loop is the one that is estimated to cost least (cost.h; for a column sum: the kept axis):
// one of the tiles, whose lanes are then neighbouring tiles, or one of each nest of loops inside.
// Kernels that `lanes` gave a vector loop keep it.
//
//     kernel v0:4096                                 kernel v0:4096
//       serial v1:2048 %1[v0*2048+v1] = …       →      vector v1:2048 %1[v0*2048+v1] = …
#pragma once

#include "ir/kernel.h"
#include "passes/cost.h"
#include "passes/decider.h"
#include "passes/settings.h"

namespace graft::passes {

/// What the statements cost with the variable as their vector loop, in instructions.
double cost_with(const ir::Kernel& kernel, const std::vector<size_t>& placed, int var,
                 const ir::Target& target, const std::vector<StagedRow>& staged = {});

/// What the kernel costs with the vector loops that are best for it, in instructions.
double best_cost(const ir::Kernel& kernel, const ir::Target& target);

void choose_vectors(ir::Schedule& schedule, const Settings& settings, Decider& decider);

}  // namespace graft::passes
