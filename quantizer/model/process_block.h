// GPTQ's inner loop: quantises one block of a layer's columns, column by column. This is the part
// of the quantiser that is compiled.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <tuple>

namespace graft::quantizer {

/// Quantises the columns of a block one after the other, and spreads the error of each over the
/// later columns of the block. It is written as in GPTQ's reference code, a loop of in-place
/// updates of slices, and reads nothing on the host, so that the whole call can be compiled.
///
///   W1      fp32 [rows, n], any strides; not changed
///   Hinv1   fp32 [n, n], the block of the upper Cholesky factor of the inverse Hessian
///   scale   fp32 [rows], one for the block, or [rows, n], one per column
///   zero    as scale: the code that stands for 0; not read if `sym`
///   mask    undefined, or bool [rows, n]: true is a pruned weight, which becomes 0
///   qmin, qmax   the smallest and largest code
///   sym     value = code * scale; otherwise value = (code - zero) * scale
///
/// Returns (Q, losses, errors), each fp32 [rows, n]: the quantised values; (w - q)^2 / d^2 and
/// (w - q) / d, where w is the weight as the earlier columns left it and d is Hinv1's diagonal.
/// Thread-safe. Shapes are not checked.
std::tuple<at::Tensor, at::Tensor, at::Tensor> process_block(
    const at::Tensor& W1, const at::Tensor& Hinv1, const at::Tensor& scale, const at::Tensor& zero,
    const at::Tensor& mask, int64_t qmin, int64_t qmax, bool sym);

/// process_block and the steps after it, so that all of it can be one kernel: stores the quantised
/// values to `block` and their codes to `codes` (int8 or uint8 [rows, n]). Returns (losses,
/// errors).
std::tuple<at::Tensor, at::Tensor> quantize_block(const at::Tensor& block, const at::Tensor& Hinv1,
                                                  const at::Tensor& scale, const at::Tensor& zero,
                                                  const at::Tensor& mask, const at::Tensor& codes,
                                                  int64_t qmin, int64_t qmax, bool sym);

/// quantize_block itself, or what graft::compile makes of it.
using QuantizeBlock = std::function<std::tuple<at::Tensor, at::Tensor>(
    const at::Tensor& block, const at::Tensor& Hinv1, const at::Tensor& scale,
    const at::Tensor& zero, const at::Tensor& mask, const at::Tensor& codes, int64_t qmin,
    int64_t qmax, bool sym)>;

}  // namespace graft::quantizer
