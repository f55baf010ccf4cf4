// Losses: a formula of two tensors, and then nothing, the mean or the sum.
#include "ops/loss.h"

#include "ops/indexing.h"
#include "ops/reduce.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::Op;
using ir::ReduceOp;
using ir::Routine;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

/// The operands of a loss; `why` not empty: it stays extern.
struct Pair {
  View input, target, out;
  std::vector<int64_t> axes = {};
  Reduction reduction = Reduction::Mean;
  std::string why = {};
};

Pair read_pair(Context& ctx, const OperatorRecord& op) {
  Pair p{at_least_1d(ctx.tensor(op, 0)), at_least_1d(ctx.tensor(op, 1)),
         at_least_1d(ctx.output(op))};
  p.axes = broadcast(p.input.sizes, p.target.sizes), p.reduction = reduction_of(op);
  const ScalarType type = p.out.dtype;
  const bool in_step = p.reduction == Reduction::None;
  if (opmath(type) != type || p.input.dtype != type || p.target.dtype != type)
    p.why = kStepsRounded;
  else if (p.input.storage < 0 || p.target.storage < 0)
    p.why = "a tensor without memory";
  else if (ir::numel(p.axes) == 0)
    p.why = "there are no losses";
  else if (!is_known(p.reduction))
    p.why = kUnknownReduction;
  else if (overlaps(p.input, {p.out}, in_step) || overlaps(p.target, {p.out}, in_step))
    p.why = kOverlap;
  return p;
}

/// loss(builder, input, target), with eager's bits where nothing is reduced.
template <class Loss>
void emit_losses(Context& ctx, const Pair& p, Loss loss) {
  const bool reduces = p.reduction != Reduction::None;
  const ScalarType compute = reduces ? ScalarType::Double : p.out.dtype;
  StatementBuilder s(p.axes);
  Value each = loss(s, s.load(p.input).to(compute), s.load(p.target).to(compute));
  if (!reduces) return ctx.emit(s.store(p.out, each));
  ctx.approximate(p.out.dtype);
  Value total =
      s.reduce(ReduceOp::Sum, each, std::vector<bool>(p.axes.size(), true), ScalarType::Double);
  if (p.reduction == Reduction::Mean)
    total = total / s.scalar(ir::numel(p.axes), ScalarType::Double);
  ctx.emit(s.store(p.out, total));
}

template <class Loss>
Fate pointwise(Context& ctx, const OperatorRecord& op, Loss loss) {
  const Pair p = read_pair(ctx, op);
  if (!p.why.empty()) return Fate::external(p.why);
  emit_losses(ctx, p, loss);
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

/// Is `weight` nothing, or what losses of `type` that go to `out` can be multiplied by?
bool can_weigh(const View& weight, const View& out, ScalarType type) {
  return weight.storage < 0 || (weight.dtype == type && !overlaps(weight, {out}));
}
constexpr const char* kUnusualWeight = "a weight of another dtype, or one that overlaps its result";

/// Minus the logarithms of probabilities, of which none is below −100.
Fate binary_cross_entropy(Context& ctx, const OperatorRecord& op) {
  const Pair p = read_pair(ctx, op);
  const View weight = ctx.tensor(op, 2);
  if (!p.why.empty()) return Fate::external(p.why);
  if (p.input.sizes != p.target.sizes) return Fate::external("a target of another shape");
  if (is_constant(ctx, op, "weight")) return Fate::external(kUnusualWeight);
  if (!can_weigh(weight, p.out, p.input.dtype)) return Fate::external(kUnusualWeight);
  const bool checked = ctx.check(p.axes, [&](StatementBuilder& s) {
    const Value x = s.load(p.input), t = s.load(p.target), zero = x.like(0), one = x.like(1);
    return ~(ge(x, zero) & le(x, one) & ge(t, zero) & le(t, one));
  });
  if (!checked) return Fate::external(kTooLate);
  const bool fast = ctx.settings.fast;
  emit_losses(ctx, p, [&](StatementBuilder& s, Value x, Value t) {
    const auto at_least = [](Value log) { return ir::max(log, log.like(-100)); };
    const Value log = at_least(ir::call(fast ? Routine::VectorLog : Routine::ScalarLog, x));
    const Value rest = at_least(ir::call(fast ? Routine::VectorLog1p : Routine::ScalarLog1p, -x));
    const Value loss = (t - 1) * rest - t * log;
    return weight.storage < 0 ? loss : loss * s.load(weight).to(loss.type());
  });
  return Fate::fused();
}

/// slope(builder, input, target, gradient, norm), norm being 1 over the number of losses for the
/// mean.
template <class Slope>
Fate pointwise_backward(Context& ctx, const OperatorRecord& op, Slope slope) {
  const View gradient = ctx.tensor(op, 0), input = ctx.tensor(op, 1), target = ctx.tensor(op, 2),
             out = ctx.output(op);
  const ScalarType type = out.dtype;
  const Reduction reduction = reduction_of(op);
  if (!is_known(reduction)) return Fate::external(kUnknownReduction);
  for (const View* in : {&gradient, &input, &target}) {
    if (in->storage < 0) return Fate::external("a tensor without memory");
    if (opmath(type) != type || in->dtype != type) return Fate::external(kStepsRounded);
    if (overlaps(*in, {out}, /*in_step=*/true)) return Fate::external(kOverlap);
  }
  if (ir::numel(out.sizes) == 0) return Fate::fused();
  StatementBuilder s(out.sizes);
  const double norm =
      reduction == Reduction::Mean ? 1. / static_cast<double>(ir::numel(input.sizes)) : 1.;
  ctx.emit(s.store(out, slope(s, s.load(input), s.load(target), s.load(gradient), norm)));
  return Fate::fused();
}

Fate mse_backward(Context& ctx, const OperatorRecord& op) {
  return pointwise_backward(ctx, op,
                            [](StatementBuilder& s, Value a, Value b, Value g, double norm) {
                              return s.scalar(2 * norm, a.type()) * (a - b) * g;
                            });
}

/// Eager's vector body and its tail round in different orders.
Fate smooth_l1_backward(Context& ctx, const OperatorRecord& op) {
  const c10::Scalar beta = number(op, "beta").value_or(1.0);
  ctx.approximate(ctx.output(op).dtype);
  return pointwise_backward(ctx, op,
                            [&](StatementBuilder& s, Value a, Value b, Value g, double norm) {
                              const Value x = a - b;
                              const Value limit = s.scalar(beta, x.type());
                              const Value sign = select(gt(x, x.like(0)), x.like(1), x.like(-1));
                              const Value slope = select(ge(x.op(Op::Abs), limit), sign, x / limit);
                              return s.scalar(norm, x.type()) * slope * g;
                            });
}

Fate huber_backward(Context& ctx, const OperatorRecord& op) {
  const c10::Scalar delta = number(op, "delta").value_or(1.0);
  ctx.approximate(ctx.output(op).dtype);
  return pointwise_backward(
      ctx, op, [&](StatementBuilder& s, Value a, Value b, Value g, double norm) {
        const Value x = a - b;
        const Value limit = s.scalar(delta, x.type());
        const Value far = select(gt(x, x.like(0)), limit, -limit);
        return s.scalar(norm, x.type()) * select(ge(x.op(Op::Abs), limit), far, x) * g;
      });
}

/// ATen's smallest divisor, an fp32 number of fp64 tensors, too.
constexpr float kLeast = 1e-12F;

Fate binary_cross_entropy_backward(Context& ctx, const OperatorRecord& op) {
  const View weight = ctx.tensor(op, 3), out = ctx.output(op);
  if (is_constant(ctx, op, "weight") || !can_weigh(weight, out, out.dtype))
    return Fate::external(kUnusualWeight);
  // Eager drops dimensions of size 1 before it broadcasts.
  for (size_t k = 0; k < 3; ++k)
    if (const View& in = ctx.tensor(op, k);
        in.sizes != out.sizes && (k > 0 || ir::numel(in.sizes) != 1))
      return Fate::external("operands of several sizes");
  const bool mean = reduction_of(op) == Reduction::Mean;
  return pointwise_backward(
      ctx, op, [&](StatementBuilder& s, Value x, Value t, Value g, double /*norm*/) {
        Value slope = g * (x - t) / ir::max((1 - x) * x, x.like(kLeast));
        if (weight.storage >= 0) slope = slope * s.load(weight);
        return mean ? slope / s.scalar(ir::numel(out.sizes), x.type()) : slope;
      });
}

}  // namespace

std::vector<Row> loss_rows() {
  return {
      {"aten::mse_loss", mse, "(a - b)², its mean or sum"},
      {"aten::smooth_l1_loss", smooth_l1, "(a - b)² / 2 beta near 0, |a - b| - beta / 2 beyond"},
      {"aten::huber_loss", huber, "(a - b)² / 2 near 0, delta (|a - b| - delta / 2) beyond"},
      {"aten::binary_cross_entropy", binary_cross_entropy,
       "−b log(a) − (1 − b) log(1 − a), times a weight; its mean or sum"},
      {"aten::mse_loss_backward", mse_backward, "2 (a - b) times the gradient"},
      {"aten::smooth_l1_loss_backward", smooth_l1_backward, "(a - b) / beta, between -1 and 1"},
      {"aten::huber_loss_backward", huber_backward, "(a - b), between -delta and delta"},
      {"aten::binary_cross_entropy_backward", binary_cross_entropy_backward,
       "(a - b) / (a (1 - a)) times the gradient and the weight"},
  };
}

}  // namespace graft::ops
