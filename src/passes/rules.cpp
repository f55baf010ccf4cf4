#include "passes/rules.h"

#include "ir/visit.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Expr;
using ir::Node;
using ir::NodeId;
using ir::Op;

namespace {

void rewrite_statement(ir::Statement& s, std::span<const Rule> rules) {
  rebuild(s, [&](Expr& out, const Node& node) {
    for (const Rule& rule : rules)
      if (std::optional<NodeId> better = rule.rewrite(out, node)) return *better;
    return out.add(node);
  });
  compact(s);
}

}  // namespace

ir::Program rewrite_nodes(ir::Program program, std::span<const Rule> rules) {
  for (ir::Item& item : program.items)
    ir::match(
        item, [&](ir::Statement& s) { rewrite_statement(s, rules); },
        [&](ir::Repeat& r) {
          for (ir::Statement& s : r.body) rewrite_statement(s, rules);
        },
        [](ir::Extern&) {}, [](ir::Abort&) {});
  return program;
}

std::optional<NodeId> rounded_to_half(const Expr& e, const Node& n) {
  if (n.op != Op::Cast || n.type != ScalarType::Float || node_at(e, n.in[0]).op != Op::Cast)
    return {};
  ScalarType middle = e.type(n.in[0]);
  NodeId inner = node_at(e, n.in[0]).in[0];
  return is_half(middle) && e.type(inner) == ScalarType::Float ? std::optional(inner)
                                                               : std::nullopt;
}

}  // namespace graft::passes
