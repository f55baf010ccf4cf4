// Recompute: what would lie in memory from the forward to the backward of a step is computed anew
// where it is needed again, if what it is made of is there and that takes little time.
//
//     %2 = f(%1)                        %2 = f(%1)
//     %3 = mm(%2, %0)                   %3 = mm(%2, %0)
//     …                            →    …                    most memory is in use here
//     %8 = mm(%7, %2)                   %9 = f(%1)  after what the last call wrote
//                                       %8 = mm(%7, %9)
//
// It looks at the point of the program where most memory is in use, and takes there what frees most
// bytes for the time that it costs, until there is nothing more or the step has become 3 %
// slower by the cost model. What is computed again is maps and matrix products of them, never
// reductions and random numbers.
#pragma once

#include "ir/program.h"
#include "passes/settings.h"

namespace graft::passes {

ir::Program recompute(ir::Program program, const Settings& settings);

}  // namespace graft::passes
