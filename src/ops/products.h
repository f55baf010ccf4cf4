// Sums of few products, as ATen's matrix products make them.
#pragma once

#include <utility>
#include <vector>

#include "ops/context.h"

namespace graft::ops {

/// Does ATen's bmm, of so many products in one matrix, add them one after the other, each rounded?
bool bmm_adds_in_order(const Context& ctx, int64_t products, c10::ScalarType dtype);

/// The products' sum, in their order; `plain`: as ATen's own loop, which rounds each product.
ir::Value sum_of_products(const Context& ctx, ir::StatementBuilder& s,
                          const std::vector<std::pair<ir::Value, ir::Value>>& factors, bool plain);

}  // namespace graft::ops
