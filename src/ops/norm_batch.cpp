// Batch norm: one multiplication and addition per element, with given statistics or with those of
// the batch.
#include <algorithm>
#include <functional>
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

/// What a batch norm is given, and the type that it computes in.
struct Batch {
  View x, out, weight, bias, mean, var;  ///< mean, var: the running ones
  ScalarType compute;
  double eps = 0;

  std::vector<int64_t> channels() const { return {x.sizes[1]}; }
  /// A view of one element per channel, beside x.
  View spread(View view) const {
    view.sizes.resize(x.sizes.size() - 1, 1);
    view.strides.resize(x.sizes.size() - 1, 0);
    return view;
  }
};

/// scale = rstd * weight, shift = bias - mean * scale, out = x * scale + shift
void normalise(Context& ctx, const Batch& b, const View& mean, const View& rstd) {
  View scale = ctx.temporary(b.channels(), b.compute),
       shift = ctx.temporary(b.channels(), b.compute);
  {
    StatementBuilder s(b.channels());
    const Value root = s.load(rstd).to(b.compute);
    ctx.emit(s.store(scale, b.weight.storage < 0 ? root : root * s.load(b.weight)));
  }
  {
    StatementBuilder s(b.channels());
    const Value from = b.bias.storage < 0 ? s.constant(0, b.compute) : s.load(b.bias);
    ctx.emit(s.store(shift, from - s.load(mean).to(b.compute) * s.load(scale)));
  }
  StatementBuilder s(b.x.sizes);
  ctx.emit(s.store(
      b.out, fma(s.load(b.x).to(b.compute), s.load(b.spread(scale)), s.load(b.spread(shift)))));
}

Value root_of(StatementBuilder& s, Value variance, double eps) {
  return 1.0 / (variance + s.scalar(eps, variance.type())).op(Op::Sqrt);
}

/// momentum * now + (1 - momentum) * running
void update(Context& ctx, const View& running, double momentum,
            const std::function<Value(StatementBuilder&)>& now) {
  StatementBuilder s(running.sizes);
  const Value before = s.load(running).to(ScalarType::Double);
  ctx.emit(s.store(running, s.scalar(momentum, ScalarType::Double) * now(s) +
                                s.scalar(1 - momentum, ScalarType::Double) * before));
}

/// With the statistics of the batch, which are results, too, and move the running ones.
void train(Context& ctx, const OperatorRecord& op, const Batch& b) {
  const View mean = ctx.output(op, 1), rstd = ctx.output(op, 2);
  const int64_t count = ir::numel(b.x.sizes) / b.x.sizes[1];
  std::vector<bool> axes(b.x.sizes.size(), true);
  axes[1] = false;
  auto per_channel = [&](const View& view) { return with_unit_axis(b.spread(view), 0); };
  const View means = ctx.temporary(b.channels(), ScalarType::Double),
             squares = ctx.temporary(b.channels(), ScalarType::Double);
  {
    StatementBuilder s(b.x.sizes);
    const Value sum =
        s.reduce(ir::ReduceOp::Sum, s.load(b.x).to(ScalarType::Double), axes, ScalarType::Double);
    ctx.emit(s.store(per_channel(means), sum / s.scalar(count, ScalarType::Double)));
  }
  {
    StatementBuilder s(b.x.sizes);
    const Value apart = s.load(b.x).to(ScalarType::Double) - s.load(b.spread(means));
    ctx.emit(s.store(per_channel(squares),
                     s.reduce(ir::ReduceOp::Sum, apart * apart, axes, ScalarType::Double)));
  }
  ctx.copy(means, mean);
  {
    StatementBuilder s(b.channels());
    const Value variance = s.load(squares) / s.scalar(count, ScalarType::Double);
    ctx.emit(s.store(rstd, root_of(s, variance, b.eps)));
  }
  const double momentum = number(op, "momentum").value_or(0).toDouble();
  if (b.mean.storage >= 0)
    update(ctx, b.mean, momentum, [&](StatementBuilder& s) { return s.load(means); });
  if (b.var.storage >= 0)
    update(ctx, b.var, momentum, [&](StatementBuilder& s) {
      return s.load(squares) / s.scalar(count - 1, ScalarType::Double);
    });
  normalise(ctx, b, mean, rstd);
}

Fate batch_norm(Context& ctx, const OperatorRecord& op) {
  Batch b{ctx.tensor(op, 0),
          ctx.output(op),
          optional_tensor(ctx, op, "weight"),
          optional_tensor(ctx, op, "bias"),
          optional_tensor(ctx, op, "running_mean"),
          optional_tensor(ctx, op, "running_var"),
          ScalarType::Undefined,
          number(op, "eps").value_or(0).toDouble()};
  const bool trains = boolean(op, "training", false);
  for (size_t k = 1; !trains && k < op.outputs.size(); ++k)
    if (ir::numel(ctx.output(op, k).sizes) != 0) return Fate::external("it returns statistics");
  if (b.x.storage < 0 || !is_float(b.x.dtype) || b.x.sizes.size() < 2 || overlaps(b.x, {b.out}))
    return Fate::external("an unusual input");
  b.compute = opmath(b.x.dtype);
  if (!takes_terms(b.x) || !takes_terms(b.out)) return Fate::external("it is not contiguous");
  for (const View* v : {&b.weight, &b.bias, &b.mean, &b.var}) {
    if (v->storage >= 0 && !takes_terms(*v)) return Fate::external("it is not contiguous");
    const bool needed = !trains && (v == &b.mean || v == &b.var);
    if (v->storage < 0 ? needed : v->dtype != b.compute || overlaps(*v, {b.out}))
      return Fate::external("parameters that are missing, or of another dtype");
  }
  if (is_constant(ctx, op, "weight") || is_constant(ctx, op, "bias"))
    return Fate::external("a weight without memory");
  if (trains && (op.outputs.size() != 3 || b.x.dtype != b.compute))
    return Fate::external("statistics of another dtype");
  if (trains && ir::numel(b.x.sizes) == 0) return Fate::external("statistics of nothing");
  if (ir::numel(b.x.sizes) == 0) return Fate::fused();
  ctx.approximate(b.x.dtype);
  if (trains) {
    train(ctx, op, b);
    return Fate::fused();
  }
  const View rstd = ctx.temporary(b.channels(), b.compute);
  StatementBuilder s(b.channels());
  ctx.emit(s.store(rstd, root_of(s, s.load(b.var), b.eps)));
  normalise(ctx, b, b.mean, rstd);
  return Fate::fused();
}

}  // namespace

std::vector<Row> batch_rows() {
  return {{"aten::native_batch_norm", batch_norm, "one multiply-add per element"},
          {"aten::_native_batch_norm_legit_no_training", batch_norm, "likewise"}};
}

}  // namespace graft::ops
