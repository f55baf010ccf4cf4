#include "passes/simplify.h"

#include "passes/rewrite.h"
#include "passes/rules.h"

namespace graft::passes {

using ir::Expr;
using ir::Node;
using ir::NodeId;
using ir::Op;

namespace {

bool is_constant(const Expr& e, NodeId id, double value) {
  const Node& node = e.nodes[static_cast<size_t>(id)];
  return node.op == Op::Const && ir::constant_value(node) == value &&
         !(value == 0 && is_float(node.type) && node.payload != 0);
}

/// Does every value of `narrow` survive a trip through `wide` and back?
bool widens(ScalarType narrow, ScalarType wide) {
  if (is_reduced(narrow)) return wide == ScalarType::Float || wide == ScalarType::Double;
  if (narrow == ScalarType::Float) return wide == ScalarType::Double;
  if (is_integer(narrow) && is_integer(wide))
    return c10::elementSize(wide) > c10::elementSize(narrow);
  return false;
}

/// Is a value, computed in Float, one of `narrow`'s already? Then rounding it to that changes
/// nothing.
bool fits(const Expr& e, NodeId id, ScalarType narrow) {
  const Node& n = node_at(e, id);
  if (n.op == Op::Cast) return e.type(n.in[0]) == narrow;
  if (n.op == Op::Neg || n.op == Op::Abs) return fits(e, n.in[0], narrow);
  if (n.op == Op::Max || n.op == Op::Min)
    return fits(e, n.in[0], narrow) && fits(e, n.in[1], narrow);
  if (n.op == Op::Select) return fits(e, n.in[1], narrow) && fits(e, n.in[2], narrow);
  if (n.op != Op::Const) return false;
  double value = rounded_to(ir::constant_value(n), ScalarType::Float);
  return rounded_to(value, narrow) == value;
}

/// Is the same value as often as one likes that value?
bool is_idempotent(ir::ReduceOp op) {
  return op == ir::ReduceOp::Or || op == ir::ReduceOp::And || op == ir::ReduceOp::Max ||
         op == ir::ReduceOp::Min;
}

/// What is the same along an axis is looked at once: indices that are expanded over columns.
void reduce_once(ir::Statement& s) {
  if (!s.reduction || scans(s) || !is_idempotent(s.reduction->op)) return;
  bool shorter = false;
  for (size_t axis = 0; axis < s.axes.size(); ++axis) {
    if (!s.reduction->axes[axis] || s.axes[axis] == 1 ||
        varying_along(s, axis)[static_cast<size_t>(s.reduction->input)])
      continue;
    take_range(s, axis, 0, 1);
    shorter = true;
  }
  if (shorter) drop_unit_axes(s);
}

constexpr Rule kExactRules[] = {
    {"x * 1 = x",
     [](Expr& e, const Node& n) -> std::optional<NodeId> {
       if (n.op == Op::Mul && is_constant(e, n.in[1], 1)) return n.in[0];
       if (n.op == Op::Mul && is_constant(e, n.in[0], 1)) return n.in[1];
       return {};
     }},
    {"x / 1 = x",
     [](Expr& e, const Node& n) -> std::optional<NodeId> {
       if (n.op == Op::Div && is_constant(e, n.in[1], 1)) return n.in[0];
       return {};
     }},
    {"integer x + 0 = x, x - 0 = x",
     [](Expr& e, const Node& n) -> std::optional<NodeId> {
       if (!is_integer(n.type) || (n.op != Op::Add && n.op != Op::Sub)) return {};
       if (is_constant(e, n.in[1], 0)) return n.in[0];
       if (n.op == Op::Add && is_constant(e, n.in[0], 0)) return n.in[1];
       return {};
     }},
    {"- - x = x, ~ ~ x = x",
     [](Expr& e, const Node& n) -> std::optional<NodeId> {
       if ((n.op == Op::Neg || n.op == Op::Not) && node_at(e, n.in[0]).op == n.op)
         return node_at(e, n.in[0]).in[0];
       return {};
     }},
    {"select(constant, a, b)",
     [](Expr& e, const Node& n) -> std::optional<NodeId> {
       if (n.op != Op::Select || node_at(e, n.in[0]).op != Op::Const) return {};
       return node_at(e, n.in[0]).payload ? n.in[1] : n.in[2];
     }},
    {"select(c, a, a) = a",
     [](Expr&, const Node& n) -> std::optional<NodeId> {
       if (n.op == Op::Select && n.in[1] == n.in[2]) return n.in[1];
       return {};
     }},
    {"narrow(wide(x)) = x",
     [](Expr& e, const Node& n) -> std::optional<NodeId> {
       if (n.op != Op::Cast || node_at(e, n.in[0]).op != Op::Cast) return {};
       NodeId inner = node_at(e, n.in[0]).in[0];
       if (e.type(inner) == n.type && widens(n.type, e.type(n.in[0]))) return inner;
       return {};
     }},
    {"float(half(x)) = x where x is made of halves",
     [](Expr& e, const Node& n) -> std::optional<NodeId> {
       auto inner = rounded_to_half(e, n);
       return inner && fits(e, *inner, e.type(n.in[0])) ? inner : std::nullopt;
     }},
    {"double(float(x)) = double(x) for narrow x",
     [](Expr& e, const Node& n) -> std::optional<NodeId> {
       if (n.op != Op::Cast || n.type != ScalarType::Double || node_at(e, n.in[0]).op != Op::Cast)
         return {};
       NodeId inner = node_at(e, n.in[0]).in[0];
       if (is_reduced(e.type(inner)) && e.type(n.in[0]) == ScalarType::Float)
         return e.cast(inner, ScalarType::Double);
       return {};
     }},
};

}  // namespace

std::vector<const char*> simplify_rules() {
  std::vector<const char*> names;
  for (const Rule& rule : kExactRules) names.push_back(rule.what);
  return names;
}

ir::Program simplify(ir::Program program) {
  program = rewrite_nodes(std::move(program), kExactRules);
  for (ir::Item& item : program.items)
    if (auto* statement = std::get_if<ir::Statement>(&item)) reduce_once(*statement);
  return program;
}

}  // namespace graft::passes
