// PowerSGD's products that every process computes for itself: plain loops in a fixed order, since a
// library's may depend on threads and addresses, and processes must agree in every bit.
#pragma once

#include <cstdint>

namespace graft::systems {

/// Makes `count` rows of `length` orthonormal, by Gram and Schmidt. A row that depends on those
/// before becomes zero.
void orthogonalize(float* rows, int64_t count, int64_t length);

/// out (rows, columns) = the transpose of left (rank, rows) times right (rank, columns).
void multiply(const float* left, const float* right, int64_t rank, int64_t rows, int64_t columns,
              float* out);

}  // namespace graft::systems
