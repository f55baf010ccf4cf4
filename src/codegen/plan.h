// A kernel's plan: its loops, and its expressions as values numbered over all statements, each with
// the place where it is computed. (The plan that a call runs is runtime/plan/plan.h's.)
//
// Equal expressions are one value, in however many statements they occur; a load of what an earlier
// statement stored at the same place is the stored value. Each value has a home: the outermost loop
// in which its operands and loop indices are available and no store inside the loop may change what
// it loads. Knows nothing of LLVM.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "codegen/layout.h"

namespace graft::codegen {

/// A value number. `payload`: Const: bits as the node's; Scalar: slot in Binding::scalars; Axis: a
/// kernel variable; Reduced: a placed statement; Call: the routine.
struct PlanValue {
  ir::Op op = ir::Op::Const;
  ScalarType type = ScalarType::Float;
  std::array<int, 3> in = {-1, -1, -1};
  int64_t payload = 0;
  int access = -1;                               ///< Load: into Layout::accesses
  std::vector<std::pair<int, Stride>> indirect;  ///< Load: indices and their strides
  int table = 0;                                 ///< Load: IndirectPart::table of its only index
  bool near = false;                             ///< Load: IndirectPart::near of all its indices
  bool digit = false;                            ///< Digit
  int low_bits_of = -1;                          ///< Digit::low_bits_of
  int version = 0;                               ///< Load: differs after each store to its storage
  int home = 0;                                  ///< into KernelPlan::loops
  bool varying = false;  ///< has a value of its own in each lane of the vector loop around it
  /// What the backend adds (codegen/llvm/tables.cpp): the value is entry `digit_value` of those
  /// that `table_value`, a vector, has in its lanes.
  int table_value = -1, digit_value = -1;
  bool is_table = false;
  /// What is known of a value or an index, as `table` and `near`, holds for an equal one, too.
  bool same_key(const PlanValue& other) const {
    return op == other.op && type == other.type && in == other.in && payload == other.payload &&
           access == other.access && indirect == other.indirect && version == other.version &&
           home == other.home;
  }
};

/// A call of a routine that wants arrays.
inline bool is_array_call(const PlanValue& v) {
  return v.op == ir::Op::Call &&
         info(static_cast<ir::Routine>(v.payload)).form == ir::RoutineForm::Array;
}

struct PlanItem {
  int loop = -1;    ///< either a loop
  int placed = -1;  ///< or a statement
};

/// 0 is the kernel's entry; with RangeKind::Flattened 1 is the range iteration; then the tree's
/// loops (those of extent 1 are dissolved) and the epilogues: loops that finish reductions with
/// accumulator arrays.
struct LoopPlan {
  int var = -1;
  int parent = -1;
  int depth = 0;
  bool vector = false;  ///< its iterations are lanes
  int unroll = 1;       ///< vectors per iteration of the main loop
  bool strips = false;  ///< a vector loop that runs in strips, because a routine takes arrays
  bool nested = false;  ///< has inner loops
  std::vector<PlanItem> items;
  std::vector<int> finishes;  ///< reductions whose values are stored when it ends, in order
  std::vector<int> stores;    ///< storages that it stores to
};

enum class Accumulate : uint8_t {
  None,
  Scalar,   ///< one accumulator
  PerLane,  ///< the vector loop is outside the reduced ones: one accumulator per lane
  Lanes,    ///< the vector loop is reduced: a partial accumulator per lane, combined at the end
  Array,    ///< the vector loop is inside a reduced one, not reduced itself: accumulators in memory
};

/// Vectors that a loop's reductions accumulate in, at most: they stay in registers.
constexpr int kMostSums = 24;
/// Steps of a loop that a sum in blocks adds up before its next block starts: so few lose less on
/// the way than eager's sums in Float do. Where the loop runs inside another one of the same sum,
/// shorter blocks join the one that follows.
constexpr int64_t kBlockSteps = 8;

struct StatementPlan {
  int loop = 0;  ///< the innermost loop around it
  int value = -1;
  /// Otherwise the value is made in its place and not stored: nobody loads it, as every reader has
  /// it as a value, and it is overwritten or the kernel's own.
  bool stores = true;
  std::vector<std::pair<int, Stride>> store_indirect;
  /// Statements, this one among them, whose interleaved stores are written as one, indexed by part;
  /// they are written when the last one is due. Empty: it stores alone.
  std::vector<int> joined;
  bool last_joined = false;
  // Reductions:
  Accumulate accumulate = Accumulate::None;
  int input = -1;
  int reduced = -1;      ///< value number of the accumulated value
  int reduce_loop = -1;  ///< outermost reduced loop; -1: every reduced axis has extent 1
  int finish_loop = 0;   ///< where the result is computed and stored
  int array_loop = -1;   ///< Array: a loop over the array, outside the reduced ones
  bool scan = false;
  bool in_order = true;  ///< places come in increasing order: the loops are nested as the axes are
  /// Placed::quiet: the bounds, and what must be finite, as value numbers. Empty: it is not.
  std::vector<int> quiet;
  /// An accumulator no wider than its input adds up in levels: sums of blocks, and in a cascade
  /// what adding them loses.
  Levels levels = Levels::None;
  /// A sum that widens its terms (ir/program.h): a block of steps adds up in their type, and is
  /// widened and added to the blocks before.
  bool widens = false;
  bool fuses = false;  ///< it adds products (StatementLayout::many_products), each unrounded
  /// It adds the vectors of a step up in pairs, pairs of pairs and so on, before that goes into its
  /// one accumulator. Otherwise each vector of a step has an accumulator of its own.
  bool paired = false;
  bool has_blocks() const { return levels != Levels::None || widens; }
  /// Of a sum in blocks: does it reduce over several loops?
  bool is_nested() const { return reduce_loop >= 0 && reduce_loop != loop; }
};

/// use(v) for each value number that the statement asks for.
template <class Use>
void each_use(const StatementPlan& s, Use use) {
  for (int v : {s.value, s.input})
    if (v >= 0) use(v);
  for (const auto& [index, stride] : s.store_indirect) use(index);
  for (int v : s.quiet) use(v);
}

struct KernelPlan {
  std::vector<LoopPlan> loops;
  std::vector<StatementPlan> statements;
  std::vector<PlanValue> values;
  int root = 0;  ///< the loop whose items are the kernel's body

  bool encloses(int outer, int inner) const;    ///< true for equal loops too
  int vector_loop(int loop) const;              ///< the vector loop that is or encloses it; -1
  std::vector<int> block_sums(int loop) const;  ///< statements right in it that add up in blocks
};

KernelPlan make_plan(const ir::Kernel& kernel, const Layout& layout);

/// The type that the accumulators of statement `p` have: of what is compared, for places; Float for
/// the narrow floating types, which is exact.
ScalarType accumulated(const KernelPlan& plan, const ir::Reduction& reduction, int p);
/// The type in which a step of the loop adds its term.
inline ScalarType stepped(const KernelPlan& plan, const ir::Reduction& reduction, int p) {
  return plan.statements[static_cast<size_t>(p)].widens ? ScalarType::Float
                                                        : accumulated(plan, reduction, p);
}

/// Does statement `p` add up products in Float (ir/product.h)? One instruction adds one, as in the
/// routines for them.
inline bool is_fused_sum(const KernelPlan& plan, const ir::Reduction& reduction, int p,
                         const ir::Target& target) {
  const StatementPlan& s = plan.statements[static_cast<size_t>(p)];
  const PlanValue& input = plan.values[static_cast<size_t>(s.input)];
  return target.fma && reduction.op == ir::ReduceOp::Sum && !reduction.scan &&
         (reduction.type == ScalarType::Float || s.fuses) && input.op == ir::Op::Mul &&
         input.type == ScalarType::Float;
}

inline bool is_extreme(ir::ReduceOp op) {
  return op == ir::ReduceOp::Max || op == ir::ReduceOp::Min;
}
inline bool wants_largest(ir::ReduceOp op) {
  return op == ir::ReduceOp::Max || op == ir::ReduceOp::ArgMax;
}

}  // namespace graft::codegen
