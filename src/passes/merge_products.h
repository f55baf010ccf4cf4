// Matrix products that the steps of a loop made, one after the other, of operands that lie at even
// distances: one product for all of them. It has the steps' bits or not, as ATen's routine pleases,
// so the caller tries that before it merges (runtime/plan/tune.h).
//
//     %4 = aten::mm(%0[0], %1)                   %9 = aten::mm(%0, %1)
//     [a:8] %5[a] = tanh(%4[a])                  [a:8] %5[a] = tanh(%9[a])
//     %6 = aten::mm(%0[1], %1)             →     [a:8] %7[a] = (tanh(%9[8+a]) + %5[a])
//     [a:8] %7[a] = (tanh(%6[a]) + %5[a])
#pragma once

#include <vector>

#include "ir/program.h"

namespace graft::passes {

struct ProductsToMerge {
  std::vector<size_t> items;  ///< the calls, in the order in which `merged` holds their results
  ir::Extern merged;          ///< its outputs are of storage -1
};

/// Those of small matrices: a large one is not faster for having others beside it.
std::vector<ProductsToMerge> products_to_merge(const ir::Program& program);

/// Each of `all` becomes one call, in place of its first.
ir::Program merge_products(ir::Program program, const std::vector<ProductsToMerge>& all);

}  // namespace graft::passes
