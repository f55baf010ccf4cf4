// What the tests of GPTQ share: inputs, and an independent implementation in scalar loops.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "quantizer/model/layer.h"

namespace graft::quantizer {

at::Tensor normal(at::IntArrayRef sizes, uint64_t seed);

/// Inputs whose columns depend on each other and differ in size, as a model's do.
at::Tensor correlated(int64_t samples, int64_t columns, uint64_t seed);

Hessian hessian_of(const at::Tensor& inputs, at::ScalarType precision = at::kDouble);

using Matrix = std::vector<std::vector<double>>;
Matrix matrix_of(const at::Tensor& t);

struct NaiveLayer {
  std::vector<std::vector<int>> codes;
  Matrix scale, zero, weight;
  std::vector<int> group_index;
  double loss = 0;
};

/// GPTQ as the paper's reference code does it, one number after the other, in double. `h` is not
/// dampened yet; `mask` may be empty.
NaiveLayer naive_layer(Matrix w, Matrix h, const Settings& s,
                       const std::vector<std::vector<bool>>& mask);

}  // namespace graft::quantizer
