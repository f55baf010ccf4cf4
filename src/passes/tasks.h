// Tasks: says how many iterations of its range a thread takes at least, by what they cost, so that
// small kernels stay on one thread; and names kernels after what they do.
//
//     kernel  v0:64 grain 1      →     kernel map_sum v0:64 grain 12
#pragma once

#include "ir/kernel.h"

namespace graft::passes {

void size_tasks(ir::Schedule& schedule);

}  // namespace graft::passes
