// Matrix products as statements (ir/product.h): what fuse makes of a call that may be loops, so
// that products and what stands around them share tiles.
//
//     %4 = aten::bmm(%0, %1)
//  →  [a:8,b:512,c:512,d:64] %4[a*262144+b*512+c] f32 = reduced
//         reduced = sum.f32{d} (%0[a*32768+b*64+d] * %1[a*32768+d*512+c])
#pragma once

#include <set>
#include <vector>

#include "ir/product.h"
#include "ir/program.h"
#include "ir/target.h"

namespace graft::passes {

using ir::is_product;
using ir::product_axes;
using ir::ProductAxes;

/// Marks the products of fp32 that may be loops and gain where factors are rounded to bf16. With
/// few rows, rounding them takes as long as multiplying them, except of those in `held`, by record:
/// their right operands are held rounded, and half as much is read.
void mark_short_factors(ir::Program& program, const ir::Target& target, const std::set<int>& held);

/// The calls, by record, whose right operand is captured memory that nothing writes, so that its
/// order can be folded (passes/fold.h): some may be faster as loops, even alone.
std::set<int> with_folded_operand(const ir::Program& program, const ir::Target& target);

/// Is it a call that could be a loop, at some sizes?
bool is_product_call(const ir::Extern& call, const ir::Target& target);

struct WorthLoops {
  int record;
  bool alone;  ///< ATen multiplies by loops of its own, as fp16 on most machines: far slower
};
/// The calls that are worth being loops among others: what memory takes for their operands and
/// results, less the copies that come with it, and what the routine takes against ATen's, show
/// beside the arithmetic.
std::vector<WorthLoops> worth_loops(const ir::Program& program, const ir::Target& target);

/// Each call that ir::Extern::may_be_loops marks, but for those of `refused` (records), becomes a
/// product. Where columns of its right operand lie apart, or many rows come to a large one, a copy
/// that puts panels of its columns side by side comes before it; `folds`: also where that copy is
/// of constant memory, and so made once.
ir::Program products_as_loops(ir::Program program, const std::set<int>& refused,
                              const ir::Target& target, bool folds);

}  // namespace graft::passes
