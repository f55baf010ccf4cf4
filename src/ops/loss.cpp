// Losses: a formula of two tensors, or a choice by class, and then nothing, the mean or the sum.
#include "ops/indexing.h"
#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::Op;
using ir::ReduceOp;
using ir::StatementBuilder;
using ir::Value;
using record::OperatorRecord;

/// at::Reduction.
enum class Reduction : int64_t { None = 0, Mean = 1, Sum = 2 };
Reduction reduction_of(const OperatorRecord& op) {
  return static_cast<Reduction>(integer(op, "reduction", 1));
}

bool is_known(Reduction reduction) {
  return reduction == Reduction::None || reduction == Reduction::Mean ||
         reduction == Reduction::Sum;
}
constexpr const char* kUnknown = "a reduction of another number than at::Reduction has";

/// loss(input, target), with eager's bits where nothing is reduced.
template <class Loss>
Fate pointwise(Context& ctx, const OperatorRecord& op, Loss loss) {
  ir::View input = at_least_1d(ctx.tensor(op, 0)), target = at_least_1d(ctx.tensor(op, 1)),
           out = at_least_1d(ctx.output(op));
  const ScalarType type = out.dtype;
  if (opmath(type) != type || input.dtype != type || target.dtype != type)
    return Fate::external("of other dtypes than fp32 or fp64, which round at each step");
  const std::vector<int64_t> axes = broadcast(input.sizes, target.sizes);
  if (input.storage < 0 || target.storage < 0) return Fate::external("a tensor without memory");
  if (ir::numel(axes) == 0) return Fate::external("there are no losses");
  const Reduction reduction = reduction_of(op);
  if (!is_known(reduction)) return Fate::external(kUnknown);
  const bool in_step = reduction == Reduction::None;
  if (overlaps(input, {out}, in_step) || overlaps(target, {out}, in_step))
    return Fate::external(kOverlap);
  StatementBuilder s(axes);
  const ScalarType compute = reduction == Reduction::None ? type : ScalarType::Double;
  Value each = loss(s, s.load(input).to(compute), s.load(target).to(compute));
  if (reduction == Reduction::None) {
    ctx.emit(s.store(out, each));
    return Fate::fused();
  }
  ctx.approximate(type);
  Value total =
      s.reduce(ReduceOp::Sum, each, std::vector<bool>(axes.size(), true), ScalarType::Double);
  if (reduction == Reduction::Mean) total = total / s.scalar(ir::numel(axes), ScalarType::Double);
  ctx.emit(s.store(out, total));
  return Fate::fused();
}

Fate mse(Context& ctx, const OperatorRecord& op) {
  return pointwise(ctx, op, [](StatementBuilder&, Value a, Value b) {
    Value apart = a - b;
    return apart * apart;
  });
}

Fate smooth_l1(Context& ctx, const OperatorRecord& op) {
  const c10::Scalar beta = number(op, "beta").value_or(1.0);
  return pointwise(ctx, op, [&](StatementBuilder& s, Value a, Value b) {
    Value z = (a - b).op(Op::Abs), limit = s.scalar(beta, z.type());
    return select(ge(z, limit), z - 0.5 * limit, 0.5 * z * z / limit);
  });
}

Fate huber(Context& ctx, const OperatorRecord& op) {
  const c10::Scalar delta = number(op, "delta").value_or(1.0);
  return pointwise(ctx, op, [&](StatementBuilder& s, Value a, Value b) {
    Value z = (a - b).op(Op::Abs), limit = s.scalar(delta, z.type());
    return select(ge(z, limit), limit * (z - 0.5 * limit), 0.5 * z * z);
  });
}

/// Minus the log-probability of each row's class, but for rows of the class to ignore.
Fate nll(Context& ctx, const OperatorRecord& op) {
  const ir::View logs = ctx.tensor(op, 0), target = ctx.tensor(op, 1), out = ctx.output(op),
                 total = ctx.output(op, 1);
  const Reduction reduction = reduction_of(op);
  if (ctx.tensor(op, 2).storage >= 0) return Fate::external("classes of other weights");
  if (logs.sizes.size() != 2 || target.sizes.size() != 1 ||
      target.sizes != std::vector{logs.sizes[0]})
    return Fate::external("no matrix of rows, with a class for each");
  if (reduction == Reduction::None) return Fate::external("its losses are not reduced");
  if (!is_known(reduction)) return Fate::external(kUnknown);
  if (logs.storage < 0 || target.storage < 0) return Fate::external("a tensor without memory");
  if (logs.sizes[0] == 0 || logs.sizes[1] == 0) return Fate::external("there are no rows");
  if (target.dtype != ScalarType::Long || !is_float(logs.dtype) || is_reduced(logs.dtype))
    return Fate::external("of other dtypes than fp32 or fp64, or classes that are no int64");
  if (overlaps(logs, {out, total}) || overlaps(target, {out, total}))
    return Fate::external(kOverlap);
  const int64_t ignored = integer(op, "ignore_index", -100), classes = logs.sizes[1];
  const std::vector<int64_t> rows{logs.sizes[0]};
  bool checked = ctx.check(rows, [&](StatementBuilder& s) {
    Value t = s.load(target);
    return ne(t, s.scalar(ignored, ScalarType::Long)) &
           (lt(t, t.like(0)) | ge(t, s.scalar(classes, ScalarType::Long)));
  });
  if (!checked) return Fate::external(kTooLate);
  ctx.approximate(logs.dtype);
  StatementBuilder count(rows);
  Value counts = ne(count.load(target), count.scalar(ignored, ScalarType::Long));
  ctx.emit(count.store(at_least_1d(total), count.reduce(ReduceOp::Sum, counts.to(ScalarType::Long),
                                                        {true}, ScalarType::Long)));
  StatementBuilder s(rows);
  Value t = s.load(target), skipped = eq(t, s.scalar(ignored, ScalarType::Long));
  ir::View column = logs;
  column.sizes = rows;
  column.strides = {logs.strides[0]};
  ir::Access access = ir::access_of(column, rows);
  access.indirect.push_back({select(skipped, t.like(0), t).id, logs.strides[1], classes});
  Value each = -s.load(access).to(ScalarType::Double);
  Value sum =
      s.reduce(ReduceOp::Sum, select(skipped, each.like(0), each), {true}, ScalarType::Double);
  if (reduction == Reduction::Mean) sum = sum / s.load(at_least_1d(total)).to(ScalarType::Double);
  ctx.emit(s.store(at_least_1d(out), sum));
  return Fate::fused();
}

/// slope(input - target, gradient, norm), norm being 1 over the number of losses for the mean.
template <class Slope>
Fate pointwise_backward(Context& ctx, const OperatorRecord& op, Slope slope) {
  const ir::View gradient = ctx.tensor(op, 0), input = ctx.tensor(op, 1),
                 target = ctx.tensor(op, 2), out = ctx.output(op);
  const ScalarType type = out.dtype;
  const Reduction reduction = reduction_of(op);
  if (!is_known(reduction)) return Fate::external(kUnknown);
  for (const ir::View* in : {&gradient, &input, &target}) {
    if (in->storage < 0) return Fate::external("a tensor without memory");
    if (opmath(type) != type || in->dtype != type)
      return Fate::external("of other dtypes than fp32 or fp64, which round at each step");
    if (overlaps(*in, {out}, /*in_step=*/true)) return Fate::external(kOverlap);
  }
  if (ir::numel(out.sizes) == 0) return Fate::fused();
  StatementBuilder s(out.sizes);
  const double norm =
      reduction == Reduction::Mean ? 1. / static_cast<double>(ir::numel(input.sizes)) : 1.;
  ctx.emit(s.store(out, slope(s, s.load(input) - s.load(target), s.load(gradient), norm)));
  return Fate::fused();
}

Fate mse_backward(Context& ctx, const OperatorRecord& op) {
  return pointwise_backward(ctx, op, [](StatementBuilder& s, Value apart, Value g, double norm) {
    return s.scalar(2 * norm, apart.type()) * apart * g;
  });
}

/// Eager's vector body and its tail round in different orders.
Fate smooth_l1_backward(Context& ctx, const OperatorRecord& op) {
  const c10::Scalar beta = number(op, "beta").value_or(1.0);
  ctx.approximate(ctx.output(op).dtype);
  return pointwise_backward(ctx, op, [&](StatementBuilder& s, Value x, Value g, double norm) {
    const Value limit = s.scalar(beta, x.type());
    const Value sign = select(gt(x, x.like(0)), x.like(1), x.like(-1));
    const Value slope = select(ge(x.op(Op::Abs), limit), sign, x / limit);
    return s.scalar(norm, x.type()) * slope * g;
  });
}

Fate huber_backward(Context& ctx, const OperatorRecord& op) {
  const c10::Scalar delta = number(op, "delta").value_or(1.0);
  ctx.approximate(ctx.output(op).dtype);
  return pointwise_backward(ctx, op, [&](StatementBuilder& s, Value x, Value g, double norm) {
    const Value limit = s.scalar(delta, x.type());
    const Value far = select(gt(x, x.like(0)), limit, -limit);
    return s.scalar(norm, x.type()) * select(ge(x.op(Op::Abs), limit), far, x) * g;
  });
}

/// Each row's gradient stands at its class alone.
Fate nll_backward(Context& ctx, const OperatorRecord& op) {
  const ir::View gradient = ctx.tensor(op, 0), logs = ctx.tensor(op, 1), target = ctx.tensor(op, 2),
                 total = ctx.tensor(op, 6), out = ctx.output(op);
  const Reduction reduction = reduction_of(op);
  if (ctx.tensor(op, 3).storage >= 0) return Fate::external("classes of other weights");
  if (logs.sizes.size() != 2 || target.sizes != std::vector{logs.sizes[0]} ||
      out.sizes != logs.sizes)
    return Fate::external("no matrix of rows, with a class for each");
  if (!is_known(reduction)) return Fate::external(kUnknown);
  if (gradient.storage < 0 || target.storage < 0 || total.storage < 0)
    return Fate::external("a tensor without memory");
  if (target.dtype != ScalarType::Long || !is_float(out.dtype) || is_reduced(out.dtype) ||
      gradient.dtype != out.dtype || total.dtype != out.dtype)
    return Fate::external("of other dtypes than fp32 or fp64, or classes that are no int64");
  for (const ir::View* in : {&gradient, &target, &total})
    if (overlaps(*in, {out})) return Fate::external(kOverlap);
  if (ir::numel(out.sizes) == 0) return Fate::fused();
  const int64_t ignored = integer(op, "ignore_index", -100), classes = logs.sizes[1];
  const bool checked = ctx.check(target.sizes, [&](StatementBuilder& s) {
    Value t = s.load(target);
    return ne(t, s.scalar(ignored, ScalarType::Long)) &
           (lt(t, t.like(0)) | ge(t, s.scalar(classes, ScalarType::Long)));
  });
  if (!checked) return Fate::external(kTooLate);
  StatementBuilder s(out.sizes);
  ir::View row = target;
  row.sizes.push_back(1), row.strides.push_back(0);
  ir::View each = gradient;
  if (!each.sizes.empty()) each.sizes.push_back(1), each.strides.push_back(0);
  Value g = s.load(each);
  if (reduction == Reduction::Mean) g = g / s.load(total);
  const Value t = s.load(row);
  const Value here = eq(t, s.axis(1)) & ne(t, s.scalar(ignored, ScalarType::Long));
  ctx.emit(s.store(out, select(here, -g, g.like(0))));
  return Fate::fused();
}

}  // namespace

std::vector<Row> loss_rows() {
  return {
      {"aten::mse_loss", mse, "(a - b)², its mean or sum"},
      {"aten::smooth_l1_loss", smooth_l1, "(a - b)² / 2 beta near 0, |a - b| - beta / 2 beyond"},
      {"aten::huber_loss", huber, "(a - b)² / 2 near 0, delta (|a - b| - delta / 2) beyond"},
      {"aten::nll_loss_forward", nll, "minus the log-probability of each row's class, reduced"},
      {"aten::mse_loss_backward", mse_backward, "2 (a - b) times the gradient"},
      {"aten::smooth_l1_loss_backward", smooth_l1_backward, "(a - b) / beta, between -1 and 1"},
      {"aten::huber_loss_backward", huber_backward, "(a - b), between -delta and delta"},
      {"aten::nll_loss_backward", nll_backward, "minus the gradient at each row's class, else 0"},
  };
}

}  // namespace graft::ops
