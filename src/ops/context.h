// What a lowering works with: the trace it reads, and the program it adds statements to.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ir/range.h"
#include "ops/lower.h"

namespace graft::ops {

/// What became of an operator. Extern and Broken carry the reason. Checked: its outcome is one that
/// the plan demands.
struct Fate {
  enum class Kind : uint8_t { Fused, View, Extern, Broken, Checked } kind;
  std::string why;
  std::string_view routine;  ///< Extern: an operator of the same schema to call instead, and faster
  static Fate fused() { return {Kind::Fused, {}, {}}; }
  static Fate checked() { return {Kind::Checked, {}, {}}; }
  static Fate view() { return {Kind::View, {}, {}}; }
  static Fate external(std::string why) { return {Kind::Extern, std::move(why), {}}; }
  static Fate by(std::string_view routine) { return {Kind::Extern, std::string(routine), routine}; }
  static Fate broken(std::string why) { return {Kind::Broken, std::move(why), {}}; }
};

struct PointwiseRow;
struct Row;

class Context {
 public:
  Context(const record::Trace& trace, ir::Program& program, const LowerSettings& settings)
      : trace(trace), program(program), settings(settings) {}

  const record::Trace& trace;
  ir::Program& program;
  const LowerSettings settings;
  std::vector<Approximation> approximated;  ///< what approximate() was called with
  std::vector<int> held;                    ///< Lowered::held
  bool either_zero = false;                 ///< a zero result may have either sign, in eager too
  std::string gives_up;  ///< why a check may end runs of which eager raises no error; empty: none
  int record = -1;       ///< index of the operator being lowered
  const Row* row = nullptr;  ///< its row

  /// The trace's operator that is lowered from now on.
  void begin(int operator_at);
  /// Tensor operand `k` of an operator (Kind::Tensor); undefined tensors give storage -1.
  const record::TensorInfo& tensor(const record::OperatorRecord& op, size_t k) const;
  const record::TensorInfo& output(const record::OperatorRecord& op, size_t k = 0) const;

  /// The operator being lowered: "aten::equal".
  const std::string& name() const {
    return trace.ops[static_cast<size_t>(record)].op.operator_name().name;
  }
  /// From now on complex tensors are their real (0) or imaginary (1) parts; -1: themselves again.
  void take_part(int which);

  /// Will anybody read the storage after the operator being lowered?
  bool is_read_later(int storage) const;

  /// Called by a lowering whose bits may differ from eager's, by the rounding of `compute`, the
  /// dtype that it computes in. `terms`: Approximation::terms.
  void approximate(c10::ScalarType compute, int64_t terms = 0) {
    approximated.push_back({compute, record, terms});
  }

  /// A new temporary, contiguous.
  ir::View temporary(const std::vector<int64_t>& sizes, c10::ScalarType dtype);
  /// Appends a statement. One without points is dropped; the caller handles a reduction over no
  /// elements itself.
  /// A sum with few results widens each of its terms (ir::Reduction::input).
  void emit(ir::Statement statement);
  /// Appends a statement whose axis 0 runs in order, one step after the other.
  void emit_in_order(ir::Statement statement);
  /// to[...] = cast(from[...]), `from` broadcast to `to`; both complex, or neither.
  void copy(const ir::View& from, const ir::View& to);
  void fill(const ir::View& to, const c10::Scalar& value);
  /// to[i] = the i-th of the numbers of its dtype that lie in `bytes`; `to` has one dimension.
  void write_numbers(const ir::View& to, const std::vector<char>& bytes);
  /// Emits a check: `bad(builder)` gives a Bool over `axes`; where it is true anywhere, the run
  /// ends and the call runs eagerly, to raise eager's own error. Call it before emitting the
  /// operator's stores. A check that reads only the caller's tensors runs at the program's start,
  /// once however often it is asked for. Returns false when a check of other values would come
  /// after something visible was written: the operator must then stay extern. `puts_back`: after
  /// memory was written it may come (a run copies that memory first), after other processes heard
  /// not.
  bool check(const std::vector<int64_t>& axes,
             const std::function<ir::Value(ir::StatementBuilder&)>& bad, bool puts_back = false);
  /// Could a check of values that the program computes still come?
  bool can_check() const { return !visible_written_; }
  /// Are the view's elements known to lie in [low, high], whatever else the trace's numbers may be?
  bool is_within(const ir::View& view, int64_t low, int64_t high) const;
  /// Notes that they are, where the view is all of its storage: a call made them so, or a check
  /// passed.
  void lies_within(const ir::View& view, int64_t low, int64_t high);
  /// What was emitted for the operator being lowered is dropped, with the checks that say so.
  void dropped();
  /// Notes that the storage is written.
  void stored(int storage);
  /// Notes that other processes heard something, which is as visible as memory. (Random numbers are
  /// not: a run that gives up puts their generators back.)
  void communicated() { visible_written_ = communicated_ = true; }
  /// So few sums are as exact as Double makes them: the luck of each one's last roundings would
  /// show. (Everything has one sum, whatever its size.)
  bool are_exact(int64_t results) const {
    return results == 1 || (results <= kExactResults && !settings.any_size);
  }
  static constexpr int64_t kExactResults = 64;
  /// The checks that run at the program's start.
  std::vector<ir::Item> early;

 private:
  const record::TensorInfo& part_taken(const record::TensorInfo& tensor) const;
  bool is_callers(int storage) const;
  bool was_checked(const ir::Statement& check) const;

  /// What is known of a storage's elements, of one dtype, that statements stored.
  struct Held {
    c10::ScalarType dtype;
    ir::Range range;
    int64_t bytes;  ///< of all that they stored; the storage is full, or some of it is unknown
    std::vector<std::pair<ir::Access, std::vector<int64_t>>> parts;  ///< where, over which axes
  };
  ir::Range range_of(const ir::Access& load) const;
  /// Of the storage that the statement stores to.
  std::optional<Held> held_after(const ir::Statement& statement) const;

  int part_ = -1;  ///< of take_part()
  mutable std::map<const record::TensorInfo*, record::TensorInfo> parts_;
  std::map<int, Held> held_;      ///< by storage, until something else is stored there
  std::vector<int> checked_;      ///< storages of lies_within(), for the operator being lowered
  std::vector<bool> stored_;      ///< by storage: did operators so far write it?
  bool communicated_ = false;     ///< other processes heard something
  bool visible_written_ = false;  ///< or an argument's or captured tensor's memory was
};

/// Lowers one recorded operator, or says why not (then nothing was emitted).
using LowerFn = Fate (*)(Context&, const record::OperatorRecord&);

/// A row of the operator table other than the pointwise ones: an operator's base name and its
/// lowering. One row serves all overloads, in-place and out= forms; the recorded schema tells them
/// apart.
struct Row {
  std::string_view name;  ///< "aten::native_layer_norm"
  LowerFn lower;
  std::string_view what;       ///< one line for the documentation
  bool takes_numbers = false;  ///< `lower` knows operands of Kind::Number
  bool takes_complex = false;  ///< `lower` only moves elements, by Context's copy() and fill()
  const PointwiseRow* formula = nullptr;  ///< what pointwise operators are lowered by
};
std::vector<Row> view_rows();       // views.cpp: recorded as views; emit nothing
std::vector<Row> pointwise_rows();  // pointwise.cpp: those of pointwise.h's table
std::vector<Row> copy_rows();       // copy.cpp: copy_, clone, cat, stack, fills, arange, tril, …
std::vector<Row> reduction_rows();  // reduction.cpp: sum, mean, amax, argmax, cumsum, var, norm, …
std::vector<Row> norm_rows();       // norm.cpp: softmax, log_softmax, layer_norm, rms_norm
std::vector<Row> index_rows();      // index.cpp: gather, embedding, index, scatter, index_put, …

}  // namespace graft::ops
