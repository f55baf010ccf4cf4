// GPTQ for one linear layer: from weights and calibration inputs to codes of 2 to 8 bits, chosen so
// that the layer's outputs change little (Frantar et al., 2022, https://arxiv.org/abs/2210.17323).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "quantizer/model/error.h"
#include "quantizer/model/hessian.h"
#include "quantizer/model/process_block.h"

namespace graft::quantizer {

struct Settings {
  int bits = 4;             ///< 2 to 8
  int64_t group = 128;      ///< columns that share a scale; -1: one scale per row
  bool symmetric = true;    ///< codes around 0; otherwise codes from 0 with a zero point
  int64_t block = 128;      ///< columns per call of quantize_block
  double dampening = 0.01;  ///< added to H's diagonal, as a share of the diagonal's mean
  bool act_order = false;   ///< columns in descending order of H's diagonal; groups in that order
};

/// Throws GptqError naming `name` if the settings are invalid, or invalid for that many columns.
void check_settings(const std::string& name, const Settings& settings, int64_t columns);

/// Where a layer's time went, in milliseconds.
struct LayerTimes {
  double total = 0;
  double factor = 0;   ///< from H to the Cholesky factor of its inverse; 0: an earlier layer did it
  double process = 0;  ///< all calls of quantize_block
  double update = 0;   ///< matmuls that carry a block's errors to the columns after it
};

struct LayerResult {
  at::Tensor codes;  ///< [rows, columns], int8 (signed) if symmetric, else uint8: 0..2^bits-1
  at::Tensor scale;  ///< fp32 [rows, groups]
  at::Tensor zero;   ///< int32 [rows, groups]; 0 if symmetric
  /// int32 [columns], each column's group; undefined unless act_order and group > 0 (otherwise it
  /// is column / group, or 0)
  at::Tensor group_index;
  at::Tensor weight;  ///< fp32 [rows, columns]: (codes - zero) * scale, bit for bit
  /// Half the sum of quantize_block's losses: the squared error of the layer's outputs per
  /// calibration token, plus the dampening's penalty.
  double loss = 0;
  int64_t dead_columns = 0;  ///< columns whose input was always 0; their weights become 0
  double dampening = 0;      ///< the one that was needed
  LayerTimes times;
};

/// Quantises `weight` (any floating type, [rows, columns]; it is not changed). `mask`: undefined,
/// or bool [rows, columns] where true is a pruned weight, which becomes 0. The Cholesky factor is
/// computed in the Hessian's precision, all else in fp32. If H is not positive definite, the
/// dampening is multiplied by ten up to three times (starting from 0.001 if it was 0). Throws
/// GptqError naming `name` and what to do, for NaN or Inf in weights or calibration inputs, no
/// samples, shapes that do not match, a Hessian that stays singular, and invalid settings.
LayerResult quantize_layer(const std::string& name, const at::Tensor& weight,
                           const Hessian& hessian, const Settings& settings,
                           const QuantizeBlock& process, const at::Tensor& mask = {});

}  // namespace graft::quantizer
