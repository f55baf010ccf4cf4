#include "systems/compression/factors.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "systems/compression/wide.h"

#pragma GCC push_options
#pragma GCC optimize("O3")  // vectorises the loops below

namespace graft::systems {
namespace {

double dot(const float* a, const float* b, int64_t length) {
  double sum = 0;
  for (int64_t i = 0; i < length; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

[[gnu::always_inline]] inline void add_multiple(float factor, const float* from, int64_t length,
                                                float* to) {
  for (int64_t i = 0; i < length; ++i) to[i] += factor * from[i];
}

}  // namespace

void orthogonalize(float* rows, int64_t count, int64_t length) {
  for (int64_t i = 0; i < count; ++i) {
    float* row = rows + i * length;
    const double before = std::sqrt(dot(row, row, length));
    // Twice is enough (Kahan): once leaves what cancellation lost.
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t j = 0; j < i; ++j) {
        const float* other = rows + j * length;
        const float along = static_cast<float>(dot(row, other, length));
        wide<add_multiple>(-along, other, length, row);
      }
    const double norm = std::sqrt(dot(row, row, length));
    const float inverse = norm <= before * 1e-6 ? 0 : static_cast<float>(1 / norm);
    for (int64_t x = 0; x < length; ++x) row[x] *= inverse;
  }
}

void multiply(const float* left, const float* right, int64_t rank, int64_t rows, int64_t columns,
              float* out) {
  at::parallel_for(0, rows, std::max<int64_t>(1, 32768 / columns), [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      float* row = out + i * columns;
      std::fill(row, row + columns, 0.0f);
      for (int64_t k = 0; k < rank; ++k)
        wide<add_multiple>(left[k * rows + i], right + k * columns, columns, row);
    }
  });
}

}  // namespace graft::systems

#pragma GCC pop_options
