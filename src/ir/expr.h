// The scalar expression of a statement: a typed DAG in which every rounding is a node.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace graft::ir {

enum class Op : uint8_t {
#define NODE(name, ...) name,
#include "ir/nodes.def"
};
struct OpInfo {
  std::string_view name;
  int arity;  ///< -1: that of the routine called
  std::string_view text;
};
const OpInfo& info(Op op);

enum class Routine : uint8_t {
#define ROUTINE(form, function, ...) form##function,
#include "ir/routines.def"
};
/// Which of a function's computations in ATen it is: see routines.def.
enum class RoutineForm : uint8_t { Array, Vector, Scalar, Formula, Near };
struct RoutineInfo {
  std::string_view name;
  std::string_view function;  ///< "exp", as <cmath> calls it
  int arity;
  RoutineForm form;
};
const RoutineInfo& info(Routine routine);
/// The routine of the same function in another form, if it has that.
std::optional<Routine> in_form(Routine routine, RoutineForm form);

/// A node's index in its Expr.
using NodeId = int32_t;

struct Node {
  Op op;
  ScalarType type;
  std::array<NodeId, 3> in = {-1, -1, -1};
  int64_t payload = 0;
  bool operator==(const Node&) const = default;
};

int arity(const Node& node);
bool is_compared(Op op);  ///< Eq … Ge

/// Nodes in topological order: operands come before their users. Appending merges equal pure nodes.
class Expr {
 public:
  std::vector<Node> nodes;

  NodeId add(Node node);
  NodeId node(Op op, ScalarType type, NodeId a = -1, NodeId b = -1, NodeId c = -1);
  NodeId cast(NodeId value, ScalarType to);  ///< the value itself when it has that type already
  /// Bits in payload: integers and Bool as int64, floating types as the bits of the double nearest
  /// to the value.
  NodeId constant(double value, ScalarType type);
  NodeId integer(int64_t value, ScalarType type);
  NodeId call(Routine routine, NodeId a, NodeId b = -1);
  ScalarType type(NodeId id) const { return nodes[static_cast<size_t>(id)].type; }
};
double constant_value(const Node& node);  ///< of a Const node, whatever its type

}  // namespace graft::ir
