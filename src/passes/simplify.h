// Simplify: rewrites of expressions that keep every bit, also for NaN, infinities, signed zeros and
// wrapping integers.
#pragma once

#include <vector>

#include "ir/program.h"

namespace graft::passes {

ir::Program simplify(ir::Program program);
/// What each of its rules says, for tests: there is one test per rule.
std::vector<const char*> simplify_rules();

/// Numerics::Fast only: drops the rounding of bf16 and fp16 values that stay inside one statement,
/// and computes exp inline.
///
///     bf16((f32(bf16((f32(%0.bf16[a]) * f32(%1.bf16[a])))) + f32(%2.bf16[a])))
/// becomes
///     bf16(((f32(%0.bf16[a]) * f32(%1.bf16[a])) + f32(%2.bf16[a])))
ir::Program keep_wide(ir::Program program);

}  // namespace graft::passes
