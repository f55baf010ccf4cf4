// Reductions that pick an element, or answer yes or no: exact in every order, but for the sign of a
// zero.
#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::ReduceOp;
using ir::StatementBuilder;
using ir::Value;
using record::OperatorRecord;

constexpr const char* kNothing = "there is nothing to choose from";

/// out = the largest (smallest) element, NaN before all. Of truth values that is their disjunction
/// (conjunction).
void choose_value(Context& ctx, const Reduced& r, bool most, const ir::View& out) {
  ScalarType type = r.in.dtype;
  if (type == ScalarType::Bool) {
    r.emit(ctx, most ? ReduceOp::Or : ReduceOp::And, type, out,
           [](StatementBuilder&, Value x) { return x; });
    return;
  }
  ScalarType compute = opmath(type);
  ctx.either_zero |= is_float(type);  // eager takes the first or the last
  r.emit(ctx, most ? ReduceOp::Max : ReduceOp::Min, compute, out,
         [&](StatementBuilder&, Value x) { return x.to(compute); });
}

/// out = the first place where it stands.
void choose_place(Context& ctx, const Reduced& r, bool most, const ir::View& out) {
  ScalarType compute = r.in.dtype == ScalarType::Bool ? ScalarType::Byte : opmath(r.in.dtype);
  r.emit(ctx, most ? ReduceOp::ArgMax : ReduceOp::ArgMin, ScalarType::Long, out,
         [&](StatementBuilder&, Value x) { return x.to(compute); });
}

Fate extreme(Context& ctx, const OperatorRecord& op, bool most) {
  auto r = read_reduction(ctx, op);
  if (!r) return Fate::external(kReducedShape);
  if (r->empty) return ir::numel(r->outs[0].sizes) == 0 ? Fate::fused() : Fate::external(kNothing);
  choose_value(ctx, *r, most, r->outs[0]);
  if (r->outs.size() > 1) choose_place(ctx, *r, most, r->outs[1]);
  return Fate::fused();
}

Fate largest(Context& ctx, const OperatorRecord& op) {
  return extreme(ctx, op, true);
}
Fate smallest(Context& ctx, const OperatorRecord& op) {
  return extreme(ctx, op, false);
}

Fate aminmax(Context& ctx, const OperatorRecord& op) {
  auto r = read_reduction(ctx, op);
  if (!r) return Fate::external(kReducedShape);
  if (r->empty) return ir::numel(r->outs[0].sizes) == 0 ? Fate::fused() : Fate::external(kNothing);
  choose_value(ctx, *r, false, r->outs[0]);
  choose_value(ctx, *r, true, r->outs[1]);
  return Fate::fused();
}

Fate place(Context& ctx, const OperatorRecord& op, bool most) {
  auto r = read_reduction(ctx, op);
  if (!r) return Fate::external(kReducedShape);
  if (r->empty) return ir::numel(r->outs[0].sizes) == 0 ? Fate::fused() : Fate::external(kNothing);
  choose_place(ctx, *r, most, r->outs[0]);
  return Fate::fused();
}

Fate argmax(Context& ctx, const OperatorRecord& op) {
  return place(ctx, op, true);
}
Fate argmin(Context& ctx, const OperatorRecord& op) {
  return place(ctx, op, false);
}

/// The largest (smallest) element up to each place, and the last place where it stands; a NaN stays
/// the largest (smallest), at the place of the newest.
Fate running(Context& ctx, const OperatorRecord& op, bool most) {
  const ir::View in = at_least_1d(ctx.tensor(op, 0)), out = at_least_1d(ctx.output(op, 0)),
                 places = at_least_1d(ctx.output(op, 1));
  if (in.storage < 0 || in.dtype == ScalarType::Bool) return Fate::external("truth values");
  if (overlaps(in, {out, places})) return Fate::external(kOverlap);
  if (ir::numel(in.sizes) == 0) return Fate::fused();
  ctx.either_zero |= is_float(in.dtype);  // of equal ones a scan keeps the first, eager the last
  const ScalarType compute = opmath(in.dtype);
  std::vector<bool> axes(in.sizes.size(), false);
  const size_t along = wrapped(integer(op, "dim", 0), axes.size());
  axes[along] = true;
  {
    StatementBuilder s(in.sizes);
    const Value x = s.load(in).to(compute);
    ctx.emit(s.store(out, s.reduce(most ? ReduceOp::Max : ReduceOp::Min, x, axes, compute, true)));
  }
  StatementBuilder s(in.sizes);
  const Value x = s.load(in).to(compute), here = s.axis(static_cast<int>(along));
  Value newest = eq(x, s.load(out).to(compute));
  if (is_float(in.dtype)) newest = newest | isnan(x);
  ctx.emit(s.store(places, s.reduce(ReduceOp::Max, select(newest, here, here.like(0)), axes,
                                    ScalarType::Long, true)));
  return Fate::fused();
}

Fate cummax(Context& ctx, const OperatorRecord& op) {
  return running(ctx, op, true);
}
Fate cummin(Context& ctx, const OperatorRecord& op) {
  return running(ctx, op, false);
}

/// any and all; the result is Bool, or Byte 0 and 1 for Byte inputs.
Fate quantifier(Context& ctx, const OperatorRecord& op, ReduceOp reduce) {
  const c10::IValue* dims = constant(op, "dim");
  if (dims != nullptr && dims->isList() && integers(op, "dim").empty())
    return Fate::external("an empty list of dimensions reduces nothing");
  auto r = read_reduction(ctx, op);
  if (!r) return Fate::external(kReducedShape);
  if (r->empty) {
    ctx.fill(r->outs[0], reduce == ReduceOp::And ? 1 : 0);
    return Fate::fused();
  }
  r->emit(ctx, reduce, ScalarType::Bool, r->outs[0],
          [](StatementBuilder&, Value x) { return x.to(ScalarType::Bool); });
  return Fate::fused();
}

Fate any(Context& ctx, const OperatorRecord& op) {
  return quantifier(ctx, op, ReduceOp::Or);
}
Fate all(Context& ctx, const OperatorRecord& op) {
  return quantifier(ctx, op, ReduceOp::And);
}

}  // namespace

std::vector<Row> select_rows() {
  return {
      {"aten::amax", largest, "largest element"},
      {"aten::amin", smallest, "smallest element"},
      {"aten::max", largest, "largest element, with its first place when over one dimension"},
      {"aten::min", smallest, "smallest element, likewise"},
      {"aten::aminmax", aminmax, "smallest and largest element"},
      {"aten::argmax", argmax, "first place of the largest element"},
      {"aten::argmin", argmin, "first place of the smallest element"},
      {"aten::cummax", cummax, "running largest element and its last place: scans"},
      {"aten::cummin", cummin, "running smallest element and its last place: scans"},
      {"aten::any", any, "is one element not zero"},
      {"aten::all", all, "are all elements not zero"},
  };
}

}  // namespace graft::ops
