// Keep-wide: fast numerics compute chains of bf16 and fp16 operators in fp32.
#pragma once

#include "ir/program.h"

namespace graft::passes {

/// Numerics::Fast only: drops the rounding of bf16 and fp16 values that stay inside one statement,
/// and computes exp inline.
///
///     bf16((f32(bf16((f32(%0.bf16[a]) * f32(%1.bf16[a])))) + f32(%2.bf16[a])))
/// becomes
///     bf16(((f32(%0.bf16[a]) * f32(%1.bf16[a])) + f32(%2.bf16[a])))
ir::Program keep_wide(ir::Program program);

}  // namespace graft::passes
