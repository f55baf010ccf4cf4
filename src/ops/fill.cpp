// Operators that make a tensor out of numbers: fills, ranges, identities.
#include "ops/fill.h"

#include <cmath>

#include "ops/constant.h"
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

Fate lower_eye(Context& context, const OperatorRecord& op) {
  View out = context.output(op);
  StatementBuilder s(out.sizes);
  Value diagonal = ir::eq(s.axis(0), s.axis(1));
  context.emit(s.store(out, convert(diagonal.to(opmath(out.dtype)), out.dtype)));
  return Fate::fused();
}

bool is_contiguous(const View& view) {
  const auto plain = ir::contiguous_strides(view.sizes);
  for (size_t d = 0; d < plain.size(); ++d)
    if (view.sizes[d] != 1 && view.strides[d] != plain[d]) return false;
  return true;
}

/// ATen draws the same numbers for each dtype, so they are drawn as truth values, of a byte each,
/// and what follows makes of them what it needs.
Fate lower_bernoulli(Context& context, const OperatorRecord& op) {
  const c10::OperatorName& name = op.op.operator_name();
  if (name.name != "aten::bernoulli_" || name.overload_name != "float")
    return Fate::external("a probability for each element");
  const record::TensorInfo& self = context.tensor(op, 0);
  if (self.dtype == ScalarType::Bool) return Fate::external("truth values, as they are drawn");
  if (ir::numel(self.sizes) == 0) return Fate::fused();
  if (!is_contiguous(self)) return Fate::external("drawn in another order");
  const View drawn = context.temporary(self.sizes, ScalarType::Bool);
  ir::Extern call{{name.name, name.overload_name}, {}, {drawn}, {drawn}, {}, context.record};
  call.slots = {{OperandKind::Tensor, {}, {0}},
                {OperandKind::Constant, constant_of(op.inputs[1].constant), {}},
                {OperandKind::Constant, constant_of(op.inputs[2].constant), {}}};
  call.written = {drawn.storage};
  context.stored(drawn.storage);
  context.drawn();
  context.program.items.emplace_back(std::move(call));
  context.copy(drawn, self);
  return Fate::fused();
}

}  // namespace

std::vector<Row> fill_rows() {
  return {
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
      {"aten::bernoulli", lower_bernoulli,
       "in place, of one probability: of bytes drawn by ATen's generator"},
      {"aten::eye", lower_eye, "one on the diagonal, zero elsewhere"},
  };
}

}  // namespace graft::ops
