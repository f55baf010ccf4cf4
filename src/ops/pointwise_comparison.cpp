// Comparisons, classification, logic and bits.
#include "ops/pointwise.h"

#include <limits>

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::Op;
using ir::Value;

/// Operand k for an ordering: Bool orders as 0 < 1.
Value ordered(Args& a, int k) {
  return a.is_bool() ? a[k].to(ScalarType::Byte) : a[k];
}

/// Is operand k, in the common dtype, not zero? What is tiny in Double may be zero in Float.
Value truth_in_common(Args& a, int k) {
  return a[k].to(ScalarType::Bool);
}

template <Value compare(Value, Value)>
Value comparison(Args& a) {
  return compare(ordered(a, 0), ordered(a, 1));
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Value never(Args& a) {
  return ir::ne(a[0], a[0]);
}

/// Half and BFloat16 have no bitwise operators in ATen either; such a call never got recorded.
template <Op op>
Value bitwise(Args& a) {
  return a[0].op(op, a[1]);
}

/// By a number that is known, the count is part of the kernel: one instruction then.
template <Op op>
Value shift(Args& a) {
  const std::optional<c10::Scalar> count = a.varies(1) ? std::nullopt : a.known(1);
  const auto bits = static_cast<int64_t>(8 * c10::elementSize(a.compute));
  if (count && count->isIntegral(false) && count->toLong() >= 0 && count->toLong() < bits)
    return a[0].op(op, a.builder.integer(count->toLong(), a.compute));
  return a[0].op(op, a[1]);
}

}  // namespace

std::vector<PointwiseRow> comparison_rows() {
  using enum Promotion;
  using enum Exactness;
  return {
      {"aten::eq", 2, Compare, comparison<ir::eq>, Domain::Any, Bits, "a == b"},
      {"aten::ne", 2, Compare, comparison<ir::ne>, Domain::Any, Bits, "a != b"},
      {"aten::lt", 2, Compare, comparison<ir::lt>, Domain::Any, Bits, "a < b"},
      {"aten::le", 2, Compare, comparison<ir::le>, Domain::Any, Bits, "a <= b"},
      {"aten::gt", 2, Compare, comparison<ir::gt>, Domain::Any, Bits, "a > b"},
      {"aten::ge", 2, Compare, comparison<ir::ge>, Domain::Any, Bits, "a >= b"},
      {"aten::isnan", 1, Compare, never, Domain::Any, Bits, "a is NaN"},
      {"aten::isinf", 1, Compare,
       [](Args& a) {
         Value x = a[0];
         return a.is_float() ? ir::eq(x.op(Op::Abs), x.like(kInfinity)) : ir::ne(x, x);
       },
       Domain::Any, Bits, "a is ±∞"},
      {"aten::isposinf", 1, Compare,
       [](Args& a) { return a.is_float() ? ir::eq(a[0], a[0].like(kInfinity)) : never(a); },
       Domain::Any, Bits, "a is +∞"},
      {"aten::isneginf", 1, Compare,
       [](Args& a) { return a.is_float() ? ir::eq(a[0], a[0].like(-kInfinity)) : never(a); },
       Domain::Any, Bits, "a is −∞"},
      {"aten::signbit", 1, Compare,
       [](Args& a) {
         if (a.is_bool()) return never(a);
         Value x = a[0];
         if (!a.is_float()) return ir::lt(x, x.like(0));
         return ir::lt(x.like(1).op(Op::CopySign, x), x.like(0));
       },
       Domain::Any, Bits, "a's sign bit (true for −0)"},
      {"aten::logical_and", 2, Compare,
       [](Args& a) { return truth_in_common(a, 0) & truth_in_common(a, 1); }, Domain::Any, Bits,
       "a and b are not zero"},
      {"aten::logical_or", 2, Compare,
       [](Args& a) { return truth_in_common(a, 0) | truth_in_common(a, 1); }, Domain::Any, Bits,
       "a or b is not zero"},
      {"aten::logical_xor", 2, Compare,
       [](Args& a) { return truth_in_common(a, 0) ^ truth_in_common(a, 1); }, Domain::Any, Bits,
       "just one of a and b is not zero"},
      {"aten::logical_not", 1, Compare, [](Args& a) { return ~truth_in_common(a, 0); }, Domain::Any,
       Bits, "a is zero"},
      {"aten::bitwise_and", 2, Same, bitwise<Op::And>, Domain::Any, Bits, "a & b"},
      {"aten::bitwise_or", 2, Same, bitwise<Op::Or>, Domain::Any, Bits, "a | b"},
      {"aten::bitwise_xor", 2, Same, bitwise<Op::Xor>, Domain::Any, Bits, "a ^ b"},
      {"aten::bitwise_not", 1, Same, [](Args& a) { return ~a[0]; }, Domain::Any, Bits, "~a"},
      {"aten::bitwise_left_shift", 2, Same, shift<Op::Shl>, Domain::ShiftCount, Bits,
       "a << b, 0 out of range"},
      {"aten::bitwise_right_shift", 2, Same, shift<Op::Shr>, Domain::ShiftCount, Bits,
       "a >> b, arithmetic; the sign out of range"},
      {"aten::__lshift__", 2, Same, shift<Op::Shl>, Domain::ShiftCount, Bits, "a << b"},
      {"aten::__rshift__", 2, Same, shift<Op::Shr>, Domain::ShiftCount, Bits, "a >> b"},
      {"aten::__ilshift__", 2, Same, shift<Op::Shl>, Domain::ShiftCount, Bits, "a <<= b"},
      {"aten::__irshift__", 2, Same, shift<Op::Shr>, Domain::ShiftCount, Bits, "a >>= b"},
  };
}

}  // namespace graft::ops
