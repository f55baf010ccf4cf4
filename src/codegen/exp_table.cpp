#include <cmath>

#include "codegen/exp_coefficients.h"

namespace graft::codegen {

const ExpTable& exp_table() {
  static const ExpTable table = [] {
    ExpTable made;
    for (size_t j = 0; j < made.high.size(); ++j) {
      const long double power = std::exp2(static_cast<long double>(j) / ExpTable::kEntries);
      made.high[j] = static_cast<float>(power);
      made.low[j] = static_cast<float>(power - static_cast<long double>(made.high[j]));
    }
    return made;
  }();
  return table;
}

float table_exp(float x) {
  if (!(std::abs(x) <= ExpTable::kLimit))
    return static_cast<float>(std::exp(static_cast<double>(x)));
  const float q = std::nearbyint(x * ExpTable::kInverse);
  float s = x - q * ExpTable::kStepHigh;
  s = s - q * ExpTable::kStepLow;
  const float rest = s + s * s * 0.5f;
  const int k = static_cast<int>(q), j = k & (ExpTable::kEntries - 1);
  const float high = exp_table().high[static_cast<size_t>(j)],
              low = exp_table().low[static_cast<size_t>(j)];
  return std::ldexp(high + (low + high * rest), (k - j) / ExpTable::kEntries);
}

}  // namespace graft::codegen
