// Narrow-integers: whole numbers that fit 32 bits are computed and kept in 32.
#pragma once

#include "ir/program.h"
#include "passes/settings.h"

namespace graft::passes {

/// Counts, places and masks are int64 in ATen, of which a vector holds half as many as of floats,
/// and for which processors lack instructions. What a node can be follows from types, extents and
/// numbers (ir/range.h): one that lies within int32 is computed there, also as a reduction, and a
/// temporary that holds such values alone is int32. Results and the caller's memory stay as they
/// are, and so do indices' types. Unrolled loops and programs of any size are left alone.
///
///     [a:64] %2[a] i64 = reduced  reduced = sum.i64{b} i64((%0.f32[a*9+b] < $1))
///     [a:64] %3[a] f32 = (f32(%2.i64[a]) * $0.5)
/// becomes
///     [a:64] %2[a] i32 = reduced  reduced = sum.i32{b} i32((%0.f32[a*9+b] < $1))
///     [a:64] %3[a] f32 = (f32(%2.i32[a]) * $0.5)
ir::Program narrow_integers(ir::Program program, const Settings& settings);

}  // namespace graft::passes
