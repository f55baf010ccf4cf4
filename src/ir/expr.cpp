#include "ir/expr.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "ir/facts.h"

namespace graft::ir {

namespace {

constexpr OpInfo kOps[] = {
#define NODE(name, arity, text, types, cost) {#name, arity, text},
#include "ir/nodes.def"
};
constexpr RoutineInfo kRoutines[] = {
#define ROUTINE(form, function, text, arity, cost) \
  {#form #function, text, arity, RoutineForm::form},
#include "ir/routines.def"
};

}  // namespace

std::optional<Routine> in_form(Routine routine, RoutineForm form) {
  for (const RoutineInfo& row : kRoutines)
    if (row.form == form && row.function == info(routine).function)
      return static_cast<Routine>(&row - kRoutines);
  return {};
}

TypeClass types(Op op) {
  constexpr TypeClass kTypes[] = {
#define NODE(name, arity, text, types, cost) TypeClass::types,
#include "ir/nodes.def"
  };
  return kTypes[static_cast<size_t>(op)];
}

int cost(Routine routine) {
  constexpr int kCosts[] = {
#define ROUTINE(form, function, text, arity, cost) cost,
#include "ir/routines.def"
  };
  return kCosts[static_cast<size_t>(routine)];
}

int cost(const Node& node) {
  constexpr int kCosts[] = {
#define NODE(name, arity, text, types, cost) cost,
#include "ir/nodes.def"
  };
  if (node.op == Op::Call) return cost(static_cast<Routine>(node.payload));
  return kCosts[static_cast<size_t>(node.op)];
}

const OpInfo& info(Op op) {
  return kOps[static_cast<size_t>(op)];
}
const RoutineInfo& info(Routine routine) {
  return kRoutines[static_cast<size_t>(routine)];
}

int arity(const Node& node) {
  return node.op == Op::Call ? info(static_cast<Routine>(node.payload)).arity : info(node.op).arity;
}

bool is_compared(Op op) {
  return types(op) == TypeClass::Compare;
}

NodeId Expr::add(Node node) {
  // Searching backwards finds the usual repeats (an operand just made) at once; expressions are
  // short.
  for (size_t i = nodes.size(); i-- > 0;)
    if (nodes[i] == node) return static_cast<NodeId>(i);
  nodes.push_back(node);
  return static_cast<NodeId>(nodes.size() - 1);
}

NodeId Expr::node(Op op, ScalarType type, NodeId a, NodeId b, NodeId c) {
  return add({op, type, {a, b, c}, 0});
}

NodeId Expr::cast(NodeId value, ScalarType to) {
  return type(value) == to ? value : node(Op::Cast, to, value);
}

NodeId Expr::constant(double value, ScalarType type) {
  if (!is_float(type)) return integer(static_cast<int64_t>(value), type);
  if (type == ScalarType::Float) value = static_cast<float>(value);
  return add({Op::Const, type, {-1, -1, -1}, std::bit_cast<int64_t>(value)});
}

NodeId Expr::integer(int64_t value, ScalarType type) {
  if (is_float(type)) return constant(static_cast<double>(value), type);
  return add({Op::Const, type, {-1, -1, -1}, value});
}

NodeId Expr::call(Routine routine, NodeId a, NodeId b) {
  return add({Op::Call, type(a), {a, b, -1}, static_cast<int64_t>(routine)});
}

double constant_value(const Node& node) {
  return is_float(node.type) ? std::bit_cast<double>(node.payload)
                             : static_cast<double>(node.payload);
}

}  // namespace graft::ir
