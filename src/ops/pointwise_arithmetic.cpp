// Sums, products, quotients, remainders and powers.
#include "ops/pointwise.h"

#include <cmath>
#include <limits>

namespace graft::ops {

namespace {

using ir::Op;
using ir::Routine;
using ir::Value;

bool is_one(const std::optional<c10::Scalar>& number) {
  return !number || (number->isFloatingPoint() ? number->toDouble() == 1 : number->toLong() == 1);
}

/// Operand `first` + sign * alpha * the other one; sign: -1 subtracts. ATen has one fused
/// multiply-add, but rounds the product where it goes element by element: on bf16 always, otherwise
/// in the tail of a loop in which the product stays the same.
Value plus(Args& a, int first, double sign) {
  Value x = a[first], y = a[1 - first];
  bool unit = !a.varies("alpha") && is_one(a.constant("alpha"));
  if (a.is_bool())
    return converted(a.constant("alpha").value_or(1), c10::ScalarType::Bool).toLong() != 0 ? x | y
                                                                                           : x;
  if (unit) return sign > 0 ? x + y : x - y;
  Value alpha = a.rounded("alpha");
  if (sign < 0) alpha = -alpha;
  if (!a.is_float()) return x + alpha * y;
  if (!a.has_fma()) return x + a.round(alpha * y);
  bool by_vector = a.goes_by_vector();
  if (a.is_reduced() && !by_vector) return x + a.round(alpha * y);
  if (by_vector && (a.is_reduced() || a.inner_stride(1 - first) == 0)) a.tail_differs();
  return ir::fma(y, alpha, x);
}

Value mul(Args& a) {
  if (a.is_bool()) return a[0] & a[1];
  // mul_ by a Scalar swaps the operands, and ATen's kernel keeps only the second unrounded.
  bool swapped = a.is_in_place() && !a.is_tensor(1);
  return a[0] * (swapped ? a[1] : a.unrounded(1));
}

/// Where an integer division has a zero divisor: eager throws there.
Value zero_divisor(Args& a) {
  if (a.is_float() || a.is_number(1)) return {};
  Value divisor = a[1];
  return ir::eq(divisor, divisor.like(0));
}

/// Python's floor division of floats, as ATen's div_floor_floating_vec has it. `r` rounds where a
/// kernel on bf16 tensors keeps each step in bf16.
template <class Round>
Value floor_quotient(Value a, Value b, Round r) {
  Value zero = a.like(0), one = a.like(1);
  Value mod = r(ir::call(Routine::ScalarFmod, a, b));
  Value div = r(r(a - mod) / b);
  Value adjust = ir::ne(mod, zero) & (ir::lt(b, zero) ^ ir::lt(mod, zero));
  div = ir::select(adjust, r(div - one), div);
  Value floor = div.op(Op::Floor);
  floor = ir::select(ir::gt(r(div - floor), zero.like(0.5)), r(floor + one), floor);
  Value basic = r(a / b);
  floor = ir::select(ir::eq(div, zero), zero.op(Op::CopySign, basic), floor);
  return ir::select(ir::eq(b, zero), basic, floor);
}

Value floor_divide(Args& a) {
  if (a.is_bool()) return a.refuse("floor division of Bool");
  Value x = a[0];
  if (!a.is_float()) {
    Value y = a[1];
    Value quotient = x.op(Op::IDiv, y);
    if (a.common == c10::ScalarType::Byte) return quotient;
    Value zero = x.like(0);
    Value inexact = ir::ne(x.op(Op::IRem, y), zero);
    return ir::select((ir::lt(x, zero) ^ ir::lt(y, zero)) & inexact, quotient - x.like(1),
                      quotient);
  }
  bool stepwise = a.is_reduced() && !a.is_single(1);
  return floor_quotient(x, a.unrounded(1), [&](Value v) { return stepwise ? a.round(v) : v; });
}

Value trunc_divide(Args& a) {
  if (a.is_bool()) return a.refuse("truncating division of Bool");
  if (!a.is_float()) return a[0].op(Op::IDiv, a[1]);
  Value quotient = a[0] / a.unrounded(1);
  if (!a.is_single(1)) quotient = a.round(quotient);
  return quotient.op(Op::Trunc);
}

Value divide(Args& a) {
  std::string mode = a.text("rounding_mode");
  if (mode == "floor") return floor_divide(a);
  if (mode == "trunc") return trunc_divide(a);
  return a[0] / a.unrounded(1);
}

Value divide_raises(Args& a) {
  return a.text("rounding_mode").empty() ? Value{} : zero_divisor(a);
}

Value remainder(Args& a) {
  Value x = a[0], y = a[1], zero = x.like(0);
  Value mod = a.is_float() ? ir::call(Routine::ScalarFmod, x, y) : x.op(Op::IRem, y);
  Value adjust = ir::ne(mod, zero) & (ir::lt(y, zero) ^ ir::lt(mod, zero));
  return ir::select(adjust, mod + y, mod);
}

Value fmod(Args& a) {
  return a.is_float() ? ir::call(Routine::ScalarFmod, a[0], a[1]) : a[0].op(Op::IRem, a[1]);
}

/// x to a constant integer power; integer products wrap, so their order is free.
Value integer_power(Value x, int64_t exponent) {
  Value result = x.like(1);
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = result * x;
    if (exponent > 1) x = x * x;
  }
  return result;
}

/// Where fp32 holds another number than the exponent, ATen's vector loop takes that one and its
/// scalar loop the exponent itself. An integer in its place gives results another sign, or results
/// at all, where the base is negative.
bool rounds_to_integer(Args& a, double exponent) {
  if (a.common != c10::ScalarType::Float) return false;
  float rounded = static_cast<float>(exponent);
  return static_cast<double>(rounded) != exponent && std::isfinite(rounded) &&
         rounded == std::trunc(rounded);
}

/// ATen special-cases constant exponents; Half has only some of the cases.
Value power_of_constant(Args& a, const c10::Scalar& number) {
  Value x = a[0];
  if (!a.is_float()) {
    if (a.is_bool()) return a.refuse("power of Bool");
    int64_t exponent = converted(number, a.common).toLong();
    return exponent < 0 ? a.refuse("negative integer power") : integer_power(x, exponent);
  }
  double exponent = converted(number, c10::ScalarType::Double).toDouble();
  if (exponent == 0) return x.like(1);
  if (exponent == 1) return x;
  if (a.common != c10::ScalarType::Half) {
    if (exponent == 0.5) return library_root(a, x);
    if (exponent == -1) return 1 / x;
    if (exponent == -0.5) return reciprocal_of_root(a, x);
    // The kernel of BFloat16 compares what it computes with: 3.01 is 3 there.
    double used = a.is_reduced() ? converted(number, a.common).toDouble() : exponent;
    if (used == 2) return x * x;
    if (used == 3) return a.round(x * x) * x;
    if (used == -2) return 1 / a.round(x * x);
  }
  if (rounds_to_integer(a, exponent)) return a.refuse("fp32 rounds the exponent to an integer");
  a.tail_differs();
  return ir::call(Routine::VectorPow, x, a[1]);
}

Value power(Args& a) {
  if (!a.has(1)) return a.refuse("power without exponent");
  // A tensor that wraps a number is a tensor to ATen here: only the Scalar overload has the special
  // cases.
  if (auto number = a.constant(1); number && !a.is_tensor(1)) return power_of_constant(a, *number);
  if (auto base = a.constant(0); base && !a.is_tensor(0) && is_one(base)) return a[1].like(1);
  // Eager's loop over one element is the scalar one.
  if (a.is_float() && a.makes_one()) return ir::call(Routine::ScalarPow, a[0], a[1]);
  if (!a.is_float()) return a.refuse("integer power with a tensor exponent");
  a.tail_differs();
  return ir::call(Routine::VectorPow, a[0], a[1]);
}

/// Of equal infinities their own value, not NaN.
Value logaddexp(Args& a) {
  const Value most = maximum(a[0], a[1]), apart = (a[0] - a[1]).op(Op::Abs);
  const Value both = most + ir::call(Routine::VectorLog1p, ir::call(Routine::VectorExp, -apart));
  const Value infinite =
      ir::eq(a[0].op(Op::Abs), a[0].like(std::numeric_limits<double>::infinity()));
  return ir::select(ir::eq(a[0], a[1]) & infinite, a[0], both);
}

}  // namespace

std::vector<PointwiseRow> arithmetic_rows() {
  using enum Promotion;
  using enum Exactness;
  return {
      {"aten::add", 2, Same, [](Args& a) { return plus(a, 0, 1); }, Domain::Any, Bits,
       "a + alpha * b (one rounding if alpha is not 1: *body* on bf16, f16, and a broadcast b)"},
      {"aten::sub", 2, Same, [](Args& a) { return plus(a, 0, -1); }, Domain::Any, Bits,
       "a - alpha * b, likewise"},
      {"aten::rsub", 2, Same, [](Args& a) { return plus(a, 1, -1); }, Domain::Any, Bits,
       "b - alpha * a, likewise"},
      {"aten::mul", 2, Same, mul, Domain::Any, Bits, "a * b"},
      {"aten::div", 2, Divide, divide, Domain::Divisor, Bits, "a / b, or its trunc or floor",
       divide_raises},
      {"aten::floor_divide", 2, Same, floor_divide, Domain::Divisor, Bits, "floor(a / b)",
       zero_divisor},
      {"aten::remainder", 2, Same, remainder, Domain::Divisor, Close,
       "remainder with the divisor's sign", zero_divisor},
      {"aten::fmod", 2, Same, fmod, Domain::Divisor, Close, "remainder with the dividend's sign",
       zero_divisor},
      {"aten::pow",
       2,
       Same,
       power,
       Domain::Power,
       {Bits, 45},
       "a to the power b; constant ±0.5, ±1, ±2, 3 without pow(), others *body*"},
      {"aten::atan2", 2, Float, [](Args& a) { return ir::call(Routine::VectorAtan2, a[0], a[1]); },
       Domain::Any, Body, "angle of (b, a)"},
      {"aten::logaddexp", 2, Float, logaddexp, Domain::Small, {Body, 4}, "log(exp(a) + exp(b))"},
      {"aten::hypot", 2, Same, [](Args& a) { return ir::call(Routine::VectorHypot, a[0], a[1]); },
       Domain::Any, Body, "sqrt(a² + b²)"},
      {"aten::copysign", 2, Float, [](Args& a) { return a[0].op(Op::CopySign, a[1]); }, Domain::Any,
       Bits, "a with b's sign"},
      {"aten::xlogy", 2, Float,
       [](Args& a) {
         Value x = a[0], y = a[1];
         Value product = x * a.round(ir::call(Routine::ScalarLog, y));
         return ir::select(ir::isnan(y), y, ir::select(ir::eq(x, x.like(0)), x.like(0), product));
       },
       Domain::Positive, Bits, "a * log(b), 0 where a is 0"},
      {"aten::deg2rad", 1, Float,
       [](Args& a) { return a[0] * a.scalar(0.017453292519943295769236907684886); }, Domain::Any,
       Bits, "a * π / 180"},
      {"aten::rad2deg", 1, Float,
       [](Args& a) { return a[0] * a.scalar(57.295779513082320876798154814105); }, Domain::Any,
       Bits, "a * 180 / π"},
  };
}

}  // namespace graft::ops
