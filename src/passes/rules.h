// Rules that rewrite nodes of expressions: what simplify and keep-wide are made of.
#pragma once

#include <optional>
#include <span>

#include "ir/program.h"

namespace graft::passes {

struct Rule {
  const char* what;  ///< "x * 1 = x"
  /// Sees a node whose operands are rewritten already, and gives the node that replaces it, or
  /// nothing.
  std::optional<ir::NodeId> (*rewrite)(ir::Expr&, const ir::Node&);
};

/// Every node of every statement, operands first; the first rule that has an answer counts.
ir::Program rewrite_nodes(ir::Program program, std::span<const Rule> rules);

inline const ir::Node& node_at(const ir::Expr& e, ir::NodeId id) {
  return e.nodes[static_cast<size_t>(id)];
}
/// x of float(half(x)), x a Float.
std::optional<ir::NodeId> rounded_to_half(const ir::Expr& e, const ir::Node& n);

}  // namespace graft::passes
