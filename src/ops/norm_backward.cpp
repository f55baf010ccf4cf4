// Gradients of softmax and layer norm: sums along the rows in Double, then one pass over the
// elements.
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

const char* kUnusual = "integers, no memory, or a result that overlaps an input";

/// The gradient and the forward result, over the gradient's axes; `in` is the gradient.
struct Backward {
  Reduced rows;
  View result;
  ScalarType compute = ScalarType::Float;
};

std::optional<Backward> read_backward(Context& ctx, const OperatorRecord& op) {
  Backward b;
  b.rows.in = at_least_1d(Context::view(ctx.tensor(op, 0)));
  b.result = at_least_1d(Context::view(ctx.tensor(op, 1)));
  b.rows.outs = {at_least_1d(Context::view(ctx.output(op)))};
  const View& out = b.rows.outs[0];
  if (b.rows.in.storage < 0 || b.result.storage < 0 || !ir::is_float(out.dtype))
    return std::nullopt;
  if (b.rows.in.sizes != out.sizes || b.result.sizes != out.sizes) return std::nullopt;
  if (overlaps(b.rows.in, {out}, /*in_step=*/true) || overlaps(b.result, {out}, true))
    return std::nullopt;
  b.compute = compute_type(b.rows.in.dtype);
  b.rows.axes.assign(out.sizes.size(), false);
  b.rows.axes[wrapped(integer(op, "dim", -1), out.sizes.size())] = true;
  b.rows.empty = ir::numel(out.sizes) == 0;
  return b;
}

/// (grad - sum(grad * result)) * result
Fate softmax_backward(Context& ctx, const OperatorRecord& op) {
  auto b = read_backward(ctx, op);
  if (!b) return Fate::external(kUnusual);
  if (b->rows.empty) return Fate::fused();
  ctx.exact = false;
  View sum = b->rows.per_row(ctx, b->compute);
  b->rows.emit(ctx, ReduceOp::Sum, ScalarType::Double, sum, [&](StatementBuilder& s, Value grad) {
    return grad.to(b->compute) * s.load(b->result).to(b->compute);
  });
  StatementBuilder s(b->rows.in.sizes);
  Value grad = s.load(b->rows.in).to(b->compute), result = s.load(b->result).to(b->compute);
  ctx.emit(s.store(b->rows.outs[0], (grad - s.load(sum)) * result));
  return Fate::fused();
}

/// grad - exp(result) * sum(grad)
Fate log_softmax_backward(Context& ctx, const OperatorRecord& op) {
  auto b = read_backward(ctx, op);
  if (!b) return Fate::external(kUnusual);
  if (b->rows.empty) return Fate::fused();
  ctx.exact = false;
  View sum = b->rows.per_row(ctx, b->compute);
  b->rows.emit(ctx, ReduceOp::Sum, ScalarType::Double, sum,
               [](StatementBuilder&, Value grad) { return grad; });
  StatementBuilder s(b->rows.in.sizes);
  Value grad = s.load(b->rows.in).to(b->compute);
  Value power = call(ir::Routine::InlineExp, s.load(b->result).to(b->compute));
  ctx.emit(s.store(b->rows.outs[0], fma(-power, s.load(sum), grad)));
  return Fate::fused();
}

/// A layer norm's gradient: x^ = (x - mean) * rstd, g = grad * weight.
struct LayerBackward {
  Reduced rows;  ///< `in` is the gradient
  View x, mean, rstd, weight;
  ScalarType compute = ScalarType::Float;

  Value normalized(StatementBuilder& s) const {
    return (s.load(x).to(compute) - s.load(mean).to(compute)) * s.load(rstd).to(compute);
  }
  Value weighted(StatementBuilder& s, Value grad) const {
    grad = grad.to(compute);
    return weight.storage >= 0 ? grad * s.load(weight).to(compute) : grad;
  }
};

/// out = rstd * (g - sum(g) / n - x^ * sum(g * x^) / n)
void input_gradient(Context& ctx, const LayerBackward& b, const View& out) {
  auto divided = [&](StatementBuilder& s, Value total) {
    return total / s.scalar(b.rows.count, ScalarType::Double);
  };
  View sum = b.rows.per_row(ctx, b.compute), slope = b.rows.per_row(ctx, b.compute);
  b.rows.emit(
      ctx, ReduceOp::Sum, ScalarType::Double, sum,
      [&](StatementBuilder& s, Value grad) { return b.weighted(s, grad); }, divided);
  b.rows.emit(
      ctx, ReduceOp::Sum, ScalarType::Double, slope,
      [&](StatementBuilder& s, Value grad) { return b.weighted(s, grad) * b.normalized(s); },
      divided);
  StatementBuilder s(b.rows.in.sizes);
  Value centred = b.weighted(s, s.load(b.rows.in)) - s.load(sum);
  Value value = fma(-b.normalized(s), s.load(slope), centred) * s.load(b.rstd).to(b.compute);
  ctx.emit(s.store(out, value));
}

/// Sums over the rows: the axes that are not normalised.
void parameter_gradient(Context& ctx, const LayerBackward& b, const View& out, bool of_weight) {
  Reduced columns = b.rows;
  columns.axes.flip();
  columns.emit(ctx, ReduceOp::Sum, ScalarType::Double, out, [&](StatementBuilder& s, Value grad) {
    return of_weight ? grad.to(b.compute) * b.normalized(s) : grad;
  });
}

Fate layer_norm_backward(Context& ctx, const OperatorRecord& op) {
  LayerBackward b;
  auto argument = [&](const char* name) {
    int k = argument_index(op, name);
    return k < 0 ? View{} : Context::view(ctx.tensor(op, static_cast<size_t>(k)));
  };
  b.rows.in = argument("grad_out");
  b.x = argument("input");
  b.mean = argument("mean");
  b.rstd = argument("rstd");
  b.weight = argument("weight");
  size_t rank = b.x.sizes.size(), normalized = integers(op, "normalized_shape").size();
  for (const View& view : {b.rows.in, b.x, b.mean, b.rstd})
    if (view.storage < 0 || view.sizes.size() != rank) return Fate::external(kUnusual);
  if (normalized == 0 || normalized >= rank) return Fate::external("an unusual normalized_shape");
  if (ir::numel(b.x.sizes) == 0 || !ir::is_float(b.x.dtype)) return Fate::external(kUnusual);
  std::vector<View> outs;
  for (size_t k = 0; k < op.outputs.size(); ++k) outs.push_back(Context::view(ctx.output(op, k)));
  for (const View& read : {b.rows.in, b.x, b.mean, b.rstd, b.weight})
    if (overlaps(read, outs)) return Fate::external(kOverlap);
  b.compute = compute_type(b.x.dtype);
  b.rows.axes.assign(rank, false);
  for (size_t a = rank - normalized; a < rank; ++a) {
    b.rows.axes[a] = true;
    b.rows.count *= b.x.sizes[a];
  }
  ctx.exact = false;
  if (outs[0].storage >= 0) input_gradient(ctx, b, outs[0]);
  if (outs[1].storage >= 0) parameter_gradient(ctx, b, outs[1], /*of_weight=*/true);
  if (outs[2].storage >= 0) parameter_gradient(ctx, b, outs[2], /*of_weight=*/false);
  return Fate::fused();
}

}  // namespace

std::vector<Row> norm_backward_rows() {
  return {
      {"aten::_softmax_backward_data", softmax_backward, "gradient of softmax"},
      {"aten::_log_softmax_backward_data", log_softmax_backward, "gradient of log_softmax"},
      {"aten::native_layer_norm_backward", layer_norm_backward,
       "gradient of layer norm, its weight and bias"},
  };
}

}  // namespace graft::ops
