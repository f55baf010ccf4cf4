// Calls of ATen's operators about which more is known than their schemas say.
#pragma once

#include <optional>

#include "ir/extern.h"

namespace graft::passes {

/// It cannot fail by what its operands hold, and what it makes is memory that nobody else has. (An
/// operator may return memory that is mapped, kept by a library, or an operand's.)
bool is_plain(const ir::Extern& call);

/// Of a product of matrices, or of batches of them, in fp32 or half of its bits; nothing for other
/// calls.
std::optional<double> product_flops(const ir::Extern& call);

}  // namespace graft::passes
