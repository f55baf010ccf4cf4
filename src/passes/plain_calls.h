// Calls of ATen's operators about which more is known than their schemas say.
#pragma once

#include "ir/extern.h"

namespace graft::passes {

/// It cannot fail by what its operands hold, and what it makes is memory that nobody else has. (An
/// operator may return memory that is mapped, kept by a library, or an operand's.)
bool is_plain(const ir::Extern& call);

}  // namespace graft::passes
