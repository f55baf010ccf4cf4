// Gated linear units: one half of a tensor, times the sigmoid of the other. From ATen's
// GatedLinearUnit.cpp and Activation.cpp.
#include "ops/pointwise.h"
#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

struct Halves {
  View first, second;
};

Halves halves_of(const View& whole, const OperatorRecord& op) {
  const size_t axis = wrapped(integer(op, "dim", -1), whole.sizes.size());
  const int64_t count = whole.sizes[axis] / 2;
  return {narrow(whole, axis, 0, count), narrow(whole, axis, count, count)};
}

constexpr const char* kUnusualHalves = "an unusual input, or a result that overlaps it";

Fate glu(Context& ctx, const OperatorRecord& op) {
  const View in = ctx.tensor(op, 0), out = ctx.output(op);
  if (in.storage < 0 || in.sizes.empty() || !is_float(in.dtype) || out.dtype != in.dtype ||
      overlaps(in, {out}))
    return Fate::external(kUnusualHalves);
  if (ir::numel(out.sizes) == 0) return Fate::fused();
  ctx.approximate(in.dtype);
  const Halves x = halves_of(in, op);
  const ScalarType compute = opmath(in.dtype);
  StatementBuilder s(out.sizes);
  ctx.emit(s.store(out, s.load(x.first).to(compute) * logistic(s.load(x.second).to(compute))));
  return Fate::fused();
}

/// Of a sigmoid that is rounded to the dtype, as ATen keeps it in the result.
Fate glu_backward(Context& ctx, const OperatorRecord& op) {
  const View gradient = ctx.tensor(op, 0), in = ctx.tensor(op, 1), out = ctx.output(op);
  if (gradient.storage < 0 || in.storage < 0 || in.sizes.empty() || !is_float(in.dtype) ||
      gradient.dtype != in.dtype || out.dtype != in.dtype || overlaps(in, {out}) ||
      overlaps(gradient, {out}))
    return Fate::external(kUnusualHalves);
  if (ir::numel(gradient.sizes) == 0) return Fate::fused();
  ctx.approximate(in.dtype);
  const Halves x = halves_of(in, op), result = halves_of(out, op);
  const ScalarType compute = opmath(in.dtype);
  const View gate = ctx.temporary(gradient.sizes, in.dtype);
  StatementBuilder open(gradient.sizes), slope(gradient.sizes), through(gradient.sizes);
  auto read = [&](StatementBuilder& s, const View& view) { return s.load(view).to(compute); };
  ctx.emit(open.store(gate, logistic(read(open, x.second))));
  const Value a = read(slope, gate);
  ctx.emit(slope.store(result.second, (1 - a) * a * read(slope, x.first) * read(slope, gradient)));
  ctx.emit(through.store(result.first, read(through, gate) * read(through, gradient)));
  return Fate::fused();
}

}  // namespace

std::vector<Row> gated_rows() {
  return {
      {"aten::glu", glu, "one half, times the sigmoid of the other"},
      {"aten::glu_backward", glu_backward, "gradient through glu"},
  };
}

}  // namespace graft::ops
