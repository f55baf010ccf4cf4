// Sums of few products, as ATen's matrix products make them.
#pragma once

#include <utility>
#include <vector>

#include "ir/product.h"
#include "ops/context.h"

namespace graft::ops {

/// Element `k` along dimension `along` of a factor [batch, rows, columns], at each point of the
/// statement's axes: terms of the left factor lie along 2, of the right one along 1.
ir::Value term_of(ir::StatementBuilder& s, ir::View factor, size_t along, int64_t k);

/// Does ATen's bmm, of so many products in one matrix, add them one after the other, each rounded?
bool bmm_adds_in_order(const Context& ctx, int64_t products, c10::ScalarType dtype);

/// The order of ATen's routine for them (LowerSettings::order_of_terms).
ir::TermOrder order_of(const Context& ctx, const ir::FewTerms& product);

/// The products' sum, in their order. `plain`: as ATen's own loop, which rounds each product and
/// adds the first to 0; routines keep one that is -0.
ir::Value sum_of_products(ir::StatementBuilder& s,
                          const std::vector<std::pair<ir::Value, ir::Value>>& factors, bool plain,
                          ir::TermOrder order);

}  // namespace graft::ops
