// Softmax and the normalisations: a few statements over the input's own axes, with one value per
// row between them, so that fusion can run them as one tile per row. Sums accumulate in Double; the
// elements are computed in Float (or Double).
#include <limits>

#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::ReduceOp;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

constexpr double kInf = std::numeric_limits<double>::infinity();

/// The rows of a softmax-like operator: its input, the one axis reduced, its output. Empty: it
/// stays extern.
std::optional<Reduced> rows_along_dim(Context& ctx, const OperatorRecord& op) {
  Reduced rows;
  rows.in = at_least_1d(ctx.tensor(op, 0));
  rows.outs = {at_least_1d(ctx.output(op))};
  if (rows.in.storage < 0 || !is_float(rows.outs[0].dtype)) return std::nullopt;
  if (overlaps(rows.in, rows.outs, /*in_step=*/true)) return std::nullopt;
  rows.axes.assign(rows.in.sizes.size(), false);
  rows.axes[wrapped(integer(op, "dim", -1), rows.axes.size())] = true;
  rows.empty = ir::numel(rows.in.sizes) == 0;
  return rows;
}
constexpr const char* kUnusual = "integers, no memory, or a result that overlaps the input";

/// An element as ATen's kernel sees it: of the result's type, computed with in its compute type.
Value element(Value x, ScalarType type) {
  return x.to(type).to(opmath(type));
}

View largest_of(Context& ctx, const Reduced& rows, ScalarType type) {
  View most = rows.per_row(ctx, opmath(type));
  rows.emit(ctx, ReduceOp::Max, most.dtype, most,
            [&](StatementBuilder&, Value x) { return element(x, type); });
  return most;
}

/// most = max x; powers = exp(x - most); scale = 1 / sum powers; out = powers * scale.
/// `safe`: a row that is masked everywhere gives zeros instead of NaN.
Fate softmax_with(Context& ctx, const OperatorRecord& op, bool safe) {
  auto rows = rows_along_dim(ctx, op);
  if (!rows) return Fate::external(kUnusual);
  if (rows->empty) return Fate::fused();
  ScalarType type = rows->outs[0].dtype, compute = opmath(type);
  ctx.approximate(type);
  View most = largest_of(ctx, *rows, type);
  View powers = ctx.temporary(rows->in.sizes, compute);
  {
    StatementBuilder s(rows->in.sizes);
    ctx.emit(s.store(powers,
                     call(ir::Routine::NearExp, element(s.load(rows->in), type) - s.load(most))));
  }
  Reduced sums = *rows;
  sums.in = powers;
  View scale = rows->per_row(ctx, compute);
  // One over the sum rounds once, as the sum itself would: the product is as near as ATen's
  // quotient.
  sums.emit(
      ctx, ReduceOp::Sum, ScalarType::Double, scale, [](StatementBuilder&, Value e) { return e; },
      [](StatementBuilder&, Value total) { return 1.0 / total; });
  StatementBuilder s(rows->in.sizes);
  Value result = s.load(powers) * s.load(scale);
  if (safe) {
    Value masked = eq(s.load(most), s.constant(-kInf, compute));
    result = select(masked, s.constant(0, compute), result);
  }
  ctx.emit(s.store(rows->outs[0], result));
  return Fate::fused();
}

Fate softmax(Context& ctx, const OperatorRecord& op) {
  return softmax_with(ctx, op, false);
}
Fate safe_softmax(Context& ctx, const OperatorRecord& op) {
  return softmax_with(ctx, op, true);
}

/// out = (x - most) - log(sum(exp(x - most))), the differences in Double, in ATen's order: most may
/// be so large that nothing of the logarithm would be left beside it.
Fate log_softmax(Context& ctx, const OperatorRecord& op) {
  auto rows = rows_along_dim(ctx, op);
  if (!rows) return Fate::external(kUnusual);
  if (rows->empty) return Fate::fused();
  ScalarType type = rows->outs[0].dtype;
  ctx.approximate(type);
  View most = largest_of(ctx, *rows, type);
  View log_sum = rows->per_row(ctx, ScalarType::Double);
  rows->emit(
      ctx, ReduceOp::Sum, ScalarType::Double, log_sum,
      [&](StatementBuilder& s, Value x) {
        return call(ir::Routine::NearExp, element(x, type) - s.load(most));
      },
      [](StatementBuilder&, Value total) { return call(ir::Routine::VectorLog, total); });
  StatementBuilder s(rows->in.sizes);
  Value above =
      element(s.load(rows->in), type).to(ScalarType::Double) - s.load(most).to(ScalarType::Double);
  ctx.emit(s.store(rows->outs[0], above - s.load(log_sum)));
  return Fate::fused();
}

}  // namespace

std::vector<Row> norm_rows() {
  std::vector<Row> rows = {
      {"aten::_softmax", softmax, "softmax along one dimension"},
      {"aten::softmax", softmax, "softmax with out="},
      {"aten::_safe_softmax", safe_softmax,
       "softmax that gives zeros where a row is masked everywhere"},
      {"aten::_log_softmax", log_softmax, "logarithm of the softmax"},
      {"aten::log_softmax", log_softmax, "logarithm of the softmax with out="},
  };
  for (const Row& row : layer_rows()) rows.push_back(row);
  for (const Row& row : batch_rows()) rows.push_back(row);
  for (const Row& row : norm_backward_rows()) rows.push_back(row);
  for (const Row& row : batch_backward_rows()) rows.push_back(row);
  for (const Row& row : gated_rows()) rows.push_back(row);
  return rows;
}

}  // namespace graft::ops
