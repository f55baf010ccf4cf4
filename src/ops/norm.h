// Normalisation by mean and variance, which layer and group norm share.
#pragma once

#include "ops/reduce.h"

namespace graft::ops {

/// rows.outs[0] = (in - mean) / sqrt(var + eps) * weight + bias, row by row of `rows`.
struct Normalization {
  Reduced rows;
  ir::View weight, bias;  ///< broadcast to the axes; storage -1: none
  ir::View mean, rstd;    ///< where to store the rows' statistics; storage -1: nowhere
  double eps = 0;
};
Fate normalize(Context& ctx, const Normalization& n);

std::vector<Row> layer_rows();  // norm_layers.cpp

}  // namespace graft::ops
