// Losses that choose by class: minus the log-probability of each row's class, or each pixel's.
#include "ops/indexing.h"
#include "ops/loss.h"
#include "ops/reduce.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::ReduceOp;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

/// Classes lie along this dimension of log-probabilities; a target lacks it.
constexpr size_t kClasses = 1;

/// Log-probabilities or their gradient, with the class of each row or pixel.
struct Chosen {
  View values, target;
  View weight;  ///< of each class; storage -1: none
  int64_t classes = 0, ignored = 0;
  Reduction reduction = Reduction::Mean;
  std::string why = {};  ///< not empty: it stays extern

  /// `values` without the dimension of the classes.
  View column() const {
    View column = values;
    column.sizes.erase(column.sizes.begin() + kClasses);
    column.strides.erase(column.strides.begin() + kClasses);
    return column;
  }
  Value is_ignored(StatementBuilder& s, Value target) const {
    return eq(target, s.scalar(ignored, ScalarType::Long));
  }
  /// False: the check of the classes would come too late.
  bool check(Context& ctx) const {
    return ctx.check(target.sizes, [&](StatementBuilder& s) {
      const Value t = s.load(target);
      return ~is_ignored(s, t) & (lt(t, t.like(0)) | ge(t, s.scalar(classes, ScalarType::Long)));
    });
  }
};

/// `target` and `weight`: of the schema's arguments.
Chosen read_chosen(Context& ctx, const OperatorRecord& op, const View& values, size_t target,
                   size_t weight, const std::vector<View>& outs) {
  Chosen c{values, ctx.tensor(op, target), ctx.tensor(op, weight)};
  c.ignored = integer(op, "ignore_index", -100), c.reduction = reduction_of(op);
  if (values.sizes.size() <= kClasses || c.target.sizes != c.column().sizes) {
    c.why = "no class for each row";
    return c;
  }
  c.classes = values.sizes[kClasses];
  if (!is_known(c.reduction)) c.why = kUnknownReduction;
  if (c.target.storage < 0) c.why = "a tensor without memory";
  if (c.target.dtype != ScalarType::Long || !is_float(values.dtype))
    c.why = "classes that are no int64, or values that are no floating numbers";
  if (ir::numel(values.sizes) == 0) c.why = "there are no rows";
  if (overlaps(c.target, outs)) c.why = kOverlap;
  if (is_constant(ctx, op, "weight")) c.why = "a weight without memory";
  if (c.weight.storage < 0) return c;
  if (c.weight.sizes != std::vector<int64_t>{c.classes}) c.why = "weights of an unusual shape";
  if (c.weight.dtype != values.dtype) c.why = "weights of another dtype";
  if (overlaps(c.weight, outs)) c.why = kOverlap;
  return c;
}

/// An element for each place of the target: a value or a weight, where its class says.
Value at_class(StatementBuilder& s, const View& each, Value chosen, int64_t stride,
               int64_t classes) {
  ir::Access access = ir::access_of(each, s.statement.axes);
  access.indirect.push_back({chosen.id, stride, classes});
  return s.load(std::move(access));
}

/// The weight of each place's class; empty: all are one.
std::optional<Value> weight_at(StatementBuilder& s, const Chosen& c, Value chosen) {
  if (c.weight.storage < 0) return {};
  const View first{c.weight.storage, c.weight.dtype, c.weight.byte_offset, {}, {}};
  return at_class(s, first, chosen, c.weight.strides[0], c.classes);
}

/// What the sum of losses is divided by for their mean.
void store_total(Context& ctx, const Chosen& c, const View& total, const std::vector<bool>& all) {
  StatementBuilder s(c.target.sizes);
  const Value t = s.load(c.target), skipped = c.is_ignored(s, t);
  const std::optional<Value> weight = weight_at(s, c, select(skipped, t.like(0), t));
  const ScalarType type = weight ? ScalarType::Double : ScalarType::Long;
  const Value each = weight ? weight->to(type) : s.integer(1, type);
  ctx.emit(s.store(total, s.reduce(ReduceOp::Sum, select(skipped, each.like(0), each), all, type)));
}

Fate nll(Context& ctx, const OperatorRecord& op) {
  const View logs = ctx.tensor(op, 0), out = at_least_1d(ctx.output(op)),
             total = at_least_1d(ctx.output(op, 1));
  const Chosen c = read_chosen(ctx, op, logs, 1, 2, {out, total});
  if (!c.why.empty()) return Fate::external(c.why);
  if (logs.storage < 0 || overlaps(logs, {out, total})) return Fate::external(kOverlap);
  const bool reduces = c.reduction != Reduction::None;
  if (reduces && is_reduced(logs.dtype)) return Fate::external(kStepsRounded);
  if (!c.check(ctx)) return Fate::external(kTooLate);
  const std::vector<bool> all(c.target.sizes.size(), true);
  if (reduces) {
    ctx.approximate(logs.dtype);
    store_total(ctx, c, total, all);
  } else {
    ctx.fill(total, 0);
  }
  StatementBuilder s(c.target.sizes);
  const ScalarType compute = reduces ? ScalarType::Double : opmath(logs.dtype);
  const Value t = s.load(c.target), skipped = c.is_ignored(s, t);
  const Value chosen = select(skipped, t.like(0), t);
  Value each = -at_class(s, c.column(), chosen, logs.strides[kClasses], c.classes).to(compute);
  if (const auto weight = weight_at(s, c, chosen)) each = each * weight->to(compute);
  each = select(skipped, each.like(0), each);
  if (!reduces) {
    ctx.emit(s.store(out, each));
    return Fate::fused();
  }
  Value sum = s.reduce(ReduceOp::Sum, each, all, compute);
  if (c.reduction == Reduction::Mean) sum = sum / s.load(total).to(compute);
  ctx.emit(s.store(out, sum));
  return Fate::fused();
}

/// With a dimension for the classes, along which it is broadcast.
View over_classes(View view) {
  return with_unit_axis(std::move(view), kClasses);
}

/// Each row's gradient stands at its class alone.
Fate nll_backward(Context& ctx, const OperatorRecord& op) {
  View gradient = ctx.tensor(op, 0), total = ctx.tensor(op, 6);
  const View out = ctx.output(op);
  const Chosen c = read_chosen(ctx, op, out, 2, 3, {out});
  if (!c.why.empty()) return Fate::external(c.why);
  for (View* in : {&gradient, &total}) {
    if (in->storage < 0) return Fate::external("a tensor without memory");
    if (in->dtype != out.dtype) return Fate::external("numbers of several dtypes");
    if (overlaps(*in, {out})) return Fate::external(kOverlap);
  }
  if (gradient.sizes == c.target.sizes)
    gradient = over_classes(gradient);
  else if (ir::numel(gradient.sizes) == 1)
    gradient.sizes.clear(), gradient.strides.clear();
  else
    return Fate::external("an unusual gradient");
  if (!c.check(ctx)) return Fate::external(kTooLate);
  StatementBuilder s(out.sizes);
  const ScalarType compute = opmath(out.dtype);
  auto rounded = [&](Value value) { return value.to(out.dtype).to(compute); };
  Value g = s.load(gradient).to(compute);
  if (c.reduction == Reduction::Mean) g = rounded(g / s.load(total).to(compute));
  if (c.weight.storage >= 0) {
    View weight = c.weight;
    weight.sizes.resize(out.sizes.size() - kClasses, 1), weight.strides.resize(weight.sizes.size());
    g = g * s.load(weight).to(compute);
  }
  const Value t = s.load(over_classes(c.target));
  const Value here = eq(t, s.axis(kClasses)) & ~c.is_ignored(s, t);
  ctx.emit(s.store(out, select(here, -g, g.like(0))));
  return Fate::fused();
}

}  // namespace

std::vector<Row> class_loss_rows() {
  const char* backward = "minus the gradient at each row's class, else 0";
  return {
      {"aten::nll_loss_forward", nll, "minus the log-probability of each row's class"},
      {"aten::nll_loss2d_forward", nll, "likewise, of each pixel's"},
      {"aten::nll_loss_backward", nll_backward, backward},
      {"aten::nll_loss2d_backward", nll_backward, backward},
  };
}

}  // namespace graft::ops
