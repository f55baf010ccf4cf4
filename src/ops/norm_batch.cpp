// Batch norm with given statistics, as in evaluation: one multiplication and addition per element.
#include <algorithm>
#include <numeric>

#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::Op;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

/// Does its memory lie in the order of `order`, without gaps?
bool is_dense(const View& view, const std::vector<size_t>& order) {
  int64_t expected = 1;
  for (size_t k = order.size(); k-- > 0;) {
    if (view.sizes[order[k]] > 1 && view.strides[order[k]] != expected) return false;
    expected *= view.sizes[order[k]];
  }
  return true;
}

/// As ATen asks: contiguous, or with channels last. Otherwise it subtracts the mean first, which
/// loses less where the mean is large.
bool takes_terms(const View& view) {
  std::vector<size_t> order(view.sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (is_dense(view, order)) return true;
  if (order.size() < 4) return false;
  std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return is_dense(view, order);
}

/// x * scale + shift, with one scale and one shift per channel:
/// scale = weight / sqrt(var + eps), shift = bias - mean * scale.
Fate batch_norm(Context& ctx, const OperatorRecord& op) {
  const View x = ctx.tensor(op, 0), out = ctx.output(op);
  if (boolean(op, "training", false)) return Fate::external("statistics of the batch");
  for (size_t k = 1; k < op.outputs.size(); ++k)
    if (ir::numel(ctx.output(op, k).sizes) != 0) return Fate::external("it returns statistics");
  if (x.storage < 0 || !is_float(x.dtype) || x.sizes.size() < 2 || overlaps(x, {out}))
    return Fate::external("an unusual input");
  const ScalarType compute = opmath(x.dtype);
  const View weight = optional_tensor(ctx, op, "weight"), bias = optional_tensor(ctx, op, "bias"),
             mean = optional_tensor(ctx, op, "running_mean"),
             var = optional_tensor(ctx, op, "running_var");
  if (!takes_terms(x) || !takes_terms(out)) return Fate::external("it is not contiguous");
  for (const View* v : {&weight, &bias, &mean, &var}) {
    if (v->storage >= 0 && !takes_terms(*v)) return Fate::external("it is not contiguous");
    const bool needed = v == &mean || v == &var;
    if (v->storage < 0 ? needed : v->dtype != compute || overlaps(*v, {out}))
      return Fate::external("parameters that are missing, or of another dtype");
  }
  if (is_constant(ctx, op, "weight") || is_constant(ctx, op, "bias"))
    return Fate::external("a weight without memory");
  if (ir::numel(x.sizes) == 0) return Fate::fused();
  ctx.approximate(x.dtype);
  const std::vector<int64_t> channels = {x.sizes[1]};
  View scale = ctx.temporary(channels, compute), shift = ctx.temporary(channels, compute);
  {
    StatementBuilder s(channels);
    const double eps = number(op, "eps").value_or(0).toDouble();
    Value rstd = 1.0 / (s.load(var) + s.scalar(eps, compute)).op(Op::Sqrt);
    ctx.emit(s.store(scale, weight.storage < 0 ? rstd : rstd * s.load(weight)));
  }
  {
    StatementBuilder s(channels);
    Value zero = s.constant(0, compute);
    ctx.emit(
        s.store(shift, (bias.storage < 0 ? zero : s.load(bias)) - s.load(mean) * s.load(scale)));
  }
  for (View* v : {&scale, &shift}) {
    v->sizes.resize(x.sizes.size() - 1, 1);
    v->strides.resize(x.sizes.size() - 1, 0);
  }
  StatementBuilder s(x.sizes);
  ctx.emit(s.store(out, fma(s.load(x).to(compute), s.load(scale), s.load(shift))));
  return Fate::fused();
}

}  // namespace

std::vector<Row> batch_rows() {
  return {{"aten::native_batch_norm", batch_norm, "batch norm in evaluation"},
          {"aten::_native_batch_norm_legit_no_training", batch_norm, "batch norm in evaluation"}};
}

}  // namespace graft::ops
