// Kernels with matrix products: tiles become blocks of rows. What several parts of a block share
// lies in its scratch, row by row; each product is one routine over the whole block, everything
// else runs row by row between products.
//
//     kernel v0:8 v1:512                       kernel v0:8 v1:8, scratch of 64 rows
//       serial v2:512 serial v3:64               serial v5:64 serial v2:512 serial v3:64
//         %4[…] = sum.f32 (%0[…] * %1[…])          %4[v5*512+v2] = sum.f32 (…)  product
//       serial v4:512                   →        step v6:64
//         %5[…] = exp(%4[…])                       serial v4:512
//                                                    %5[v6*512+v4] = exp(%4[v6*512+v4])
#pragma once

#include <optional>
#include <vector>

#include "ir/kernel.h"
#include "passes/settings.h"

namespace graft::passes {

/// Is there such a kernel in blocks?
bool fits_blocks(const ir::Kernel& kernel, const std::vector<bool>& local,
                 const Settings& settings);

/// The kernel in blocks, one for the whole blocks and one for the rows that are left; none where
/// they do not fit the cache, or the products are none for the routine. `local`: temporaries that
/// nothing else touches; the second kernel gets temporaries of its own, which are added to
/// `storages`.
std::optional<std::vector<ir::Kernel>> block_products(const ir::Kernel& kernel,
                                                      const std::vector<bool>& local,
                                                      std::vector<ir::Storage>& storages,
                                                      const Settings& settings);

}  // namespace graft::passes
