#include "passes/free_sizes.h"

#include <cstdlib>
#include <set>

namespace graft::passes {

namespace {

using ir::Node;
using ir::NodeId;
using ir::Op;

/// Whole numbers become scalars, but those that something is divided by: code divides by constants
/// much faster.
void free_constants(ir::Statement& s) {
  std::set<NodeId> kept;
  for (const Node& node : s.expr.nodes)
    if (node.op == Op::IDiv || node.op == Op::IRem) kept.insert(node.in[1]);
  // Nodes keep their places, which others name.
  for (size_t id = 0; id < s.expr.nodes.size(); ++id) {
    Node& node = s.expr.nodes[id];
    if (node.op != Op::Const || node.type != c10::ScalarType::Long || std::abs(node.payload) <= 1 ||
        kept.contains(static_cast<NodeId>(id)))
      continue;
    s.scalars.push_back(static_cast<uint64_t>(node.payload));
    node = {Op::Scalar, node.type, {-1, -1, -1}, static_cast<int64_t>(s.scalars.size() - 1)};
  }
}

}  // namespace

void free_sizes(ir::Schedule& schedule) {
  for (ir::Step& step : schedule.steps) {
    auto* kernel = std::get_if<ir::Kernel>(&step);
    if (kernel == nullptr) continue;
    kernel->any_size = true;
    for (ir::Placed& placed : kernel->placed) free_constants(placed.statement);
  }
}

}  // namespace graft::passes
