// Layer and group norm.
#include <algorithm>
#include <limits>
#include <utility>

#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::Op;
using ir::ReduceOp;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

/// Rows that are normalised by their own mean and variance, which layer and group norm share.
struct Normalization {
  Reduced rows;
  View weight, bias;  ///< broadcast to the axes; storage -1: none
  View mean, rstd;    ///< where to store the rows' statistics; storage -1: nowhere
  double eps = 0;
};

/// One mean and one 1 / sqrt(var + eps) per row, in Double.
struct Statistics {
  View mean, rstd;
};

Statistics statistics(Context& ctx, const Normalization& n) {
  const Reduced& rows = n.rows;
  ctx.approximate(rows.in.dtype);
  ScalarType compute = opmath(rows.in.dtype);
  Statistics result{rows.per_row(ctx, ScalarType::Double), rows.per_row(ctx, ScalarType::Double)};
  rows.emit(
      ctx, ReduceOp::Sum, ScalarType::Double, result.mean,
      [](StatementBuilder&, Value x) { return x; },
      [&](StatementBuilder& s, Value total) {
        return total / s.scalar(rows.count, ScalarType::Double);
      });
  rows.emit(
      ctx, ReduceOp::Sum, ScalarType::Double, result.rstd,
      [&](StatementBuilder& s, Value x) {
        Value distance = x.to(compute) - s.load(result.mean).to(compute);
        return distance * distance;
      },
      [&](StatementBuilder& s, Value total) {
        // It overflows where ATen's, in `compute`, does.
        constexpr double kInf = std::numeric_limits<double>::infinity();
        const Value var = total / s.scalar(rows.count, ScalarType::Double);
        const Value known =
            select(eq(var.to(compute), s.constant(kInf, compute)), var.like(kInf), var);
        return 1.0 / (known + s.scalar(n.eps, ScalarType::Double)).op(Op::Sqrt);
      });
  for (auto [from, to] : {std::pair(&result.mean, &n.mean), std::pair(&result.rstd, &n.rstd)}) {
    if (to->storage < 0) continue;
    View row = *from;  // both lie row by row; the recorded one may lack the reduced dimensions
    row.sizes = to->sizes;
    row.strides = ir::contiguous_strides(to->sizes);
    ctx.copy(row, *to);
  }
  return result;
}

/// x minus the row's mean as the compute type holds it: what is subtracted first does not cancel
/// later, and a row of equal elements gives zeros, whatever their size.
Value distance(StatementBuilder& s, const Normalization& n, const Statistics& rows) {
  ScalarType compute = opmath(n.rows.in.dtype);
  return s.load(n.rows.in).to(compute) - s.load(rows.mean).to(compute);
}

/// What `distance` took off too much: the mean rounded, minus the mean, in Double.
Value left_of_mean(StatementBuilder& s, const Statistics& rows, ScalarType compute) {
  Value mean = s.load(rows.mean);
  return mean.to(compute).to(ScalarType::Double) - mean;
}

void read_outputs(Context& ctx, const OperatorRecord& op, Normalization& n) {
  n.mean = ctx.output(op, 1);
  n.rstd = ctx.output(op, 2);
}

bool overlaps_parameters(const Normalization& n) {
  std::vector<View> outs = {n.rows.outs[0], n.mean, n.rstd};
  return overlaps(n.rows.in, outs) || overlaps(n.weight, outs) || overlaps(n.bias, outs);
}

Fate layer_norm(Context& ctx, const OperatorRecord& op) {
  if (is_constant(ctx, op, "weight") || is_constant(ctx, op, "bias"))
    return Fate::external("a weight without memory");
  Normalization n;
  n.rows.in = ctx.tensor(op, 0);
  n.rows.outs = {ctx.output(op)};
  if (n.rows.in.storage < 0 || !is_float(n.rows.in.dtype)) return Fate::external("integers");
  if (ir::numel(n.rows.in.sizes) == 0)
    return ir::numel(ctx.output(op, 1).sizes) == 0 ? Fate::fused()
                                                   : Fate::external("rows without elements");
  size_t rank = n.rows.in.sizes.size(), normalized = integers(op, "normalized_shape").size();
  if (normalized == 0 || normalized > rank) return Fate::external("an unusual normalized_shape");
  n.rows.axes.assign(rank, false);
  for (size_t a = rank - normalized; a < rank; ++a) {
    n.rows.axes[a] = true;
    n.rows.count *= n.rows.in.sizes[a];
  }
  n.weight = optional_tensor(ctx, op, "weight");
  n.bias = optional_tensor(ctx, op, "bias");
  n.eps = number(op, "eps").value_or(0).toDouble();
  read_outputs(ctx, op, n);
  if (overlaps_parameters(n)) return Fate::external(kOverlap);
  Statistics rows = statistics(ctx, n);
  StatementBuilder s(n.rows.in.sizes);
  ScalarType compute = opmath(n.rows.in.dtype);
  Value rstd = s.load(rows.rstd), left = left_of_mean(s, rows, compute);
  Value y = fma(distance(s, n, rows), rstd.to(compute), (left * rstd).to(compute));
  bool weight = n.weight.storage >= 0, bias = n.bias.storage >= 0;
  if (weight && bias)
    y = fma(y, s.load(n.weight).to(compute), s.load(n.bias).to(compute));
  else if (weight)
    y = y * s.load(n.weight).to(compute);
  else if (bias)
    y = y + s.load(n.bias).to(compute);
  ctx.emit(s.store(n.rows.outs[0], y));
  return Fate::fused();
}

Fate group_norm(Context& ctx, const OperatorRecord& op) {
  if (is_constant(ctx, op, "weight") || is_constant(ctx, op, "bias"))
    return Fate::external("a weight without memory");
  View in = ctx.tensor(op, 0), out = ctx.output(op);
  int64_t group = integer(op, "group", 1);
  if (in.storage < 0 || !is_float(in.dtype)) return Fate::external("integers");
  if (in.sizes.size() < 2 || group < 1 || in.sizes[1] % group != 0)
    return Fate::external("an unusual shape");
  if (ir::numel(in.sizes) == 0)
    return ir::numel(ctx.output(op, 1).sizes) == 0 ? Fate::fused()
                                                   : Fate::external("rows without elements");
  Normalization n;
  n.rows.in = grouped(in, group);
  n.rows.outs = {grouped(out, group)};
  size_t rank = n.rows.in.sizes.size();
  n.rows.axes.assign(rank, true);
  n.rows.axes[0] = n.rows.axes[1] = false;
  n.rows.count = ir::numel(in.sizes) / (in.sizes[0] * group);
  n.weight = grouped_parameter(optional_tensor(ctx, op, "weight"), group, rank);
  n.bias = grouped_parameter(optional_tensor(ctx, op, "bias"), group, rank);
  n.eps = number(op, "eps").value_or(0).toDouble();
  read_outputs(ctx, op, n);
  if (overlaps_parameters(n)) return Fate::external(kOverlap);
  Statistics rows = statistics(ctx, n);
  // One scale and shift per channel, as ATen's kernel has them, each rounded once.
  ScalarType compute = opmath(in.dtype), wide = ScalarType::Double;
  std::vector<int64_t> channels = n.rows.in.sizes;
  std::fill(channels.begin() + 3, channels.end(), 1);
  auto scale_of = [&](StatementBuilder& s) {
    Value rstd = s.load(rows.rstd);
    return n.weight.storage >= 0 ? rstd * s.load(n.weight).to(wide) : rstd;
  };
  View scale = ctx.temporary(channels, compute), shift = ctx.temporary(channels, compute);
  StatementBuilder first(channels);
  ctx.emit(first.store(scale, scale_of(first)));
  StatementBuilder second(channels);
  Value value = left_of_mean(second, rows, compute) * scale_of(second);
  if (n.bias.storage >= 0) value = value + second.load(n.bias).to(wide);
  ctx.emit(second.store(shift, value));
  StatementBuilder s(n.rows.in.sizes);
  ctx.emit(s.store(n.rows.outs[0], fma(distance(s, n, rows), s.load(scale), s.load(shift))));
  return Fate::fused();
}

}  // namespace

View grouped(View view, int64_t group) {
  int64_t channels = view.sizes[1] / group;
  view.sizes[1] = group;
  view.sizes.insert(view.sizes.begin() + 2, channels);
  view.strides.insert(view.strides.begin() + 2, view.strides[1]);
  view.strides[1] *= channels;
  return view;
}

View grouped_parameter(View view, int64_t group, size_t rank) {
  if (view.storage < 0) return view;
  int64_t channels = view.sizes[0] / group;
  view.sizes = {group, channels};
  view.strides = {view.strides[0] * channels, view.strides[0]};
  view.sizes.resize(rank - 1, 1);
  view.strides.resize(rank - 1, 0);
  return view;
}

std::vector<Row> layer_rows() {
  return {
      {"aten::native_layer_norm", layer_norm,
       "layer norm: mean and variance summed in double, then one pass"},
      {"aten::native_group_norm", group_norm, "group norm, likewise"},
  };
}

}  // namespace graft::ops
