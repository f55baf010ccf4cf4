// Operators that make a tensor out of numbers: fills, ranges, identities.
#include "ops/fill.h"

#include <cmath>
#include <limits>

#include "ops/constant.h"
#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

template <int value>
Fate lower_constant(Context& context, const OperatorRecord& op) {
  context.fill(context.output(op), value);
  return Fate::fused();
}

/// fill_, full, new_full, full_like, scalar_tensor: the schema calls the number differently.
Fate lower_fill(Context& context, const OperatorRecord& op) {
  View out = context.output(op);
  for (const char* name : {"value", "fill_value", "s"}) {
    int k = argument_index(op, name);
    if (k < 0) continue;
    if (auto value = number(op, name)) {
      context.fill(out, *value);
      return Fate::fused();
    }
    const auto& tensor = context.tensor(op, static_cast<size_t>(k));
    if (tensor.constant) {
      context.fill(out, *tensor.constant);
    } else {
      if (tensor.storage < 0) break;
      // Eager reads the value on the host, and throws where no integer is near it.
      if (is_float(tensor.dtype) && !is_float(out.dtype))
        return Fate::external("a floating tensor fills integers");
      context.copy(tensor, out);
    }
    return Fate::fused();
  }
  return Fate::external("no number to fill with");
}

/// Every value of the range fits `type` without rounding, so that it does not matter in which steps
/// it is computed (ATen's vector loop rounds each vector's first value).
bool is_exact_range(double start, double step, int64_t count, ScalarType type) {
  double limit = std::ldexp(1, find_dtype(type)->digits);
  double last = start + step * static_cast<double>(count);
  return start == std::trunc(start) && step == std::trunc(step) && std::abs(start) <= limit &&
         std::abs(last) <= limit;
}

Fate lower_arange(Context& context, const OperatorRecord& op) {
  View out = context.output(op);
  if (out.sizes.size() != 1) return Fate::external("out= tensor of more than one dimension");
  c10::Scalar start = number(op, "start").value_or(0), step = number(op, "step").value_or(1);
  ScalarType held = is_float(out.dtype) ? ScalarType::Double : ScalarType::Long;
  start = converted(start, held), step = converted(step, held);
  if (held == ScalarType::Double &&
      !is_exact_range(start.toDouble(), step.toDouble(), out.sizes[0], out.dtype))
    return Fate::external("values that its dtype rounds");
  StatementBuilder s(out.sizes);
  Value at = s.axis(0).to(held);
  context.emit(s.store(out, convert(s.scalar(start, held) + at * s.scalar(step, held), out.dtype)));
  return Fate::fused();
}

Fate lower_linspace(Context& context, const OperatorRecord& op) {
  const View out = context.output(op);
  const std::optional<c10::Scalar> start = number(op, "start"), end = number(op, "end");
  if (!start || !end || out.sizes.size() != 1) return Fate::external("an unusual form");
  const int64_t steps = out.sizes[0];
  if (steps == 0) return Fate::fused();
  if (steps == 1) {
    context.fill(out, *start);
    return Fate::fused();
  }
  // Integers are computed in fp64.
  const ScalarType type = is_float(out.dtype) ? out.dtype : ScalarType::Double;
  StatementBuilder s(out.sizes);
  const Value value = linspace_value(context, s, s.axis(0), steps, converted(*start, out.dtype),
                                     converted(*end, out.dtype), type);
  context.emit(s.store(out, convert(value, out.dtype)));
  return Fate::fused();
}

Fate lower_eye(Context& context, const OperatorRecord& op) {
  View out = context.output(op);
  StatementBuilder s(out.sizes);
  Value diagonal = ir::eq(s.axis(0), s.axis(1));
  context.emit(s.store(out, convert(diagonal.to(opmath(out.dtype)), out.dtype)));
  return Fate::fused();
}

constexpr const char* kDrawnOtherwise = "drawn in another order";
constexpr const char* kCheckedTooLate = "its check comes too late";

bool is_contiguous(const View& view) {
  const auto plain = ir::contiguous_strides(view.sizes);
  for (size_t d = 0; d < plain.size(); ++d)
    if (view.sizes[d] != 1 && view.strides[d] != plain[d]) return false;
  return true;
}

/// Numbers of ATen's generator, by an operator (self, parameter, generator). `drawn` is contiguous.
void draw(Context& context, const c10::OperatorName& by, const View& drawn,
          const c10::IValue& parameter, const c10::IValue& generator) {
  ir::Extern call{{by.name, by.overload_name}, {}, {drawn}, {drawn}, {}, context.record};
  call.slots = {{OperandKind::Tensor, {}, {0}},
                {OperandKind::Constant, constant_of(parameter), {}},
                {OperandKind::Constant, constant_of(generator), {}}};
  call.written = {drawn.storage};
  context.stored(drawn.storage);
  context.program.items.emplace_back(std::move(call));
}

/// Truth values of a byte each, true with that probability.
void draw_truths(Context& context, const View& drawn, const c10::IValue& probability,
                 const c10::IValue& generator) {
  draw(context, {"aten::bernoulli_", "float"}, drawn, probability, generator);
}

/// ATen draws the same numbers for each dtype, so they are drawn as truth values, and what follows
/// makes of them what it needs.
Fate lower_bernoulli(Context& context, const OperatorRecord& op) {
  const c10::OperatorName& name = op.op.operator_name();
  if (name.name != "aten::bernoulli_" || name.overload_name != "float")
    return Fate::external("a probability for each element");
  const record::TensorInfo& self = context.tensor(op, 0);
  if (self.dtype == ScalarType::Bool) return Fate::external("truth values, as they are drawn");
  if (ir::numel(self.sizes) == 0) return Fate::fused();
  if (!is_contiguous(self)) return Fate::external(kDrawnOtherwise);
  const View drawn = context.temporary(self.sizes, ScalarType::Bool);
  draw_truths(context, drawn, op.inputs[1].constant, op.inputs[2].constant);
  context.copy(drawn, self);
  return Fate::fused();
}

/// Eager rounds what it keeps before it scales that in place, by a number that it rounds, too.
Fate lower_dropout(Context& context, const OperatorRecord& op) {
  const View in = context.tensor(op, 0), out = context.output(op), mask = context.output(op, 1);
  const std::optional<c10::Scalar> dropped = number(op, "p");
  if (in.storage < 0 || !is_float(in.dtype) || out.dtype != in.dtype ||
      mask.dtype != ScalarType::Bool || !dropped || ir::numel(in.sizes) == 0)
    return Fate::external("an unusual input");
  if (!is_contiguous(in) || !is_contiguous(mask)) return Fate::external(kDrawnOtherwise);
  if (overlaps(in, {out, mask})) return Fate::external(kOverlap);
  const c10::IValue* trains = constant(op, "train");
  if (trains && trains->isBool() && !trains->toBool()) {
    context.fill(mask, 1);
    context.copy(in, out);
    return Fate::fused();
  }
  const double kept = 1. - dropped->toDouble(), scale = kept == 0 ? 0. : 1. / kept;
  draw_truths(context, mask, kept, {});
  StatementBuilder s(out.sizes);
  const ScalarType compute = opmath(in.dtype);
  const Value x = s.load(in).to(compute) * s.load(mask).to(compute);
  context.emit(
      s.store(out, x.to(in.dtype).to(compute) * s.scalar(converted(scale, in.dtype), compute)));
  return Fate::fused();
}

/// One place of each row, as ATen finds it: where the weight over a number drawn from the
/// exponential distribution is largest.
Fate lower_multinomial(Context& context, const OperatorRecord& op) {
  const View in = context.tensor(op, 0), out = context.output(op);
  if (in.storage < 0 || out.storage < 0) return Fate::external("an unusual input");
  if (in.dtype != ScalarType::Float && in.dtype != ScalarType::Double)
    return Fate::external("weights of 16 bits");
  if (integer(op, "num_samples", 0) != 1) return Fate::external("several places of a row");
  if (in.sizes.empty() || ir::numel(in.sizes) == 0) return Fate::external("nothing to draw from");
  if (!is_contiguous(in)) return Fate::external(kDrawnOtherwise);
  const bool is_checked = context.check(in.sizes, [&](StatementBuilder& s) {
    const Value x = s.load(in);
    const Value infinity = s.constant(std::numeric_limits<double>::infinity(), in.dtype);
    return ir::ge(x, infinity) | ir::ne(x, x) | ir::lt(x, s.constant(0, in.dtype));
  });
  if (!is_checked) return Fate::external(kCheckedTooLate);
  // Of weights that are zeros alone there is none to take.
  std::vector<bool> last(in.sizes.size(), false);
  last.back() = true;
  const View empty = context.temporary({ir::numel(out.sizes)}, ScalarType::Bool),
             drawn = context.temporary(in.sizes, in.dtype);
  const auto per_row = [&](View row) {
    row.sizes = in.sizes;
    row.strides.assign(in.sizes.size(), 0);
    if (in.sizes.size() > 1) row.strides[0] = 1;
    return row;
  };
  {
    StatementBuilder s(in.sizes);
    const Value zero = ir::eq(s.load(in), s.constant(0, in.dtype));
    context.emit(
        s.store(per_row(empty), s.reduce(ir::ReduceOp::And, zero, last, ScalarType::Bool)));
  }
  if (!context.check(empty.sizes, [&](StatementBuilder& s) { return s.load(empty); }))
    return Fate::external(kCheckedTooLate);
  const int generator = argument_index(op, "generator");
  draw(context, {"aten::exponential_", ""}, drawn, 1.0,
       op.inputs[static_cast<size_t>(generator)].constant);
  StatementBuilder s(in.sizes);
  context.emit(s.store(per_row(out), s.reduce(ir::ReduceOp::ArgMax, s.load(in) / s.load(drawn),
                                              last, ScalarType::Long)));
  return Fate::fused();
}

}  // namespace

std::vector<Row> fill_rows() {
  std::vector<Row> rows = {
      {"aten::fill", lower_fill, "one number everywhere", true},
      {"aten::full", lower_fill, "one number everywhere", true},
      {"aten::full_like", lower_fill, "one number everywhere", true},
      {"aten::new_full", lower_fill, "one number everywhere", true},
      {"aten::scalar_tensor", lower_fill, "a number", true},
      {"aten::zero", lower_constant<0>, "zero everywhere"},
      {"aten::zeros", lower_constant<0>, "zero everywhere"},
      {"aten::zeros_like", lower_constant<0>, "zero everywhere"},
      {"aten::new_zeros", lower_constant<0>, "zero everywhere"},
      {"aten::ones", lower_constant<1>, "one everywhere"},
      {"aten::ones_like", lower_constant<1>, "one everywhere"},
      {"aten::new_ones", lower_constant<1>, "one everywhere"},
      {"aten::arange", lower_arange, "start + step i, where the dtype holds every value"},
      {"aten::linspace", lower_linspace,
       "start + step i, from the middle on end − step (n − 1 − i)"},
      {"aten::bernoulli", lower_bernoulli,
       "in place, of one probability: of bytes drawn by ATen's generator"},
      {"aten::native_dropout", lower_dropout,
       "likewise: a mask so drawn, and what it keeps, scaled"},
      {"aten::multinomial", lower_multinomial,
       "one place of each row: of numbers drawn by ATen's generator"},
      {"aten::eye", lower_eye, "one on the diagonal, zero elsewhere"},
  };
  for (Row& row : rows)
    row.takes_complex =
        row.lower == lower_fill || row.lower == lower_constant<0> || row.lower == lower_constant<1>;
  return rows;
}

// From both ends to the middle. 16-bit types round each step, as their arithmetic does.
Value linspace_value(const Context& context, StatementBuilder& s, Value at, int64_t steps,
                     const c10::Scalar& start, const c10::Scalar& end, ScalarType dtype) {
  const ScalarType compute = opmath(dtype);
  auto rounded = [&](const c10::Scalar& value) { return converted(value, dtype).toDouble(); };
  const double step = rounded(rounded(rounded(end) - rounded(start)) / rounded(steps - 1));
  const bool fused = context.settings.target.fma && dtype == compute;
  auto round = [&](Value value) { return value.to(dtype).to(compute); };
  auto from = [&](const c10::Scalar& first, double by, Value count) {
    const Value first_value = s.scalar(rounded(first), compute), each = s.scalar(by, compute),
                times = round(count.to(compute));
    return fused ? multiply_add(each, times, first_value, true) : first_value + round(each * times);
  };
  const Value last = s.scalar(steps - 1, ScalarType::Long);
  return select(lt(at, s.scalar(steps / 2, ScalarType::Long)), from(start, step, at),
                from(end, -step, last - at));
}

}  // namespace graft::ops
