// A linear layer's weight as it lies in memory while tokens are generated: numbers, or codes of 8
// or 4 bits with a scale for each group of columns, which take a quarter or an eighth of fp32's
// memory and are made numbers where they are used. One token reads each weight once, so that its
// time is the memory's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace graft::workloads::decoder {

struct Weight {
  /// Dense: [rows, columns] of any floating type. 8 bits: int8 [rows, groups, columns of a group].
  /// 4 bits: uint8; the low bits are codes of a row's first half of groups, the high ones of its
  /// second: [rows, groups / 2, columns of a group]. Of an odd number of groups they are those of
  /// each group's halves: [rows, groups, half a group's columns].
  at::Tensor values;
  at::Tensor scale;  ///< fp32 [rows, groups, 1]; undefined where dense
  at::Tensor zero;   ///< likewise, the code of 0; undefined: 0 with 8 bits, 8 with 4
  /// int64 [columns]: the inputs' columns in the codes' order; undefined: their own order.
  at::Tensor order;
  at::Tensor bias;  ///< [rows], or undefined

  bool is_dense() const { return !scale.defined(); }
  int64_t rows() const { return values.size(0); }
  int64_t bytes() const;  ///< of all its tensors
};

Weight dense_weight(const at::Tensor& values, const at::Tensor& bias = {});

/// Of codes of 0 to 2^bits - 1 (uint8 [rows, columns]), 3, 4 or 8 bits: the weight
/// (code - zero) * scale. `scale` and `zero` are fp32 [rows, groups]; an undefined zero is
/// 2^(bits - 1). `group` (int64 [columns]) gives each column's group, all of one size; undefined:
/// runs of columns. Throws std::invalid_argument for shapes that do not fit, groups of unequal
/// sizes, and (with fewer than 8 bits) an odd number of columns.
Weight coded_weight(const at::Tensor& codes, const at::Tensor& scale, const at::Tensor& zero,
                    int bits, const at::Tensor& group = {});

/// A dense weight's nearest codes of `bits` (4 or 8), symmetric, with a scale for each `group`
/// columns of a row, which must divide its columns. Throws std::invalid_argument.
Weight nearest_codes(const at::Tensor& weight, int bits, int64_t group);

/// x [tokens, columns] → [tokens, rows], of x's type. Codes compute in fp32. Plain code, which in
/// eager writes the whole weight to memory. Thread-safe.
at::Tensor linear(const at::Tensor& x, const Weight& weight);

}  // namespace graft::workloads::decoder
