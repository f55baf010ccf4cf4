// Inline: a statement that reads a temporary computes the value itself, where that is estimated to
// take less time than storing it (inline_cost.h).
//
//     [a:4,b:8] %9[a*8+b] f32 = (%0[a*8+b] * %1[b])
//     [a:4,b:8] %2[a*8+b] f32 = (%9[a*8+b] + 1)
// becomes
//     [a:4,b:8] %2[a*8+b] f32 = ((%0[a*8+b] * %1[b]) + 1)
//
// A reader of memory that several statements stored in parts (cat, pad, slices written in place) is
// first split at the parts' borders, so that each piece has one producer.
#pragma once

#include "ir/program.h"
#include "passes/decider.h"
#include "passes/settings.h"

namespace graft::passes {

ir::Program inline_producers(ir::Program program, const Settings& settings, Decider& decider);

}  // namespace graft::passes
