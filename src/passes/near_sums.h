// Near-sums: inside a sum, a function need not be computed one number at a time.
#pragma once

#include "ir/program.h"

namespace graft::passes {

/// Where ATen computes a function one number at a time (xlogy's logarithm) and all that it is used
/// for are the terms of a floating sum, its vector form computes it: the order of the sum's
/// roundings differs from eager's anyway. What is compared, rounded to a whole number, stored or
/// used as an index keeps its bits.
///
///     %2[a] f32 = f32(reduced)  reduced = sum.f64{b} f64((%0.f32[a*9+b] * ScalarLog(%0[a*9+b])))
/// becomes
///     %2[a] f32 = f32(reduced)  reduced = sum.f64{b} f64((%0.f32[a*9+b] * VectorLog(%0[a*9+b])))
ir::Program near_sums(ir::Program program);

}  // namespace graft::passes
