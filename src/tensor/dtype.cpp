#include "tensor/dtype.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/Half.h>

namespace graft {

const char* short_name(ScalarType type) {
  const DtypeInfo* row = find_dtype(type);
  return row == nullptr ? c10::toString(type) : row->name;
}

double rounded_to(double value, ScalarType type) {
  if (opmath(type) != ScalarType::Float) return value;
  const auto number = static_cast<float>(value);
  switch (type) {
    case ScalarType::BFloat16:
      return static_cast<float>(c10::BFloat16(number));
    case ScalarType::Half:
      return static_cast<float>(c10::Half(number));
    case ScalarType::Float8_e4m3fn:
      return static_cast<float>(c10::Float8_e4m3fn(number));
    case ScalarType::Float8_e5m2:
      return static_cast<float>(c10::Float8_e5m2(number));
    default:
      return number;
  }
}

}  // namespace graft
