// Layer, group and batch norm.
#include "ops/norm.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::Op;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

/// The view of an optional tensor argument; storage -1 when it was not given.
View optional_tensor(Context& ctx, const OperatorRecord& op, const char* name) {
  int k = argument_index(op, name);
  return k < 0 ? View{} : Context::view(ctx.tensor(op, static_cast<size_t>(k)));
}

/// Was the argument given as a number in a tensor's clothes? Then there is no memory to load.
bool is_constant(Context& ctx, const OperatorRecord& op, const char* name) {
  int k = argument_index(op, name);
  return k >= 0 && ctx.tensor(op, static_cast<size_t>(k)).constant.has_value();
}

void read_outputs(Context& ctx, const OperatorRecord& op, Normalization& n) {
  n.mean = Context::view(ctx.output(op, 1));
  n.rstd = Context::view(ctx.output(op, 2));
}

bool overlaps(const Normalization& n) {
  std::vector<View> outs = {n.rows.outs[0], n.mean, n.rstd};
  return overlaps(n.rows.in, outs) || overlaps(n.weight, outs) || overlaps(n.bias, outs);
}

Fate layer_norm(Context& ctx, const OperatorRecord& op) {
  if (is_constant(ctx, op, "weight") || is_constant(ctx, op, "bias"))
    return Fate::external("a weight without memory");
  Normalization n;
  n.rows.in = Context::view(ctx.tensor(op, 0));
  n.rows.outs = {Context::view(ctx.output(op))};
  if (!ir::is_float(n.rows.in.dtype)) return Fate::external("integers");
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
  if (overlaps(n)) return Fate::external(kOverlap);
  return normalize(ctx, n);
}

/// [N, C, …] as [N, group, C / group, …].
View grouped(View view, int64_t group) {
  int64_t channels = view.sizes[1] / group;
  view.sizes[1] = group;
  view.sizes.insert(view.sizes.begin() + 2, channels);
  view.strides.insert(view.strides.begin() + 2, view.strides[1]);
  view.strides[1] *= channels;
  return view;
}

/// [C] as [group, C / group, 1, …], which broadcasts to the grouped input.
View grouped_parameter(View view, int64_t group, size_t rank) {
  if (view.storage < 0) return view;
  int64_t channels = view.sizes[0] / group;
  view.sizes = {group, channels};
  view.strides = {view.strides[0] * channels, view.strides[0]};
  view.sizes.resize(rank - 1, 1);
  view.strides.resize(rank - 1, 0);
  return view;
}

Fate group_norm(Context& ctx, const OperatorRecord& op) {
  if (is_constant(ctx, op, "weight") || is_constant(ctx, op, "bias"))
    return Fate::external("a weight without memory");
  View in = Context::view(ctx.tensor(op, 0)), out = Context::view(ctx.output(op));
  int64_t group = integer(op, "group", 1);
  if (!ir::is_float(in.dtype)) return Fate::external("integers");
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
  if (overlaps(n)) return Fate::external(kOverlap);
  return normalize(ctx, n);
}

/// Inference only: out = in * scale + shift, with scale = weight / sqrt(running_var + eps) and
/// shift = bias - running_mean * scale, as in ATen's kernel; both rounded once.
Fate batch_norm(Context& ctx, const OperatorRecord& op) {
  if (boolean(op, "training", false)) return Fate::external("batch statistics");
  View in = Context::view(ctx.tensor(op, 0)), out = Context::view(ctx.output(op));
  View mean = optional_tensor(ctx, op, "running_mean"),
       var = optional_tensor(ctx, op, "running_var");
  View weight = optional_tensor(ctx, op, "weight"), bias = optional_tensor(ctx, op, "bias");
  if (in.sizes.size() < 2 || mean.storage < 0 || var.storage < 0)
    return Fate::external("no running statistics");
  if (is_constant(ctx, op, "weight") || is_constant(ctx, op, "bias"))
    return Fate::external("a weight without memory");
  for (size_t k = 1; k < op.outputs.size(); ++k)
    if (ir::numel(ctx.output(op, k).sizes) != 0) return Fate::external("statistics are asked for");
  if (!ir::is_float(in.dtype)) return Fate::external("integers");
  if (ir::numel(in.sizes) == 0) return Fate::fused();
  for (const View& read : {in, mean, var, weight, bias})
    if (overlaps(read, {out})) return Fate::external(kOverlap);
  ctx.exact = false;
  ScalarType compute = compute_type(in.dtype), wide = ScalarType::Double;
  View scale = ctx.temporary(mean.sizes, wide), shift = ctx.temporary(mean.sizes, wide);
  {
    StatementBuilder s(mean.sizes);
    Value eps = s.scalar(number(op, "eps").value_or(0), wide);
    Value value = 1.0 / (s.load(var).to(wide) + eps).op(Op::Sqrt);
    if (weight.storage >= 0) value = value * s.load(weight).to(wide);
    ctx.emit(s.store(scale, value));
  }
  {
    StatementBuilder s(mean.sizes);
    Value value = -(s.load(mean).to(wide) * s.load(scale));
    if (bias.storage >= 0) value = s.load(bias).to(wide) + value;
    ctx.emit(s.store(shift, value));
  }
  auto per_channel = [&](View view) {  // [C] as [C, 1, …]
    view.sizes.resize(in.sizes.size() - 1, 1);
    view.strides.resize(in.sizes.size() - 1, 0);
    return view;
  };
  StatementBuilder s(in.sizes);
  ctx.emit(s.store(
      out, s.load(in).to(compute) * s.load(per_channel(scale)) + s.load(per_channel(shift))));
  return Fate::fused();
}

}  // namespace

std::vector<Row> layer_rows() {
  return {
      {"aten::native_layer_norm", layer_norm,
       "layer norm: mean and variance in double, then one pass"},
      {"aten::native_group_norm", group_norm, "group norm, likewise"},
      {"aten::native_batch_norm", batch_norm, "batch norm with running statistics"},
      {"aten::_native_batch_norm_legit", batch_norm, "batch norm with running statistics"},
      {"aten::_native_batch_norm_legit_no_training", batch_norm,
       "batch norm with running statistics"},
      {"aten::_batch_norm_no_update", batch_norm, "batch norm with running statistics"},
  };
}

}  // namespace graft::ops
