// Reroll: finds the loop that a program was unrolled from. A run of statement groups of one
// structure, whose offsets, extents and index constants advance by constants, becomes a Repeat.
//
//     [a:4096] %1[a*128] f32 = …
//     [a:4096,b:127] %2[a*128+b+1] f32 = …  %1[…]
//     [a:4096] %1[a*128+1] f32 = …
//     [a:4096,b:126] %2[a*128+b+2] f32 = …  %1[…]
//     …
// becomes
//     repeat 127
//       [a:127,b:4096] %1[a+b*128] f32 = …
//       [a:127,b:4096,c:127-a] %2[a+b*128+c+1] f32 = …  %1[…]
//
// A temporary that each step makes anew becomes one storage for all steps. One that the next step
// reads too is carried from step to step: the last step's storage stands for all.
#pragma once

#include "ir/program.h"
#include "passes/settings.h"

namespace graft::passes {

/// Only loops that have tiles. Statements that nobody reads any more are dead-stores' to remove.
ir::Program reroll(ir::Program program, const Settings& settings = {});

/// How many items are left of the program after reroll and dead-stores.
size_t items_after_reroll(const ir::Program& program, const Settings& settings = {});

}  // namespace graft::passes
