#include "passes/near_sums.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/visit.h"
#include "tensor/dtype.h"

namespace graft::passes {

using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Routine;
using ir::RoutineForm;
using ir::Statement;

namespace {

/// The vector form of a routine of one number; none where a unit in the last place may matter much.
std::optional<Routine> vector_form(Routine scalar) {
  if (info(scalar).form != RoutineForm::Scalar || scalar == Routine::ScalarFmod) return {};
  return in_form(scalar, RoutineForm::Vector);
}

/// Is operand `k` one whose small error gives the node a small error?
bool is_smooth(const Node& node, size_t k) {
  constexpr Op kSmooth[] = {Op::Add, Op::Sub, Op::Mul, Op::Neg, Op::Abs,
                            Op::Max, Op::Min, Op::Div, Op::Fma, Op::Sqrt};
  return std::find(std::begin(kSmooth), std::end(kSmooth), node.op) != std::end(kSmooth) ||
         (node.op == Op::Select && k > 0) || (node.op == Op::Cast && is_float(node.type));
}

/// Which nodes are used for terms of the sum alone, without a step between.
std::vector<bool> terms_of(const Statement& s) {
  const size_t count = s.expr.nodes.size();
  std::vector<bool> used(count, false), exact(count, false);
  auto keep = [&](NodeId id) { exact[static_cast<size_t>(id)] = true; };
  for (const ir::Access& load : s.loads)
    for (const ir::Indirect& index : load.indirect) keep(index.index);
  for (const ir::Indirect& index : s.store.indirect) keep(index.index);
  if (s.value != s.reduction->input) keep(s.value);
  used[static_cast<size_t>(s.reduction->input)] = true;
  for (size_t id = count; id-- > 0;) {
    const Node& node = s.expr.nodes[id];
    for (size_t k = 0; k < node.in.size() && node.in[k] >= 0; ++k) {
      if (exact[id] || !is_smooth(node, k)) keep(node.in[k]);
      if (used[id]) used[static_cast<size_t>(node.in[k])] = true;
    }
  }
  for (size_t id = 0; id < count; ++id) used[id] = used[id] && !exact[id];
  return used;
}

void compute_terms_by_vector(Statement& s) {
  if (!s.reduction || s.reduction->op != ir::ReduceOp::Sum || s.reduction->scan ||
      !is_float(s.reduction->type))
    return;
  const std::vector<bool> terms = terms_of(s);
  for (size_t id = 0; id < terms.size(); ++id) {
    Node& node = s.expr.nodes[id];
    if (!terms[id] || node.op != Op::Call) continue;
    if (auto vector = vector_form(static_cast<Routine>(node.payload)))
      node.payload = static_cast<int64_t>(*vector);
  }
}

}  // namespace

ir::Program near_sums(ir::Program program) {
  for (ir::Item& item : program.items)
    ir::match(
        item, [](Statement& s) { compute_terms_by_vector(s); },
        [](ir::Repeat& r) { std::for_each(r.body.begin(), r.body.end(), compute_terms_by_vector); },
        [](ir::Extern&) {}, [](ir::Abort&) {});
  return program;
}

}  // namespace graft::passes
