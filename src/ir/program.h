// The loop program: an eager program as loops over buffers, in the order it ran.
//
// Semantics. Items run in order. A Statement is a loop nest over `axes` that stores one scalar per
// point; the order of points is free, except along a scan. A read sees every store of earlier items
// to the same bytes, through whatever dtype or view. Within a statement no point reads what another
// point stores. Two storages never share memory: arguments that overlap are one storage. Sizes,
// strides and offsets are plain numbers here; code generation turns them into kernel arguments.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/expr.h"
#include "ir/extern.h"
#include "tensor/lineage.h"
#include "tensor/view.h"

namespace graft::ir {

using graft::Lineage;
using graft::View;

enum class Role : uint8_t {
  Argument,   ///< memory of the caller's argument; base = data pointer of the first argument in it
  Captured,   ///< memory of a tensor the function holds; base likewise
  Output,     ///< made in the run and reachable from the result: fresh memory each call
  Temporary,  ///< made in the run and gone after it
};

struct Storage {
  Role role = Role::Temporary;
  int64_t bytes = 0;  ///< from its base; for Argument and Captured the bytes its tensors reach
  /// Argument: index of the first tensor argument in it; Captured: index of the capture.
  int source = -1;
  /// Its memory comes from the extern call that makes it, not from the plan.
  bool made_by_extern = false;
  /// Temporary: computed of captured memory alone, which no step writes. It outlives the run, until
  /// that memory changes. Set by `fold`; before, a wish.
  bool folded = false;
};

/// Part of an address that comes from data: value(index) * stride.
struct Indirect {
  NodeId index;        ///< a Long node of the same statement
  int64_t stride;      ///< elements
  int64_t extent = 0;  ///< its values lie in [0, extent), which was checked; 0: unknown
  bool operator==(const Indirect&) const = default;
};

/// Where a statement loads or stores: element offset + sum of axis * stride (+ indirect parts), in
/// elements of dtype.
struct Access {
  int storage = -1;
  ScalarType dtype = ScalarType::Float;
  int64_t offset = 0;
  std::vector<int64_t> strides;  ///< one per axis of the statement; 0 = broadcast; may be negative
  std::vector<Indirect> indirect;
  bool operator==(const Access&) const = default;
};

enum class ReduceOp : uint8_t {
#define REDUCE(name, text) name,
#include "ir/reductions.def"
};
inline bool finds_place(ReduceOp op) {
  return op == ReduceOp::ArgMax || op == ReduceOp::ArgMin;
}

/// Accumulates `input` over the axes marked in `axes`. Max and Min propagate NaN; ArgMax and ArgMin
/// give the first place (the first NaN if there is one) as the row-major index over the reduced
/// axes in statement order.
struct Reduction {
  ReduceOp op;
  /// Of the accumulated value: Double for floating sums and products; Long for indices.
  ScalarType type;
  /// What is accumulated: of type `type`; for ArgMax and ArgMin of any; a sum in Double may have
  /// Float terms, of which a lane adds a few before it widens them: a third of the time, and no
  /// less exact than eager's sums in Float. (Where ATen adds in Double, lowerings cast the terms.)
  NodeId input;
  std::vector<bool> axes;  ///< one per axis
  bool scan = false;       ///< store at every step along the one reduced axis (cumsum), not once
};
/// Is that a reduction which widens terms of this type, as above?
inline bool widens(const Reduction& r, ScalarType term) {
  return r.op == ReduceOp::Sum && !r.scan && r.type == ScalarType::Double &&
         term == ScalarType::Float;
}

struct Statement {
  std::vector<int64_t> axes;  ///< extents, each >= 1: a statement without points is never built
  Access store;
  std::vector<Access> loads;
  /// Numbers that are kernel arguments and no part of the structure; bits as in Const's payload.
  std::vector<uint64_t> scalars;
  Expr expr;
  NodeId value = -1;  ///< what is stored; of type store.dtype
  std::optional<Reduction> reduction;
  int record = -1;  ///< the recorded operator it came from
  /// A sum of products (ir/product.h) that a kernel's routine is to compute, in blocks of rows.
  bool product = false;
  /// Its reduction adds up what is left of parts of equal length: any few terms.
  bool rest = false;
  /// A storage, or -1. Fusing leaves it behind the calls that write this one: earlier it would be
  /// right, too, but its result would lie in memory for longer.
  int after = -1;
  /// Inside a Repeat, one per axis: at step i, axis a has extent axes[a] + growth[a] * i, at least
  /// 1. Axis 0 is the step. Empty elsewhere.
  std::vector<int64_t> growth;
  bool repeated() const { return !growth.empty(); }
};

/// Runs its statements in order, once per step: a loop that the recorded program had unrolled, or
/// an operator whose points have an order. Steps see what earlier steps stored. Axis 0 of every
/// statement is the step, of extent `count`.
struct Repeat {
  int64_t count = 0;
  std::vector<Statement> body;
  /// Of an unrolled loop: the item that was its first statement.
  std::optional<size_t> origin = {};
};

/// If the Bool at element 0 of `flag` is set, the run ends here, before anything visible was
/// written; the caller then runs eagerly and gets eager's own error.
struct Abort {
  int flag = -1;  ///< a storage
  int record = -1;
};

/// Is it the caller's memory?
inline bool is_callers(Role role) {
  return role == Role::Argument || role == Role::Captured;
}

using Item = std::variant<Statement, Extern, Abort, Repeat>;

/// A result tensor of the function. Those that are not returned come after all others.
struct Result : Returned {
  View view;  ///< of a tensor that is no other one: over this storage
};

/// What a call gives and gets: all that a plan must know of its caller.
struct Signature {
  std::vector<View> arguments;       ///< one per tensor argument
  std::vector<View> captured;        ///< one per tensor that the function holds
  std::vector<int> bumped;           ///< arguments whose version a run raises, one per counter
  std::vector<int> bumped_captured;  ///< likewise captured tensors
  std::vector<Result> results;
};

struct Program {
  Signature signature;
  std::vector<Storage> storages;
  std::vector<Item> items;
};

/// One line per statement, the text that golden tests hold:
///     [a:4096,b:2048] %3[a*2048+b] bf16 = bf16((f32(%0.bf16[a*2048+b]) + f32(%1.bf16[a*2048+b])))
std::string print(const Program& program);
std::string print(const Statement& statement);

/// Empty when the program is well-formed; otherwise what is wrong and where. Runs between passes.
std::string verify(const Program& program);
std::string verify(const Statement& statement, const Program& program);

/// Elements from the lowest to the highest address an access can touch: [first, last], in elements,
/// with those indirects whose extent is known.
struct Span {
  int64_t first, last;
};
Span span(const Access& access, const std::vector<int64_t>& axes);
/// Are those all?
bool is_bounded(const Access& access);
/// The same over all steps of a statement in a Repeat. Offsets and extents advance linearly, so the
/// first and the last step reach furthest.
Span span(const Access& access, const Statement& statement);
/// The statement at one step of its Repeat: without the step's axis.
Statement at_step(const Statement& statement, int64_t step);

}  // namespace graft::ir
