#include "support/scalars.h"

#include <c10/util/TypeCast.h>

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

namespace graft::test {

namespace {

using ir::Op;

template <class T>
constexpr bool kIsReal = std::is_same_v<T, float> || std::is_same_v<T, double>;
template <class T>
constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;

[[noreturn]] void fail(const ir::Node& node, c10::ScalarType type) {
  throw std::logic_error("interpreter: " + std::string(info(node.op).name) + " of " +
                         c10::toString(type));
}

template <class T>
bool is_nan(T value) {
  if constexpr (std::is_integral_v<T>)
    return false;
  else
    return std::isnan(static_cast<double>(value));
}

template <class T>
T larger(T a, T b) {
  return is_nan(a) ? a : is_nan(b) ? b : a < b ? b : a;
}
template <class T>
T smaller(T a, T b) {
  return is_nan(a) ? a : is_nan(b) ? b : b < a ? b : a;
}

bool compare(Op op, auto a, auto b) {
  switch (op) {
    case Op::Eq:
      return a == b;
    case Op::Ne:
      return a != b;
    case Op::Lt:
      return a < b;
    case Op::Le:
      return a <= b;
    case Op::Gt:
      return a > b;
    case Op::Ge:
      return a >= b;
    default:
      throw std::logic_error("interpreter: no comparison");
  }
}

template <class T>
T real(const ir::Node& node, T a, T b, T c) {
  switch (node.op) {
    case Op::Add:
      return a + b;
    case Op::Sub:
      return a - b;
    case Op::Mul:
      return a * b;
    case Op::Div:
      return a / b;
    case Op::Neg:
      return -a;
    case Op::Abs:
      return std::fabs(a);
    case Op::Max:
      return larger(a, b);
    case Op::Min:
      return smaller(a, b);
    case Op::Fma:
      return std::fma(a, b, c);
    case Op::Sqrt:
      return std::sqrt(a);
    case Op::Floor:
      return std::floor(a);
    case Op::Ceil:
      return std::ceil(a);
    case Op::Trunc:
      return std::trunc(a);
    case Op::RoundEven:
      return std::nearbyint(a);
    case Op::CopySign:
      return std::copysign(a, b);
    default:
      fail(node, node.type);
  }
}

template <class T>
T quotient(T a, T b) {
  if (b == 0) return 0;
  if (std::is_signed_v<T> && b == static_cast<T>(-1))
    return static_cast<T>(-static_cast<uint64_t>(a));
  return static_cast<T>(a / b);
}

template <class T>
T integral(const ir::Node& node, T a, T b) {
  // Arithmetic modulo 2^64 and a cut to T's width: the same bits as arithmetic modulo 2^width.
  auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  constexpr auto kWidth = static_cast<T>(8 * sizeof(T));
  bool count_fits = b >= 0 && b < kWidth;
  switch (node.op) {
    case Op::Add:
      return static_cast<T>(ua + ub);
    case Op::Sub:
      return static_cast<T>(ua - ub);
    case Op::Mul:
      return static_cast<T>(ua * ub);
    case Op::Neg:
      return static_cast<T>(-ua);
    case Op::Abs:
      return a < 0 ? static_cast<T>(-ua) : a;
    case Op::Max:
      return larger(a, b);
    case Op::Min:
      return smaller(a, b);
    case Op::IDiv:
      return quotient(a, b);
    case Op::IRem:
      return b == 0 ? T{0} : static_cast<T>(ua - static_cast<uint64_t>(quotient(a, b)) * ub);
    case Op::Shl:
      return count_fits ? static_cast<T>(ua << b) : T{0};
    case Op::Shr:
      return count_fits ? static_cast<T>(a >> b) : static_cast<T>(a < 0 ? -1 : 0);
    case Op::And:
      return static_cast<T>(a & b);
    case Op::Or:
      return static_cast<T>(a | b);
    case Op::Xor:
      return static_cast<T>(a ^ b);
    case Op::Not:
      return static_cast<T>(~a);
    default:
      fail(node, node.type);
  }
}

bool logical(const ir::Node& node, bool a, bool b) {
  switch (node.op) {
    case Op::And:
      return a && b;
    case Op::Or:
      return a || b;
    case Op::Xor:
      return a != b;
    case Op::Not:
      return !a;
    default:
      fail(node, node.type);
  }
}

}  // namespace

Bits literal(int64_t payload, c10::ScalarType type) {
  if (is_float(type)) return convert(static_cast<Bits>(payload), c10::ScalarType::Double, type);
  return convert(static_cast<Bits>(payload), c10::ScalarType::Long, type);
}

Bits convert(Bits value, c10::ScalarType from, c10::ScalarType to) {
  if (from == to) return value;
  return with_type(from, [&](auto f) {
    return with_type(to, [&](auto t) {
      using From = decltype(f);
      using To = decltype(t);
      return to_bits(c10::convert<To>(from_bits<From>(value)));
    });
  });
}

Bits evaluate(const ir::Node& node, c10::ScalarType operand, Bits a, Bits b, Bits c) {
  switch (node.op) {
    case Op::Select:
      return (a & 0xff) != 0 ? b : c;
    case Op::Cast:
      return convert(a, operand, node.type);
    case Op::Bitcast:
      return a;
    case Op::Call:
      return call_routine(static_cast<ir::Routine>(node.payload), node.type, a, b);
    default:
      break;
  }
  return with_type(operand, [&](auto zero) -> Bits {
    using T = decltype(zero);
    T x = from_bits<T>(a), y = from_bits<T>(b);
    if (is_compared(node.op)) return compare(node.op, x, y);
    if constexpr (kIsReal<T>) return to_bits(real<T>(node, x, y, from_bits<T>(c)));
    if constexpr (kIsInteger<T>) return to_bits(integral<T>(node, x, y));
    if constexpr (std::is_same_v<T, bool>) return logical(node, x, y);
    fail(node, operand);
  });
}

Bits identity(ir::ReduceOp op, c10::ScalarType type) {
  return with_type(type, [&](auto zero) -> Bits {
    using T = decltype(zero);
    using Limits = std::numeric_limits<T>;
    switch (op) {
      case ir::ReduceOp::Sum:
      case ir::ReduceOp::Or:
        return 0;
      case ir::ReduceOp::Prod:
        return to_bits(static_cast<T>(1));
      case ir::ReduceOp::Max:
        if constexpr (Limits::has_infinity) return to_bits(static_cast<T>(-Limits::infinity()));
        return to_bits(Limits::lowest());
      case ir::ReduceOp::Min:
        if constexpr (Limits::has_infinity) return to_bits(Limits::infinity());
        return to_bits(Limits::max());
      case ir::ReduceOp::And:
        return std::is_same_v<T, bool> ? Bits{1} : to_bits(static_cast<T>(-1));
      default:
        throw std::logic_error("interpreter: no identity");
    }
  });
}

Bits accumulate(ir::ReduceOp op, c10::ScalarType type, Bits so_far, Bits value) {
  auto step = [&](Op node_op) { return evaluate({node_op, type}, type, so_far, value, 0); };
  switch (op) {
    case ir::ReduceOp::Sum:
      return step(Op::Add);
    case ir::ReduceOp::Prod:
      return step(Op::Mul);
    case ir::ReduceOp::And:
      return step(Op::And);
    case ir::ReduceOp::Or:
      return step(Op::Or);
    case ir::ReduceOp::Max:
    case ir::ReduceOp::Min:
      return beats(op, type, value, so_far) ? value : so_far;
    default:
      throw std::logic_error("interpreter: not a plain accumulation");
  }
}

bool beats(ir::ReduceOp op, c10::ScalarType type, Bits value, Bits best) {
  bool most = op == ir::ReduceOp::Max || op == ir::ReduceOp::ArgMax;
  return with_type(type, [&](auto zero) -> bool {
    using T = decltype(zero);
    T x = from_bits<T>(value), y = from_bits<T>(best);
    if (is_nan(x) || is_nan(y)) return is_nan(x) && !is_nan(y);
    return most ? y < x : x < y;
  });
}

}  // namespace graft::test
