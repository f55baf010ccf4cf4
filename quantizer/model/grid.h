// The grid of values that a row's weights are rounded to: scale and zero point from the smallest
// and largest weight, as `find_params` of GPTQ's reference code computes them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace graft::quantizer {

/// The codes of `bits` bits: -2^(bits-1) .. 2^(bits-1)-1 when symmetric, else 0 .. 2^bits-1.
struct CodeRange {
  int64_t smallest = 0;
  int64_t largest = 0;

  static CodeRange of(int bits, bool symmetric);
};

struct Grid {
  at::Tensor scale;  ///< fp32 [rows], above 0
  at::Tensor zero;   ///< fp32 [rows], whole numbers: the code of 0; all 0 when symmetric
};

/// One scale and zero per row of `weights` (fp32 [rows, n], finite).
/// - Symmetric: scale = 2 max|w| / (2^bits - 1).
/// - Otherwise: scale = (max - min) / (2^bits - 1) and zero = round(-min / scale), where min and
/// max
///   include 0.
/// A row of zeros (or so small that its scale would be 0) has scale 1.
Grid find_grid(const at::Tensor& weights, int bits, bool symmetric);

}  // namespace graft::quantizer
