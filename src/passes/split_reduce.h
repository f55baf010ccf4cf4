// Split-reduce: a reduction becomes many partial ones and a reduction of those. A long one with few
// results, so that threads can share the work:
//
//     [a:1048576] %1[0] f32 = f32(reduced)   reduced = sum.f64{a} %0[a]
// becomes
//     [a:128,b:8192] %9[a] f64 = reduced     reduced = sum.f64{b} %0[a*8192+b]
//     [a:128] %1[0] f32 = f32(reduced)       reduced = sum.f64{a} %9[a]
//
// And one over the slow axes of memory, so that it walks down no more rows than pages are in reach:
//
//     [a:4096,b:3072] %1[b] f32 = f32(reduced)   reduced = sum.f64{a} %0[a*3072+b]
// becomes
//     [a:64,b:64,c:3072] %9[a*3072+c] f64 = reduced   reduced = sum.f64{b} %0[a*196608+b*3072+c]
//     [a:64,b:3072] %1[b] f32 = f32(reduced)          reduced = sum.f64{a} %9[a*3072+b]
//
// The parts depend on sizes and the target alone, so results have the same bits at every number of
// threads.
#pragma once

#include "ir/program.h"
#include "passes/settings.h"

namespace graft::passes {

ir::Program split_reductions(ir::Program program, const Settings& settings);
/// Is it long, with few results?
bool splittable(const ir::Statement& s);

}  // namespace graft::passes
