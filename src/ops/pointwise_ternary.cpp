// Choices between operands, and functions of three of them.
#include "ops/pointwise.h"

#include <limits>

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::Op;
using ir::Value;

Value bigger(Args& a) {
  if (a.is_bool()) return a[0] | a[1];
  a.either_zero();  // the vector loop takes the second, the scalar loop the first
  return maximum(a[0], a[1]);
}

Value smaller(Args& a) {
  if (a.is_bool()) return a[0] & a[1];
  a.either_zero();
  return minimum(a[0], a[1]);
}

/// A NaN whose quiet bit is clear: libm's fmax does not pass over it.
Value is_signalling(Value x) {
  bool single = x.type() == ScalarType::Float;
  Value bits = {x.builder, x.builder->statement.expr.node(
                               Op::Bitcast, single ? ScalarType::Int : ScalarType::Long, x.id)};
  Value quiet = x.builder->integer(single ? int64_t{1} << 22 : int64_t{1} << 51, bits.type());
  return ir::isnan(x) & ir::eq(bits & quiet, bits.like(0));
}

/// libm's fmax, fmin: the operand that is a number where the other is a quiet NaN.
Value pick(Args& a, Value first) {
  a.either_zero();
  Value x = a[0], y = a[1];
  Value picked = ir::select(first | ir::isnan(y), x, y);
  return ir::select(is_signalling(x) | is_signalling(y), x + y, picked);
}
Value fmax(Args& a) {
  return a.is_float() ? pick(a, ir::ge(a[0], a[1])) : bigger(a);
}
Value fmin(Args& a) {
  return a.is_float() ? pick(a, ir::le(a[0], a[1])) : smaller(a);
}

/// `low` and `high` are operands (-1: none). A Scalar bound compares as min_ps/max_ps do (NaN
/// passes), a tensor bound as minimum and maximum (NaN wins).
Value clamp_with(Args& a, int low, int high, bool nan_fills) {
  Value x = a[0];
  if (a.is_bool()) return a.refuse("clamp of Bool");
  bool by_number = (low < 0 || !a.is_tensor(low)) && (high < 0 || !a.is_tensor(high));
  if (by_number) {
    if (nan_fills &&
        ((low >= 0 && is_nan(a.constant(low))) || (high >= 0 && is_nan(a.constant(high)))))
      return x.like(std::numeric_limits<double>::quiet_NaN());
    if (low >= 0) x = at_least(x, a[low]);
    return high >= 0 ? at_most(x, a[high]) : x;
  }
  a.either_zero();
  if (low >= 0) x = maximum(x, a[low]);
  return high >= 0 ? minimum(x, a[high]) : x;
}

Value clamp(Args& a) {
  return clamp_with(a, a.has(1) ? 1 : -1, a.has(2) ? 2 : -1, a.has(1) && a.has(2));
}
Value clamp_min(Args& a) {
  return clamp_with(a, 1, -1, true);
}
Value clamp_max(Args& a) {
  return clamp_with(a, -1, 1, true);
}

/// start + w (end − start) near start, end − (1 − w)(end − start) near end, each by one fused
/// multiply-add.
Value lerp(Args& a) {
  if (!a.is_float()) return a.refuse("lerp of integers or truth values");
  Value start = a[0], end = a[1], weight = a.is_tensor(2) ? a[2] : a.unrounded(2);
  Value near = ir::lt(weight.op(Op::Abs), weight.like(0.5));
  // At weight 1 the body and the tail may give a zero different signs.
  const bool known = !a.varies("weight") && a.is_number(2);
  if (!known || a.constant(2)->toDouble() == 1) a.tail_differs();
  return contracted(a, ir::select(near, weight, weight - 1), end - start,
                    ir::select(near, start, end));
}

Value addcmul(Args& a) {
  if (a.is_bool()) return a.refuse("addcmul of Bool");
  Value product = a.number("value") * a[1];
  // The compiler contracts the vector body.
  return a.is_float() ? contracted(a, product, a[2], a[0]) : a[0] + product * a[2];
}

Value addcdiv(Args& a) {
  if (!a.is_float()) return a.refuse("addcdiv of integers");
  return a[0] + a.number("value") * a[1] / a[2];
}

Value masked_fill(Args& a) {
  // Eager reads the value on the host, and throws where no integer is near it.
  if (!a.is_float() && a.is_float_tensor(2)) return a.refuse("a floating tensor fills integers");
  return ir::select(a.truth(1), a[2], a[0]);
}

Value heaviside(Args& a) {
  if (a.is_bool()) return a[0] | a[1];
  Value x = a[0], zero = x.like(0);
  return ir::select(ir::eq(x, zero), a[1], ir::select(ir::gt(x, zero), x.like(1), zero));
}

}  // namespace

std::vector<PointwiseRow> ternary_rows() {
  using enum Promotion;
  using enum Exactness;
  return {
      {"aten::maximum", 2, Same, bigger, Domain::Any, Bits, "the larger; NaN if either is"},
      {"aten::minimum", 2, Same, smaller, Domain::Any, Bits, "the smaller; NaN if either is"},
      {"aten::fmax", 2, Same, fmax, Domain::Any, Bits, "the larger; the other where one is NaN"},
      {"aten::fmin", 2, Same, fmin, Domain::Any, Bits, "the smaller; the other where one is NaN"},
      {"aten::clamp", 3, Same, clamp, Domain::Any, Bits, "min(max(a, low), high)"},
      {"aten::clamp_min", 2, Same, clamp_min, Domain::Any, Bits, "max(a, low)"},
      {"aten::clamp_max", 2, Same, clamp_max, Domain::Any, Bits, "min(a, high)"},
      {"aten::where", 3, Same, [](Args& a) { return ir::select(a.truth(0), a[1], a[2]); },
       Domain::Any, Bits, "b where a, else c", nullptr, 0b110},
      {"aten::masked_fill", 3, Same, masked_fill, Domain::Any, Bits, "c where b, else a", nullptr,
       0b001},
      {"aten::lerp", 3, Same, lerp, Domain::Any, Bits, "a + c (b − a)", nullptr, 0b011},
      {"aten::addcmul", 3, Same, addcmul, Domain::Any, Bits, "a + value b c"},
      {"aten::addcdiv", 3, Same, addcdiv, Domain::Any, Bits, "a + value b / c"},
      {"aten::heaviside", 2, Same, heaviside, Domain::Any, Bits, "0 below 0, b at 0, 1 above"},
  };
}

}  // namespace graft::ops
