// What the files about 2:4 sparsity share: checks, and products with packed weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "graft/systems/sparse_weights.h"

namespace graft::systems {

/// "BFloat16 [64, 128]"
std::string describe_24(const at::Tensor& tensor);
/// Throws c10::ValueError unless it is a weight that can be packed.
void check_weight_24(const char* who, const at::Tensor& weight);

/// A packed weight by pointers. `T`: float, c10::BFloat16 or c10::Half.
template <class T>
struct Packed {
  const T* values;
  const uint32_t* places;
  int64_t columns;  ///< in features
};

/// y[r * stride + o] = x[r] · weight[o], for 1 to kFewRows rows, of `begin` <= o < `end`. x: (rows,
/// columns) contiguous.
constexpr int kFewRows = 4;
template <class T>
void few_rows(const Packed<T>& weight, const float* x, int rows, float* y, int64_t stride,
              int64_t begin, int64_t end);

/// Rows of a vector.
int64_t many_rows_lanes();
/// y[o][r] = sum over c of weight[o][c] x[c][r], of `begin` <= o < `end`. `vectors`: 1, 2 or 4, of
/// rows; x: (columns, vectors * many_rows_lanes()), y: (out features, likewise), contiguous.
void many_rows(const Packed<float>& weight, const float* x, float* y, int vectors, int64_t begin,
               int64_t end);

}  // namespace graft::systems
