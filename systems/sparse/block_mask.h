// What the files about masks share.
#pragma once

#include <ATen/core/Tensor.h>

#include <sstream>
#include <string>

#include "graft/systems/sparse_attention.h"

namespace graft::systems {

/// "query Float [1, 8, 64, 32]"
std::string shape_text(const char* name, const at::Tensor& tensor);

/// Of a value per block (…, blocks of queries, blocks of keys), one per score (…, queries, keys).
at::Tensor spread_blocks(const at::Tensor& blocks, const BlockMask& mask);

/// The last kept block of each row, Bool like `keep`.
at::Tensor last_kept(const at::Tensor& keep);

/// Of each head, the share of `keep`'s blocks with the highest scores, `always` first. All are
/// (batch, heads, blocks of queries, blocks of keys).
at::Tensor best_share(const at::Tensor& keep, const at::Tensor& always, const at::Tensor& scores,
                      double share);

/// Throws c10::ValueError unless query, key, value (if it is defined) and mask fit together.
void check_attention(const char* who, const at::Tensor& query, const at::Tensor& key,
                     const at::Tensor& value, const BlockMask& mask);
void check_mask(const char* who, const BlockMask& mask);

}  // namespace graft::systems
