// The backward of softmax and layer norm: the same rows as forward (norm.cpp, norm_layers.cpp), one
// or two sums per row, and column sums for the parameters.
#include <algorithm>

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

constexpr const char* kOperands = "operands of several dtypes, or a result that overlaps them";

/// Gradient, result of forward, and the one dimension.
struct Rows {
  View gradient, forward, out;
  std::vector<bool> axes;
  ScalarType compute = ScalarType::Undefined;

  View per_row(Context& ctx) const {
    std::vector<int64_t> sizes = gradient.sizes;
    for (size_t a = 0; a < sizes.size(); ++a)
      if (axes[a]) sizes[a] = 1;
    return ctx.temporary(sizes, ScalarType::Double);
  }
};

/// Undefined dtype: it stays extern.
Rows rows_of(Context& ctx, const OperatorRecord& op) {
  Rows r{at_least_1d(ctx.tensor(op, 0)),
         at_least_1d(ctx.tensor(op, 1)),
         at_least_1d(ctx.output(op)),
         {}};
  const ScalarType type = r.out.dtype;
  if (r.gradient.storage < 0 || r.forward.storage < 0 || !is_float(type) ||
      r.gradient.dtype != type || r.forward.dtype != type || r.gradient.sizes != r.out.sizes ||
      r.forward.sizes != r.out.sizes || overlaps(r.gradient, {r.out}, /*in_step=*/true) ||
      overlaps(r.forward, {r.out}, /*in_step=*/true))
    return r;
  r.axes.assign(r.out.sizes.size(), false);
  r.axes[wrapped(integer(op, "dim", -1), r.axes.size())] = true;
  r.compute = opmath(type);
  return r;
}

/// (g - sum(g y)) y, y the softmax.
Fate softmax_backward(Context& ctx, const OperatorRecord& op) {
  const Rows r = rows_of(ctx, op);
  if (r.compute == ScalarType::Undefined) return Fate::external(kOperands);
  if (ir::numel(r.out.sizes) == 0) return Fate::fused();
  ctx.approximate(r.out.dtype);
  const View sum = r.per_row(ctx);
  {
    StatementBuilder s(r.out.sizes);
    const Value g = s.load(r.gradient).to(r.compute), y = s.load(r.forward).to(r.compute);
    ctx.emit(s.store(
        sum, s.reduce(ReduceOp::Sum, (g * y).to(ScalarType::Double), r.axes, ScalarType::Double)));
  }
  StatementBuilder s(r.out.sizes);
  const Value g = s.load(r.gradient).to(r.compute), y = s.load(r.forward).to(r.compute);
  ctx.emit(s.store(r.out, (g - s.load(sum).to(r.compute)) * y));
  return Fate::fused();
}

/// g - exp(y) sum(g), y the logarithm of the softmax.
Fate log_softmax_backward(Context& ctx, const OperatorRecord& op) {
  const Rows r = rows_of(ctx, op);
  if (r.compute == ScalarType::Undefined) return Fate::external(kOperands);
  if (ir::numel(r.out.sizes) == 0) return Fate::fused();
  ctx.approximate(r.out.dtype);
  const View sum = r.per_row(ctx);
  {
    StatementBuilder s(r.out.sizes);
    const Value g = s.load(r.gradient).to(ScalarType::Double);
    ctx.emit(s.store(sum, s.reduce(ReduceOp::Sum, g, r.axes, ScalarType::Double)));
  }
  StatementBuilder s(r.out.sizes);
  const Value g = s.load(r.gradient).to(r.compute), y = s.load(r.forward).to(r.compute);
  ctx.emit(s.store(r.out, g - call(ir::Routine::NearExp, y) * s.load(sum).to(r.compute)));
  return Fate::fused();
}

/// With g = dy * weight and h = (x - mean) * rstd, per row of n elements:
/// dx = rstd * (g - sum(g) / n - h * sum(g h) / n); over the rows dweight = sum(dy h), dbias =
/// sum(dy).
class LayerNormBackward {
 public:
  LayerNormBackward(Context& ctx, const OperatorRecord& op)
      : ctx_(ctx),
        dy_(ctx.tensor(op, 0)),
        x_(ctx.tensor(op, 1)),
        mean_(ctx.tensor(op, 3)),
        rstd_(ctx.tensor(op, 4)),
        weight_(optional_tensor(ctx, op, "weight")),
        dx_(ctx.output(op, 0)),
        dweight_(ctx.output(op, 1)),
        dbias_(ctx.output(op, 2)) {
    const size_t rank = x_.sizes.size(), normalized = integers(op, "normalized_shape").size();
    rows_.assign(rank, true);
    columns_.assign(rank, true);
    for (size_t a = 0; a < rank; ++a)
      (a < rank - std::min(normalized, rank) ? rows_ : columns_)[a] = false;
  }

  Fate lower() {
    for (const View* v : {&dy_, &x_, &mean_, &rstd_})
      if (v->storage < 0) return Fate::external(kOperands);
    if (!is_float(x_.dtype) || dy_.sizes != x_.sizes || mean_.sizes.size() != x_.sizes.size())
      return Fate::external(kOperands);
    for (const View* v : {&dy_, &x_, &mean_, &rstd_, &weight_})
      if (v->storage >= 0 && overlaps(*v, outputs())) return Fate::external(kOperands);
    if (ir::numel(x_.sizes) == 0) return Fate::external("there are no elements");
    ctx_.approximate(x_.dtype);
    if (dx_.storage >= 0) input();
    if (dweight_.storage >= 0)
      column(dweight_, [&](StatementBuilder& s) { return dy(s) * normalized(s); });
    if (dbias_.storage >= 0) column(dbias_, [&](StatementBuilder& s) { return dy(s); });
    return Fate::fused();
  }

 private:
  std::vector<View> outputs() const {
    std::vector<View> all;
    for (const View* v : {&dx_, &dweight_, &dbias_})
      if (v->storage >= 0) all.push_back(*v);
    return all;
  }
  ScalarType compute() const { return opmath(x_.dtype); }
  Value dy(StatementBuilder& s) const { return s.load(dy_).to(compute()); }
  Value gradient(StatementBuilder& s) const {
    return weight_.storage < 0 ? dy(s) : dy(s) * s.load(weight_).to(compute());
  }
  Value normalized(StatementBuilder& s) const {
    return (s.load(x_).to(compute()) - s.load(mean_).to(compute())) * s.load(rstd_).to(compute());
  }

  template <class Term>
  View row_sum(Term term) {
    const View sum = ctx_.temporary(mean_.sizes, ScalarType::Double);
    StatementBuilder s(x_.sizes);
    const Value terms = term(s).to(ScalarType::Double);
    ctx_.emit(s.store(sum, s.reduce(ReduceOp::Sum, terms, rows_, ScalarType::Double)));
    return sum;
  }

  template <class Term>
  void column(const View& out, Term term) {
    StatementBuilder s(x_.sizes);
    const Value terms = term(s).to(ScalarType::Double);
    const bool one_row = std::find(columns_.begin(), columns_.end(), true) == columns_.end();
    ctx_.emit(s.store(
        out, one_row ? terms : s.reduce(ReduceOp::Sum, terms, columns_, ScalarType::Double)));
  }

  void input() {
    const View plain = row_sum([&](StatementBuilder& s) { return gradient(s); });
    const View along = row_sum([&](StatementBuilder& s) { return gradient(s) * normalized(s); });
    int64_t count = 1;
    for (size_t a = 0; a < rows_.size(); ++a)
      if (rows_[a]) count *= x_.sizes[a];
    StatementBuilder s(x_.sizes);
    const Value n = s.scalar(count, ScalarType::Double);
    const Value shift = (s.load(plain) / n).to(compute()), tilt = (s.load(along) / n).to(compute());
    ctx_.emit(
        s.store(dx_, s.load(rstd_).to(compute()) * (gradient(s) - shift - normalized(s) * tilt)));
  }

  Context& ctx_;
  View dy_, x_, mean_, rstd_, weight_, dx_, dweight_, dbias_;
  std::vector<bool> rows_;     ///< axes that a row has
  std::vector<bool> columns_;  ///< the others
};

Fate layer_norm_backward(Context& ctx, const OperatorRecord& op) {
  if (is_constant(ctx, op, "weight")) return Fate::external("a weight without memory");
  return LayerNormBackward(ctx, op).lower();
}

}  // namespace

std::vector<Row> norm_backward_rows() {
  return {
      {"aten::_softmax_backward_data", softmax_backward, "gradient through softmax"},
      {"aten::_log_softmax_backward_data", log_softmax_backward, "gradient through log_softmax"},
      {"aten::native_layer_norm_backward", layer_norm_backward,
       "gradients of layer norm's input, weight and bias"},
  };
}

}  // namespace graft::ops
