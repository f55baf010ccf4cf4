// A quantised linear layer as the tensors of compressed-tensors' `pack-quantized` format (version
// 0.20 of PyPI's package; https://github.com/vllm-project/compressed-tensors), and back.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "formats/safetensors.h"
#include "quantizer/model/layer.h"

namespace graft::workloads::gptq {

/// Numbers of 0 to 2^bits - 1 (any integer type, [rows, columns]; only the low bits are looked at)
/// → int32 [rows, ceil(columns * bits / 32)]: number i of a row takes the bits from i * bits,
/// lowest first, and may lie across two words. `bits`: 1 to 8. (Readers before 0.20 take 3-bit
/// numbers to be ten a word; with 4 and 8 bits the two rules are one.)
at::Tensor pack_columns(const at::Tensor& numbers, int bits);
/// The other way, as uint8 [rows, columns]. Throws GptqError if `packed` is not int32 of the shape
/// that `columns` asks for.
at::Tensor unpack_columns(const at::Tensor& packed, int bits, int64_t columns);

/// What a checkpoint holds in place of `<module>.weight`.
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

/// fp32 [rows, columns]: (code - zero) * scale, the bits that every reader of the format computes.
/// Throws GptqError naming `module` for tensors that do not fit one another.
at::Tensor dequantize(const PackedLinear& linear, int bits, const std::string& module);

/// Names and tensors to write: `<module>.weight_packed` and so on.
std::vector<std::pair<std::string, at::Tensor>> tensors_of(const PackedLinear& linear,
                                                           const std::string& module);
/// Out of a file that was written so. Throws SafetensorsError naming what is missing.
PackedLinear read_packed(const lab::Safetensors& file, const std::string& module);

}  // namespace graft::workloads::gptq
