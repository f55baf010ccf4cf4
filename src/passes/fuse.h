// Fuse: makes a schedule of the program. Statements that touch, along common parallel axes, only
// their own slice of every shared buffer run as one kernel, tile by tile (docs/compiler.md).
// This one rule fuses pointwise chains, residual + RMSNorm and softmax.
//
//     [a:4096,b:2048] %9[a*2048+b] f32 = …
//     [a:4096,b:2048] %8[a] f32 = …  reduced = sum{b} %9[a*2048+b]
//     [a:4096,b:2048] %2[a*2048+b] f32 = (%9[a*2048+b] * %8[a])
// becomes
//     kernel v0:4096
//       serial v1:2048   %9 = …, reduced = sum %9
//       serial v2:2048   %2 = %9 * %8
#pragma once

#include "ir/kernel.h"
#include "ir/program.h"
#include "passes/decider.h"
#include "passes/settings.h"

namespace graft::passes {

/// `share`: false makes each statement a kernel of its own.
ir::Schedule fuse(ir::Program program, bool share, const Settings& settings, Decider& decider);

}  // namespace graft::passes
