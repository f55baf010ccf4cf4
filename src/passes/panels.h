// A product's right operand, copied in front of it: its columns side by side, in panels; and of
// bf16, where the machine multiplies two terms at a time, its terms in pairs.
//
//     [..] %5[p*2048+k*32+c] = %1[k+p*2048+c*64]                   of 64 terms
//     [..] %5.i32[p*1024+k*32+c] = %1.i32[k+p*1024+c*32]           … in pairs
//     [..] %4[..] = sum.f32{k,h} (%0[..k*2+h] * %5[p*2048+k*64+c*2+h])
#pragma once

#include "ir/product.h"
#include "ir/program.h"
#include "ir/target.h"

namespace graft::passes {

/// An access of the view's memory by these strides over a statement's axes.
ir::Access access(const ir::View& view, std::vector<int64_t> strides);

/// A view of contiguous memory of its own, which the program gets.
ir::View temporary(ir::Program& program, std::vector<int64_t> sizes, c10::ScalarType dtype);

struct Panels {
  ir::Statement copy;
  /// [.., panels, terms, columns] or, in pairs, [.., panels, pairs, columns, 2].
  ir::View view;
  bool in_pairs = false;
};

/// Is the product of these operands, [.., rows, terms] and [.., terms, columns], both rounded to
/// `factors`, faster in pairs? An fp32 right operand is only where its copy is made once (`folds`).
bool takes_pairs(const ir::View& left, const ir::View& right, c10::ScalarType factors, bool folds,
                 const ir::Target& target);

/// Copies `right` [.., terms, columns] to a temporary, as numbers of `dtype`, by panels of so many
/// columns, which divides all; in pairs only if takes_pairs().
Panels pack(ir::Program& program, const ir::View& right, c10::ScalarType dtype, int64_t wide,
            bool in_pairs);

/// out [.., rows, columns] of fp32 = left [.., rows, terms] * right, both rounded to `factors`
/// first.
ir::Statement product(const ir::View& left, const ir::View& right, const ir::View& out,
                      c10::ScalarType factors);
ir::Statement product(const ir::View& left, const Panels& right, const ir::View& out,
                      c10::ScalarType factors);

}  // namespace graft::passes
