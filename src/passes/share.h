// Share: what several statements compute of the same elements, and takes long, is computed once and
// stored: the tanh that GELU's forward and its backward both need.
//
//     [a:4096,b:2048] %2[…] f32 = (%0[…] * VectorTanh(%0[…]))
//     [a:4096,b:2048] %3[…] f32 = (%1[…] * VectorTanh(%0[…]))
// becomes
//     [a:4096,b:2048] %4[…] f32 = VectorTanh(%0[…])
//     [a:4096,b:2048] %2[…] f32 = (%0[…] * %4[…])
//     [a:4096,b:2048] %3[…] f32 = (%1[…] * %4[…])
//
// Values are shared where storing and loading them takes less time than computing them again, by
// the cost model. The statements must walk the same axes. Behind a call of ATen's a value would lie
// in memory for long, so a program shares none across calls. A region's forward and backward do:
// what is kept between them is chosen afterwards (passes/partition.h).
#pragma once

#include "ir/program.h"
#include "ir/target.h"

namespace graft::passes {

ir::Program share(ir::Program program, const ir::Target& target, bool across_calls = false);

}  // namespace graft::passes
