// The backward of softmax, layer and group norm: the same rows as forward (norm.cpp,
// norm_layers.cpp), one or two sums per row, and column sums for the parameters.
#include <algorithm>
#include <utility>

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
    ctx.emit(s.store(sum, s.reduce(ReduceOp::Sum, g * y, r.axes, ScalarType::Double)));
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
    const Value g = s.load(r.gradient).to(r.compute);
    ctx.emit(s.store(sum, s.reduce(ReduceOp::Sum, g, r.axes, ScalarType::Double)));
  }
  StatementBuilder s(r.out.sizes);
  const Value g = s.load(r.gradient).to(r.compute), y = s.load(r.forward).to(r.compute);
  ctx.emit(s.store(r.out, g - call(ir::Routine::NearExp, y) * s.load(sum).to(r.compute)));
  return Fate::fused();
}

/// With g = dy * weight and h = (x - mean) * rstd, per row of n elements:
/// dx = rstd * (g - sum(g) / n - h * sum(g h) / n); over the columns dweight = sum(dy h), dbias =
/// sum(dy).
struct RowsBackward {
  View dy, x, mean, rstd, weight;  ///< the last three broadcast to x
  View dx, dweight, dbias;         ///< storage -1: not asked for
  std::vector<bool> rows;          ///< axes that a row has
  std::vector<bool> columns;       ///< axes over which the parameters' gradients are summed
};

class NormBackward {
 public:
  NormBackward(Context& ctx, RowsBackward operands) : ctx_(ctx), v_(std::move(operands)) {}

  Fate lower() {
    for (const View* v : {&v_.dy, &v_.x, &v_.mean, &v_.rstd})
      if (v->storage < 0) return Fate::external(kOperands);
    if (!is_float(v_.x.dtype) || v_.dy.sizes != v_.x.sizes ||
        v_.mean.sizes.size() != v_.x.sizes.size())
      return Fate::external(kOperands);
    for (const View* v : {&v_.dy, &v_.x, &v_.mean, &v_.rstd, &v_.weight})
      if (v->storage >= 0 && overlaps(*v, outputs())) return Fate::external(kOperands);
    if (ir::numel(v_.x.sizes) == 0) return Fate::external("there are no elements");
    ctx_.approximate(v_.x.dtype);
    if (v_.dx.storage >= 0) input();
    if (v_.dweight.storage >= 0)
      column(v_.dweight, [&](StatementBuilder& s) { return dy(s) * normalized(s); });
    if (v_.dbias.storage >= 0) column(v_.dbias, [&](StatementBuilder& s) { return dy(s); });
    return Fate::fused();
  }

 private:
  std::vector<View> outputs() const {
    std::vector<View> all;
    for (const View* v : {&v_.dx, &v_.dweight, &v_.dbias})
      if (v->storage >= 0) all.push_back(*v);
    return all;
  }
  ScalarType compute() const { return opmath(v_.x.dtype); }
  Value dy(StatementBuilder& s) const { return s.load(v_.dy).to(compute()); }
  Value gradient(StatementBuilder& s) const {
    return v_.weight.storage < 0 ? dy(s) : dy(s) * s.load(v_.weight).to(compute());
  }
  Value normalized(StatementBuilder& s) const {
    return (s.load(v_.x).to(compute()) - s.load(v_.mean).to(compute())) *
           s.load(v_.rstd).to(compute());
  }

  template <class Term>
  View row_sum(Term term) {
    const View sum = ctx_.temporary(v_.mean.sizes, ScalarType::Double);
    StatementBuilder s(v_.x.sizes);
    ctx_.emit(s.store(sum, s.reduce(ReduceOp::Sum, term(s), v_.rows, ScalarType::Double)));
    return sum;
  }

  template <class Term>
  void column(const View& out, Term term) {
    StatementBuilder s(v_.x.sizes);
    const Value terms = term(s);
    const bool one_row = std::find(v_.columns.begin(), v_.columns.end(), true) == v_.columns.end();
    ctx_.emit(s.store(
        out, one_row ? terms : s.reduce(ReduceOp::Sum, terms, v_.columns, ScalarType::Double)));
  }

  void input() {
    const View plain = row_sum([&](StatementBuilder& s) { return gradient(s); });
    const View along = row_sum([&](StatementBuilder& s) { return gradient(s) * normalized(s); });
    int64_t count = 1;
    for (size_t a = 0; a < v_.rows.size(); ++a)
      if (v_.rows[a]) count *= v_.x.sizes[a];
    StatementBuilder s(v_.x.sizes);
    const Value n = s.scalar(count, ScalarType::Double);
    const Value shift = (s.load(plain) / n).to(compute()), tilt = (s.load(along) / n).to(compute());
    ctx_.emit(s.store(
        v_.dx, s.load(v_.rstd).to(compute()) * (gradient(s) - shift - normalized(s) * tilt)));
  }

  Context& ctx_;
  const RowsBackward v_;
};

Fate layer_norm_backward(Context& ctx, const OperatorRecord& op) {
  if (is_constant(ctx, op, "weight")) return Fate::external("a weight without memory");
  RowsBackward r{ctx.tensor(op, 0),
                 ctx.tensor(op, 1),
                 ctx.tensor(op, 3),
                 ctx.tensor(op, 4),
                 optional_tensor(ctx, op, "weight"),
                 ctx.output(op, 0),
                 ctx.output(op, 1),
                 ctx.output(op, 2),
                 {},
                 {}};
  const size_t rank = r.x.sizes.size(), normalized = integers(op, "normalized_shape").size();
  r.rows.assign(rank, true);
  r.columns.assign(rank, true);
  for (size_t a = 0; a < rank; ++a)
    (a < rank - std::min(normalized, rank) ? r.rows : r.columns)[a] = false;
  return NormBackward(ctx, std::move(r)).lower();
}

Fate group_norm_backward(Context& ctx, const OperatorRecord& op) {
  if (is_constant(ctx, op, "weight")) return Fate::external("a weight without memory");
  const View dy = ctx.tensor(op, 0), x = ctx.tensor(op, 1);
  const int64_t group = integer(op, "group", 1);
  if (dy.storage < 0 || x.storage < 0 || x.sizes.size() < 2 || dy.sizes != x.sizes || group < 1 ||
      x.sizes[1] % group != 0)
    return Fate::external("an unusual shape");
  const size_t rank = x.sizes.size() + 1;
  auto statistic = [&](View view) {
    if (view.sizes.size() != 2) return View{};
    view.sizes.resize(rank, 1);
    view.strides.resize(rank, 0);
    return view;
  };
  auto parameter = [&](const View& view) {
    if (view.storage < 0) return view;
    return with_unit_axis(grouped_parameter(view, group, rank), 0);
  };
  const View dx = ctx.output(op, 0);
  RowsBackward r{grouped(dy, group),
                 grouped(x, group),
                 statistic(ctx.tensor(op, 2)),
                 statistic(ctx.tensor(op, 3)),
                 parameter(optional_tensor(ctx, op, "weight")),
                 dx.storage < 0 ? dx : grouped(dx, group),
                 parameter(ctx.output(op, 1)),
                 parameter(ctx.output(op, 2)),
                 {},
                 {}};
  r.rows.assign(rank, true);
  r.columns.assign(rank, true);
  r.rows[0] = r.rows[1] = r.columns[1] = r.columns[2] = false;
  return NormBackward(ctx, std::move(r)).lower();
}

}  // namespace

std::vector<Row> norm_backward_rows() {
  return {
      {"aten::_softmax_backward_data", softmax_backward, "gradient through softmax"},
      {"aten::_log_softmax_backward_data", log_softmax_backward, "gradient through log_softmax"},
      {"aten::native_layer_norm_backward", layer_norm_backward,
       "gradients of layer norm's input, weight and bias"},
      {"aten::native_group_norm_backward", group_norm_backward, "likewise, of group norm's"},
  };
}

}  // namespace graft::ops
