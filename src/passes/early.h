// Early: kernels after which large temporaries are free run as soon as what they need is there, and
// so do collectives, that other work may go on meanwhile, with what they are given.
//
//     %7 = aten::mm(…) writes %7            %7 = aten::mm(…) writes %7
//     %8 = aten::mm(…) writes %8      →     kernel  %0 = %0 - %7
//     kernel  %0 = %0 - %7                  %8 = aten::mm(…) writes %8
//     kernel  %1 = %1 - %8                  kernel  %1 = %1 - %8
//
// So a gradient lives until its parameter is updated, and is still in the cache then; and the sum
// of the last layers' gradients over processes is under way while the first layers' are computed.
#pragma once

#include "ir/kernel.h"

namespace graft::passes {

void free_early(ir::Schedule& schedule);

}  // namespace graft::passes
