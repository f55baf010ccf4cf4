// What a lowering sees: the trace, and the program it adds statements to.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ops/lower.h"

namespace graft::ops {

/// What became of an operator. Extern and Broken carry the reason.
struct Fate {
  enum class Kind : uint8_t { Fused, View, Extern, Broken } kind;
  std::string why;
  static Fate fused() { return {Kind::Fused, {}}; }
  static Fate view() { return {Kind::View, {}}; }
  static Fate external(std::string why) { return {Kind::Extern, std::move(why)}; }
  static Fate broken(std::string why) { return {Kind::Broken, std::move(why)}; }
};

class Context {
 public:
  Context(const record::Trace& trace, ir::Program& program, bool fast)
      : trace(trace), program(program), fast(fast) {}

  const record::Trace& trace;
  ir::Program& program;
  const bool fast;                            ///< Numerics::Fast
  std::vector<c10::ScalarType> approximated;  ///< what approximate() was told
  bool either_zero = false;  ///< somewhere eager picks one of +0 and −0, and may pick the other
  int record = -1;           ///< index of the operator being lowered

  /// Tensor operand `k` of an operator (Kind::Tensor); undefined tensors give storage -1.
  const record::TensorInfo& tensor(const record::OperatorRecord& op, size_t k) const;
  const record::TensorInfo& output(const record::OperatorRecord& op, size_t k = 0) const;
  static ir::View view(const record::TensorInfo& tensor);

  /// For a lowering whose bits may differ from eager's, by the rounding of the dtype that it
  /// computes in.
  void approximate(c10::ScalarType compute) {
    if (std::find(approximated.begin(), approximated.end(), compute) == approximated.end())
      approximated.push_back(compute);
  }

  /// A new temporary, contiguous.
  ir::View temporary(const std::vector<int64_t>& sizes, c10::ScalarType dtype);
  /// Appends a statement. Statements over empty axes are dropped (a reduction over nothing must be
  /// handled before).
  void emit(ir::Statement statement);
  /// to[...] = cast(from[...]), `from` broadcast to `to`.
  void copy(const ir::View& from, const ir::View& to);
  void fill(const ir::View& to, const c10::Scalar& value);
  /// Emits a check made before anything visible is written: `bad(builder)` gives a Bool over
  /// `axes`; if it is true anywhere, the run is given up and eager raises its own error. A check of
  /// what the caller gave is made before all else, and once. False when another one comes after
  /// something visible was written: then the operator must stay extern. Call before emitting stores
  /// of this operator.
  bool check(const std::vector<int64_t>& axes,
             const std::function<ir::Value(ir::StatementBuilder&)>& bad);
  /// Remembers that all elements of `view`, a tensor that this operator makes, lie in [0, count),
  /// until something is stored there again.
  void bound(const ir::View& view, int64_t count);
  /// Are its elements known to lie in [0, count)?
  bool is_bounded(const ir::View& view, int64_t count) const;
  /// Something is stored there.
  void stored(int storage);
  /// A random number is drawn: the generator's state is as visible as memory.
  void drawn() { visible_written_ = true; }
  /// The checks to be made before all else.
  std::vector<ir::Item> early;

 private:
  bool is_callers(int storage) const;
  bool was_checked(const ir::Statement& check) const;

  std::map<int, int64_t> bounds_;  ///< storages whose elements lie in [0, count)
  std::set<int> stored_;           ///< storages that operators so far wrote
  bool visible_written_ = false;   ///< or an argument's or captured tensor's memory was
};

/// Lowers one recorded operator, or says why not (then nothing was emitted).
using LowerFn = Fate (*)(Context&, const record::OperatorRecord&);

/// A row of the operator table other than the pointwise ones: an operator's base name without
/// overload, in-place underscore or out (the recorded schema tells those), and its lowering.
struct Row {
  std::string_view name;  ///< "aten::native_layer_norm"
  LowerFn lower;
  std::string_view what;  ///< one line for the documentation
};
std::vector<Row> view_rows();       // views.cpp: recorded as views; emit nothing
std::vector<Row> pointwise_rows();  // from pointwise.def's table
std::vector<Row> copy_rows();       // copy.cpp: copy_, clone, cat, stack, fills, arange, tril, …
std::vector<Row> reduction_rows();  // reduction.cpp: sum, mean, amax, argmax, cumsum, var, norm, …
std::vector<Row> norm_rows();       // norm.cpp: softmax, log_softmax, layer_norm, rms_norm
std::vector<Row>
index_rows();  // index.cpp: gather, index_select, embedding, index, scatter, index_put

}  // namespace graft::ops
