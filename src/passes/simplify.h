// Simplify: rewrites of expressions that hold bit for bit, for NaN, infinities, signed zeros and wrapping integers too.
#pragma once

#include "ir/program.h"

namespace graft::passes {

ir::Program simplify(ir::Program program);

}  // namespace graft::passes
