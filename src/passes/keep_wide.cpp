#include "passes/keep_wide.h"

#include "passes/rules.h"

namespace graft::passes {

using ir::Expr;
using ir::Node;
using ir::NodeId;
using ir::Op;

namespace {

constexpr Rule kRules[] = {
    {"float(half(x)) = x", [](Expr& e, const Node& n) { return rounded_to_half(e, n); }},
    {"exp is the inline polynomial",
     [](Expr& e, const Node& n) -> std::optional<NodeId> {
       if (n.op != Op::Call || n.type != ScalarType::Float) return {};
       auto routine = static_cast<ir::Routine>(n.payload);
       if (routine != ir::Routine::ArrayExp && routine != ir::Routine::VectorExp &&
           routine != ir::Routine::FormulaExp)
         return {};
       return e.call(ir::Routine::NearExp, n.in[0]);
     }},
};

}  // namespace

ir::Program keep_wide(ir::Program program) {
  return rewrite_nodes(std::move(program), kRules);
}

}  // namespace graft::passes
