// One scalar at a time: what each node of the expression DAG does, with exactly the type's own
// arithmetic.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/Half.h>

#include <cstring>
#include <stdexcept>

#include "ir/program.h"

namespace graft::test {

/// A value of any dtype as its own bits, the rest zero.
using Bits = uint64_t;

template <class T>
Bits to_bits(T value) {
  Bits bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <class T>
T from_bits(Bits bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

/// Calls f with a zero of the C++ type behind `type`.
template <class F>
auto with_type(c10::ScalarType type, F f) {
  switch (type) {
    case c10::ScalarType::Bool:
      return f(false);
    case c10::ScalarType::Byte:
      return f(uint8_t{});
    case c10::ScalarType::Char:
      return f(int8_t{});
    case c10::ScalarType::Short:
      return f(int16_t{});
    case c10::ScalarType::Int:
      return f(int32_t{});
    case c10::ScalarType::Long:
      return f(int64_t{});
    case c10::ScalarType::Half:
      return f(c10::Half{});
    case c10::ScalarType::BFloat16:
      return f(c10::BFloat16{});
    case c10::ScalarType::Float8_e4m3fn:
      return f(c10::Float8_e4m3fn{});
    case c10::ScalarType::Float8_e5m2:
      return f(c10::Float8_e5m2{});
    case c10::ScalarType::Float:
      return f(0.0f);
    case c10::ScalarType::Double:
      return f(0.0);
    default:
      throw std::logic_error(std::string("interpreter: dtype ") + c10::toString(type) +
                             " has no loops");
  }
}

/// Value of a Const node, or of a scalar slot with the same kind of payload.
Bits literal(int64_t payload, c10::ScalarType type);
Bits convert(Bits value, c10::ScalarType from, c10::ScalarType to);
/// Any node with operands. `operand`: the type of the first one (of the second, for a Select).
Bits evaluate(const ir::Node& node, c10::ScalarType operand, Bits a, Bits b, Bits c);
/// The routine that the table names, as code generation calls it. Inline ones are the correctly
/// rounded function.
Bits call_routine(ir::Routine routine, c10::ScalarType type, Bits a, Bits b);

/// Start of an accumulation, and one step of it. Not ArgMax and ArgMin.
Bits identity(ir::ReduceOp op, c10::ScalarType type);
Bits accumulate(ir::ReduceOp op, c10::ScalarType type, Bits so_far, Bits value);
/// Does `value` replace `best` as the largest (smallest), their places apart? NaN beats everything.
bool beats(ir::ReduceOp op, c10::ScalarType type, Bits value, Bits best);

}  // namespace graft::test
