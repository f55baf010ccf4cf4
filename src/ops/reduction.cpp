// Sums, products, means, counts and cumulative sums. Floating ones accumulate in Double and round
// once.
#include <algorithm>
#include <limits>

#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::ReduceOp;
using ir::StatementBuilder;
using ir::Value;
using record::OperatorRecord;

Fate sum_or_product(Context& ctx, const OperatorRecord& op, ReduceOp reduce, bool skip_nan) {
  auto r = read_reduction(ctx, op);
  if (!r) return Fate::external(kReducedShape);
  ScalarType type = r->outs[0].dtype;
  if (type == ScalarType::Bool) return Fate::external("a sum of truth values");
  if (r->empty) {
    ctx.fill(r->outs[0], reduce == ReduceOp::Sum ? 0 : 1);
    return Fate::fused();
  }
  if (is_float(type)) ctx.approximate(type);
  // ATen casts each element to the result's type, and then adds.
  r->emit(ctx, reduce, accumulate_type(type), r->outs[0], [&](StatementBuilder& s, Value x) {
    x = x.to(type).to(opmath(type));
    return skip_nan && is_float(type) ? select(isnan(x), s.constant(0, x.type()), x) : x;
  });
  return Fate::fused();
}

Fate sum(Context& ctx, const OperatorRecord& op) {
  return sum_or_product(ctx, op, ReduceOp::Sum, false);
}
Fate nansum(Context& ctx, const OperatorRecord& op) {
  return sum_or_product(ctx, op, ReduceOp::Sum, true);
}
Fate prod(Context& ctx, const OperatorRecord& op) {
  return sum_or_product(ctx, op, ReduceOp::Prod, false);
}

Fate mean(Context& ctx, const OperatorRecord& op) {
  auto r = read_reduction(ctx, op);
  if (!r) return Fate::external(kReducedShape);
  ScalarType type = r->outs[0].dtype;
  if (!is_float(type)) return Fate::external("a mean of integers");
  if (r->empty) {
    ctx.fill(r->outs[0], std::numeric_limits<double>::quiet_NaN());
    return Fate::fused();
  }
  ctx.approximate(type);
  r->emit(
      ctx, ReduceOp::Sum, ScalarType::Double, r->outs[0],
      [&](StatementBuilder&, Value x) { return x.to(type); },
      [&](StatementBuilder& s, Value total) {
        return total / s.scalar(r->count, ScalarType::Double);
      });
  return Fate::fused();
}

Fate count_nonzero(Context& ctx, const OperatorRecord& op) {
  auto r = read_reduction(ctx, op);
  if (!r) return Fate::external(kReducedShape);
  if (r->empty) {
    ctx.fill(r->outs[0], 0);
    return Fate::fused();
  }
  r->emit(ctx, ReduceOp::Sum, ScalarType::Long, r->outs[0],
          [](StatementBuilder&, Value x) { return x.to(ScalarType::Bool).to(ScalarType::Long); });
  return Fate::fused();
}

/// Running sum or product along one axis. ATen accumulates in at::acc_type and casts at every
/// store: these are its bits.
Fate cumulative(Context& ctx, const OperatorRecord& op, ReduceOp reduce) {
  ir::View out = at_least_1d(ctx.output(op));
  ir::View in = at_least_1d(ctx.tensor(op, 0));
  ScalarType type = out.dtype;
  if (in.storage < 0) return Fate::external("a tensor without memory");
  if (type == ScalarType::Bool) return Fate::external("a sum of truth values");
  if (ir::numel(in.sizes) == 0) return Fate::fused();
  if (overlaps(in, {out}, /*in_step=*/true)) return Fate::external(kOverlap);
  std::vector<bool> axes(in.sizes.size(), false);
  axes[wrapped(integer(op, "dim", 0), axes.size())] = true;
  ScalarType accumulate = is_reduced(type) ? opmath(type) : accumulate_type(type);
  StatementBuilder s(in.sizes);
  Value x = s.load(in).to(type);
  ctx.emit(s.store(out, s.reduce(reduce, x, axes, accumulate, /*scan=*/true)));
  return Fate::fused();
}

Fate cumsum(Context& ctx, const OperatorRecord& op) {
  return cumulative(ctx, op, ReduceOp::Sum);
}
Fate cumprod(Context& ctx, const OperatorRecord& op) {
  return cumulative(ctx, op, ReduceOp::Prod);
}

/// ATen's recurrence in Double, one step after the other, each for all rows.
Fate log_cumsum_exp(Context& ctx, const OperatorRecord& op) {
  ir::View out = at_least_1d(ctx.output(op)), in = at_least_1d(ctx.tensor(op, 0));
  const ScalarType type = out.dtype, wide = ScalarType::Double;
  if (in.storage < 0 || in.dtype != type) return Fate::external("another dtype, or no memory");
  if (ir::numel(in.sizes) == 0) return Fate::fused();
  if (overlaps(in, {out})) return Fate::external(kOverlap);
  const auto along = static_cast<ptrdiff_t>(wrapped(integer(op, "dim", 0), in.sizes.size()));
  for (auto* list : {&in.sizes, &in.strides, &out.sizes, &out.strides})  // the steps come first
    std::rotate(list->begin(), list->begin() + along, list->begin() + along + 1);
  const int64_t steps = in.sizes[0];
  std::vector<int64_t> sizes = in.sizes;
  sizes[0] = steps + 1;
  const ir::View sums = ctx.temporary(sizes, wide), before = narrow(sums, 0, 0, steps),
                 after = narrow(sums, 0, 1, steps);
  ctx.fill(narrow(sums, 0, 0, 1), -std::numeric_limits<double>::infinity());
  ctx.approximate(type);
  StatementBuilder s(in.sizes);
  const Value x = s.load(in).to(wide), sum = s.load(before);
  const Value less = min(x, sum), more = max(x, sum);
  const Value grown =
      call(ir::Routine::VectorLog1p, call(ir::Routine::VectorExp, less - more)) + more;
  // Infinities of one sign.
  const Value is_same = eq(less, more) & ne(less - more, s.constant(0, wide));
  ctx.emit_in_order(s.store(after, select(is_same, x, grown)));
  ctx.copy(after, out);
  return Fate::fused();
}

}  // namespace

std::vector<Row> sum_rows() {
  return {
      {"aten::sum", sum, "sum over dimensions, accumulated in double"},
      {"aten::nansum", nansum, "sum that skips NaN"},
      {"aten::prod", prod, "product over dimensions, accumulated in double"},
      {"aten::mean", mean, "mean over dimensions, rounded once"},
      {"aten::count_nonzero", count_nonzero, "number of elements that are not zero"},
      {"aten::cumsum", cumsum, "running sum: a scan with ATen's own accumulator"},
      {"aten::cumprod", cumprod, "running product, likewise"},
      {"aten::logcumsumexp", log_cumsum_exp, "log of the running sum of exponentials, in double"},
  };
}

std::vector<Row> reduction_rows() {
  std::vector<Row> rows = sum_rows();
  for (const auto& family : {select_rows(), pool_rows(), pool_backward_rows(), moment_rows(),
                             loss_rows(), class_loss_rows(), distance_rows(), product_rows(),
                             convolution_rows(), order_rows(), linalg_rows()})
    rows.insert(rows.end(), family.begin(), family.end());
  return rows;
}

}  // namespace graft::ops
