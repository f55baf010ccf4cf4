// Split-reduce: a long reduction with few results becomes many partial ones and a reduction of
// those, so that threads can share the work.
//
//     [a:1048576] %1[0] f32 = f32(reduced)   reduced = sum.f64{a} %0[a]
// becomes
//     [a:128,b:8192] %9[a] f64 = reduced     reduced = sum.f64{b} %0[a*8192+b]
//     [a:128] %1[0] f32 = f32(reduced)       reduced = sum.f64{a} %9[a]
//
// The parts depend on the sizes alone, so results have the same bits at every number of threads.
#pragma once

#include "ir/program.h"

namespace graft::passes {

ir::Program split_reductions(ir::Program program);
/// Does split_reductions() split this statement?
bool splittable(const ir::Statement& s);

}  // namespace graft::passes
