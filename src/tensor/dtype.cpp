#include "tensor/dtype.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

namespace graft {

const char* short_name(ScalarType type) {
  const DtypeInfo* row = find_dtype(type);
  return row == nullptr ? c10::toString(type) : row->name;
}

double rounded_to(double value, ScalarType type) {
  if (opmath(type) == ScalarType::Float) value = static_cast<float>(value);
  if (type == ScalarType::BFloat16)
    return static_cast<float>(c10::BFloat16(static_cast<float>(value)));
  if (type == ScalarType::Half) return static_cast<float>(c10::Half(static_cast<float>(value)));
  return value;
}

}  // namespace graft
