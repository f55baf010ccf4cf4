// Variances, vector norms and log-sum-exp: reductions with a formula around them, accumulated in
// Double.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

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

/// var, std and their …_mean forms: the mean, and then the squared distances from it.
Fate variance(Context& ctx, const OperatorRecord& op, bool root) {
  auto r = read_reduction(ctx, op);
  if (!r) return Fate::external(kReducedShape);
  if (!is_float(r->in.dtype)) return Fate::external("a variance of integers");
  if (r->empty) {
    for (const ir::View& out : r->outs) ctx.fill(out, std::numeric_limits<double>::quiet_NaN());
    return Fate::fused();
  }
  ctx.approximate(r->in.dtype);
  ir::View mean = r->per_row(ctx, ScalarType::Double);
  r->emit(
      ctx, ReduceOp::Sum, ScalarType::Double, mean,
      [](StatementBuilder&, Value x) { return x.to(ScalarType::Double); },  // as ATen's adds
      [&](StatementBuilder& s, Value total) {
        return total / s.scalar(r->count, ScalarType::Double);
      });
  double correction = number(op, "correction").value_or(1).toDouble();
  double divisor = std::max(static_cast<double>(r->count) - correction, 0.0);
  r->emit(
      ctx, ReduceOp::Sum, ScalarType::Double, r->outs[0],
      [&](StatementBuilder& s, Value x) {
        Value distance = x.to(ScalarType::Double) - s.load(mean);
        return distance * distance;
      },
      [&](StatementBuilder& s, Value total) {
        Value var = total / s.scalar(divisor, ScalarType::Double);
        return root ? var.op(Op::Sqrt) : var;
      });
  if (r->outs.size() > 1) {
    ir::View out = r->outs[1];
    ir::View row = mean;
    row.sizes = out.sizes;
    row.strides = ir::contiguous_strides(out.sizes);
    ctx.copy(row, out);
  }
  return Fate::fused();
}

Fate var(Context& ctx, const OperatorRecord& op) {
  return variance(ctx, op, false);
}
Fate std_(Context& ctx, const OperatorRecord& op) {
  return variance(ctx, op, true);
}

/// The axis of rows so short that ATen's kernel adds up their squares one after the other.
std::optional<size_t> short_axis(const Context& ctx, const Reduced& r, ScalarType type) {
  constexpr int64_t kMostWrittenOut = 8;
  const int64_t lanes = ctx.settings.target.lanes * static_cast<int64_t>(sizeof(float)) /
                        static_cast<int64_t>(c10::elementSize(opmath(type)));
  if (std::count(r.axes.begin(), r.axes.end(), true) != 1 || ctx.settings.any_size ||
      r.count >= lanes || r.count > kMostWrittenOut)
    return std::nullopt;
  return static_cast<size_t>(std::find(r.axes.begin(), r.axes.end(), true) - r.axes.begin());
}

/// The 2-norm of such rows, as libtorch 2.11's kernel is compiled. Where elements lie side by side,
/// its loop rounds the squares of whole groups of four and takes multiply-adds for the few behind
/// them (for all in Double); elsewhere it rounds each square.
void write_out_norm(Context& ctx, const Reduced& r, size_t axis) {
  constexpr int64_t kUnrolled = 4;
  const ir::View& out = r.outs[0];
  const ScalarType compute = opmath(out.dtype);
  const int64_t rounded = r.in.strides[axis] != 1 || !ctx.settings.target.fma ? r.count
                          : compute == ScalarType::Double                     ? 0
                                                          : r.count / kUnrolled * kUnrolled;
  ir::View element = r.in;
  element.sizes[axis] = 1;
  StatementBuilder s(element.sizes);
  Value sum;
  for (int64_t k = 0; k < r.count; ++k) {
    const Value x = s.load(element).to(out.dtype).to(compute);
    sum = k == 0 ? x * x : k < rounded ? sum + x * x : ir::fma(x, x, sum);
    advance(element, axis, 1);
  }
  ctx.emit(s.store(out.sizes.size() == r.in.sizes.size() ? out : with_unit_axis(out, axis),
                   sum.op(Op::Sqrt)));
}

/// The p-norm of each row for p = 0, 1, 2 and the two infinities.
Fate vector_norm(Context& ctx, const OperatorRecord& op) {
  auto r = read_reduction(ctx, op);
  if (!r) return Fate::external(kReducedShape);
  const char* name = argument_index(op, "ord") >= 0 ? "ord" : "p";
  double p = number(op, name).value_or(2).toDouble();
  bool infinite = std::isinf(p);
  if (p != 0 && p != 1 && p != 2 && !infinite) return Fate::external("a norm of an unusual order");
  if (!is_float(r->in.dtype)) return Fate::external("a norm of integers");
  if (r->empty) {
    if (infinite && ir::numel(r->outs[0].sizes) != 0)
      return Fate::external("there is nothing to choose from");
    ctx.fill(r->outs[0], 0);
    return Fate::fused();
  }
  ScalarType type = r->outs[0].dtype;
  const bool exact = ctx.are_exact(ir::numel(r->outs[0].sizes));
  const ScalarType compute = infinite || !exact ? opmath(type) : ScalarType::Double;
  if (r->count == 1 && p != 0) {  // eager's is exact, too
    r->emit(ctx, ReduceOp::Max, opmath(type), r->outs[0],
            [&](StatementBuilder&, Value x) { return x.to(type).to(opmath(type)).op(Op::Abs); });
    return Fate::fused();
  }
  if (!infinite && p != 0) ctx.approximate(type);
  if (const auto axis = p == 2 ? short_axis(ctx, *r, type) : std::nullopt) {
    write_out_norm(ctx, *r, *axis);
    return Fate::fused();
  }
  ReduceOp reduce = !infinite ? ReduceOp::Sum : p > 0 ? ReduceOp::Max : ReduceOp::Min;
  r->emit(
      ctx, reduce, infinite ? compute : ScalarType::Double, r->outs[0],
      [&](StatementBuilder&, Value x) {
        x = x.to(type).to(compute);
        if (p == 0) return x.to(ScalarType::Bool).to(compute);
        return p == 2 ? x * x : x.op(Op::Abs);
      },
      [&](StatementBuilder&, Value total) { return p == 2 ? total.op(Op::Sqrt) : total; });
  return Fate::fused();
}

/// log(sum(exp(x - m))) + m, with m the largest element, or 0 where that is infinite.
Fate logsumexp(Context& ctx, const OperatorRecord& op) {
  auto r = read_reduction(ctx, op);
  if (!r) return Fate::external(kReducedShape);
  ScalarType compute = opmath(r->outs[0].dtype);
  if (!is_float(r->in.dtype)) return Fate::external("integers");
  if (r->empty) {
    ctx.fill(r->outs[0], -std::numeric_limits<double>::infinity());
    return Fate::fused();
  }
  ctx.approximate(r->in.dtype);
  ir::View most = r->per_row(ctx, compute);
  r->emit(
      ctx, ReduceOp::Max, compute, most, [&](StatementBuilder&, Value x) { return x.to(compute); },
      [&](StatementBuilder& s, Value m) {
        return select(
            eq(m.op(Op::Abs), s.constant(std::numeric_limits<double>::infinity(), compute)),
            s.constant(0, compute), m);
      });
  r->emit(
      ctx, ReduceOp::Sum, ScalarType::Double, r->outs[0],
      [&](StatementBuilder& s, Value x) {
        return call(ir::Routine::NearExp, x.to(compute) - s.load(most));
      },
      [&](StatementBuilder& s, Value total) {
        return call(ir::Routine::VectorLog, total) + s.load(most).to(ScalarType::Double);
      });
  return Fate::fused();
}

}  // namespace

std::vector<Row> moment_rows() {
  return {
      {"aten::var", var, "variance: two passes in double"},
      {"aten::std", std_, "standard deviation"},
      {"aten::var_mean", var, "variance and mean"},
      {"aten::std_mean", std_, "standard deviation and mean"},
      {"aten::norm", vector_norm, "p-norm for p = 0, 1, 2, inf, -inf"},
      {"aten::linalg_vector_norm", vector_norm, "p-norm for p = 0, 1, 2, inf, -inf"},
      {"aten::logsumexp", logsumexp, "logarithm of the sum of exponentials"},
  };
}

}  // namespace graft::ops
