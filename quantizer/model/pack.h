// A quantised linear layer as the tensors of compressed-tensors' `pack-quantized` format (version
// 0.20 of PyPI's package; https://github.com/vllm-project/compressed-tensors), and back.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "formats/safetensors.h"
#include "quantizer/model/layer.h"

namespace graft::quantizer {

/// Packs numbers of 0 to 2^bits - 1 (any integer type, [rows, columns]; only the low bits are read)
/// into int32 [rows, ceil(columns * bits / 32)]: number i of a row takes the bits from i * bits on,
/// lowest first, and may lie across two words. `bits`: 1 to 8. (Readers before 0.20 expect ten
/// 3-bit numbers per word; with 4 and 8 bits both rules give the same.)
at::Tensor pack_columns(const at::Tensor& numbers, int bits);
/// The inverse, as uint8 [rows, columns]. Throws GptqError if `packed` is not int32 of the shape
/// that `columns` requires.
at::Tensor unpack_columns(const at::Tensor& packed, int bits, int64_t columns);

/// The tensors that a checkpoint holds in place of `<module>.weight`.
struct PackedLinear {
  at::Tensor packed;  ///< weight_packed, int32 [rows, words]: codes + 2^(bits-1) if symmetric
  at::Tensor scale;   ///< weight_scale, fp32 [rows, groups]
  /// weight_zero_point, int32 [words of the rows, groups], packed down the rows; undefined if
  /// symmetric.
  at::Tensor zero_point;
  at::Tensor shape;  ///< weight_shape, int64 [2]: rows, columns
  /// weight_g_idx, int32 [columns]: each column's group. Undefined where groups are runs of
  /// columns.
  at::Tensor group_index;
};

PackedLinear pack_linear(const LayerResult& result, int bits, bool symmetric);

/// What the tensors hold: weights are (code - zero) * scale of their group.
struct UnpackedLinear {
  at::Tensor codes;  ///< uint8 [rows, columns]
  at::Tensor scale;  ///< fp32 [rows, groups]
  at::Tensor zero;   ///< fp32 [rows, groups]; undefined if symmetric: 2^(bits - 1)
  at::Tensor group;  ///< int64 [columns]: each column's group
};
/// Throws GptqError naming `module` if the tensors do not match one another.
UnpackedLinear unpack_linear(const PackedLinear& linear, int bits, const std::string& module);

/// fp32 [rows, columns]: (code - zero) * scale, the bits that every reader of the format computes.
/// Throws GptqError naming `module` if the tensors do not match one another.
at::Tensor dequantize(const PackedLinear& linear, int bits, const std::string& module);

/// Names and tensors to write: `<module>.weight_packed` and so on.
std::vector<std::pair<std::string, at::Tensor>> tensors_of(const PackedLinear& linear,
                                                           const std::string& module);
/// Reads them from a file. Throws SafetensorsError naming what is missing.
PackedLinear read_packed(const formats::Safetensors& file, const std::string& module);

}  // namespace graft::quantizer
