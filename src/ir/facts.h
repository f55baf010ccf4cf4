// What is known of nodes and routines beside their shape: the columns of nodes.def and routines.def
// that only some units need.
#pragma once

#include <algorithm>
#include <bit>

#include "ir/program.h"

namespace graft::ir {

/// Which types a node takes and makes. The leaves, and what follows a rule of its own, are classes
/// of one node each, so that a switch over classes says all there is to say about an expression.
enum class TypeClass : uint8_t {
  Load,
  Const,
  Scalar,
  Axis,
  Reduced,
  Number,   ///< operands and result of one type: Float, Double or an integer
  Real,     ///< of one type: Float or Double
  Single,   ///< of Float
  Integer,  ///< of one type: an integer
  Logic,    ///< of one type: Bool or an integer
  Compare,  ///< operands of one type, the result is Bool
  Select,
  Cast,
  Bitcast,
  Call,
};
TypeClass types(Op op);

/// What computing the node for a whole vector costs, in instructions of about an addition's price:
/// loads and casts 0, an addition 1, a division 4, a call what its routine costs.
int cost(const Node& node);
int cost(Routine routine);

/// Lanes up to so many elements apart are loaded and stored as whole vectors, and shuffled.
constexpr int64_t kInterleaved = 4;

/// Transposed copies between memory and scratch go by squares of kSquare elements; what is left of
/// a row behind the last one is padded. Rows shorter than a square go by narrower ones, of a power
/// of two.
constexpr int64_t kSquare = 16, kNarrowest = 4;
/// Columns of a row's last square. `varies`: the row's length may be another one.
inline int last_columns(int64_t count, bool varies) {
  if (varies || count > kSquare) return kSquare;
  const auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)));
  return static_cast<int>(std::max(power, kNarrowest));
}
/// Elements of a row whose last square has so many columns.
inline int64_t in_squares(int64_t count, int64_t columns) {
  return (count + columns - 1) / columns * columns;
}

/// Is the statement's reduction a sum that needs levels, since plain additions would lose digits?
/// Those of Float values in a Double accumulator stay more exact than eager's without.
inline bool needs_levels(const Statement& s) {
  if (s.reduction->op != ReduceOp::Sum || !is_float(s.reduction->type)) return false;
  if (s.reduction->type == ScalarType::Float) return true;
  for (const Node& node : s.expr.nodes)
    if ((node.op == Op::Load || node.op == Op::Bitcast) && node.type == ScalarType::Double)
      return true;
  return false;
}

}  // namespace graft::ir
