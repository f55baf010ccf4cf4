// Shared by the lowerings of reductions and norms: which axes are reduced, of which views, into
// which results.
#pragma once

#include <optional>
#include <vector>

#include "ops/context.h"

namespace graft::ops {

/// What sums and products accumulate in: Double for floating types, Long for integers and Bool.
c10::ScalarType accumulate_type(c10::ScalarType type);

/// A 0-dim tensor as one of size [1], so that it has an axis to reduce; others unchanged.
ir::View at_least_1d(ir::View view);
/// With a dimension of one element at `at`, along which it may be broadcast.
ir::View with_unit_axis(ir::View view, size_t at);

/// Could storing to one of `outs` change what is still to be read of `in`? Eager's result for such
/// operands depends on its own loops, so the operator stays extern (kOverlap). With `in_step`, an
/// output that lies exactly where the input does is no overlap: each point reads its element before
/// it stores it.
bool overlaps(const ir::View& in, const std::vector<ir::View>& outs, bool in_step = false);
inline constexpr const char* kOverlap = "its result overlaps an input";
inline constexpr const char* kReducedShape =
    "its result overlaps an input, or has another shape than its dim argument says";

/// Index of a dimension counted from the end when negative; `rank` at least 1.
size_t wrapped(int64_t dim, size_t rank);

/// A recorded reduction.
struct Reduced {
  ir::View in;                 ///< at least one axis; its sizes are the statements' axes
  std::vector<bool> axes;      ///< which of them are reduced
  std::vector<ir::View> outs;  ///< as recorded: with or without the reduced dimensions
  int64_t count = 1;           ///< input elements per result
  bool empty = false;          ///< `in` has no elements: no statement can be built

  /// A temporary with one element per result: size 1 along the reduced axes, over which it
  /// broadcasts.
  ir::View per_row(Context& ctx, c10::ScalarType type) const;
  /// One statement: `out` = op of `value(x)` over the reduced axes, then `finish`.
  template <class Input, class Finish>
  void emit(Context& ctx, ir::ReduceOp op, c10::ScalarType type, const ir::View& out, Input value,
            Finish finish) const {
    ir::StatementBuilder s(in.sizes);
    ir::Value accumulated = s.reduce(op, value(s, s.load(in)), axes, type);
    ctx.emit(s.store(out, finish(s, accumulated)));
  }
  template <class Input>
  void emit(Context& ctx, ir::ReduceOp op, c10::ScalarType type, const ir::View& out,
            Input value) const {
    emit(ctx, op, type, out, value, [](ir::StatementBuilder&, ir::Value v) { return v; });
  }
};

/// Reads the operator's first argument, its outputs, and the dimensions in its argument `dim`: an
/// int or a list; None, an empty list or no such argument means all. Empty when the recorded result
/// does not have the shape that these give: the operator then stays extern.
std::optional<Reduced> read_reduction(Context& ctx, const record::OperatorRecord& op);

/// The view of an optional tensor argument; storage -1 when it was not given.
ir::View optional_tensor(Context& ctx, const record::OperatorRecord& op, const char* name);
/// Was the argument given as a number in a tensor's clothes? Then there is no memory to load.
bool is_constant(Context& ctx, const record::OperatorRecord& op, const char* name);

/// [N, C, …] as [N, group, C / group, …].
ir::View grouped(ir::View view, int64_t group);
/// [C] as [group, C / group, 1, …], which broadcasts to a grouped input of that rank.
ir::View grouped_parameter(ir::View view, int64_t group, size_t rank);

// Families of reduction_rows(), by file.
std::vector<Row> sum_rows();            // reduction.cpp
std::vector<Row> select_rows();         // reduction_select.cpp: maxima, minima, any, all
std::vector<Row> pool_rows();           // pool.cpp: maxima and means of windows
std::vector<Row> pool_backward_rows();  // pool_backward.cpp
std::vector<Row> moment_rows();         // reduction_moments.cpp: var, std, norms
std::vector<Row> loss_rows();           // loss.cpp
std::vector<Row> class_loss_rows();     // loss_classes.cpp: losses that choose by class
std::vector<Row> distance_rows();       // distance.cpp: distances between rows
std::vector<Row> convolution_rows();    // convolution.cpp: filters of few terms
std::vector<Row> product_rows();        // products.cpp: matrix products that are loops
std::vector<Row> order_rows();          // order.cpp: sorted rows, the few largest elements
std::vector<Row> linalg_rows();         // linalg.cpp: inverses and factors of small matrices
// And of norm_rows():
std::vector<Row> layer_rows();           // norm_layers.cpp: layer and group norm
std::vector<Row> batch_rows();           // norm_batch.cpp: batch norm
std::vector<Row> batch_backward_rows();  // norm_batch_backward.cpp
std::vector<Row> norm_backward_rows();   // norm_backward.cpp
std::vector<Row> gated_rows();           // gated.cpp: gated linear units

}  // namespace graft::ops
