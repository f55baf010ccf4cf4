// ATen's fused attention as statements: two products, and the softmax between them. What
// products_as_loops makes of a call that may be loops, so that fuse puts it into one kernel over
// blocks of rows, or leaves it a call.
//
//     %4, %5 = aten::_scaled_dot_product_flash_attention_for_cpu(%0, %1, %2, 0.0, True)
//  →  scores = q k^T (fp32) · masked = select(key > query, -inf, scale scores) · most = max masked
//     powers = NearExp(masked - most) · sums = sum powers · made = powers v · %4 = made / sums
//     %5 = log sums + most, where somebody reads it
//
//     %6, %7, %8 = aten::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, %4, %5)
//  →  powers = NearExp(masked - %5) · dots = sum g %4 · of = select(.., 0, powers (g v^T - dots))
//     %6 = scale of k · %7 = scale of^T q · %8 = powers^T g
//
// In 16 bits the factors of all products are, and the results: as in ATen's kernels, which round
// powers before they multiply them, and divide at the end.
#pragma once

#include <vector>

#include "ir/program.h"
#include "ir/target.h"

namespace graft::passes {

bool is_attention(const ir::Extern& call);

/// The calls, by record, that may be such statements: without dropout, and causal, with a mask that
/// is added, or neither; of at least 16 queries and as many keys as blocks of rows hold in the
/// second cache.
std::vector<int> attention_as_loops(const ir::Program& program, const ir::Target& target);

/// Appends the statements of such a call, with its record; false where its sizes (of a family,
/// those at hand) are none for them.
bool expand_attention(const ir::Extern& call, const ir::Target& target, ir::Program& program,
                      std::vector<ir::Item>& items);

}  // namespace graft::passes
