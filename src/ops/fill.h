// Rows that copy_rows() lists with its own.
#pragma once

#include <vector>

#include "ops/context.h"

namespace graft::ops {

std::vector<Row> part_rows();                // parts.cpp: stores to a part of a tensor
std::vector<Row> fill_rows();                // fill.cpp
std::vector<Row> resample_rows();            // resample.cpp: upsampling by nearest neighbours
std::vector<Row> interpolation_rows();       // interpolate.cpp: upsampling between neighbours
std::vector<Row> grid_sample_rows();         // grid_sample.cpp: elements beside computed places
std::vector<Row> grid_sample_volume_rows();  // grid_sample_volume.cpp: likewise of volumes
std::vector<Row> affine_grid_rows();  // affine_grid.cpp: places that maps make of a regular grid
std::vector<Row> pad_rows();          // pad.cpp: borders, and channels that become pixels
std::vector<Row> patch_rows();        // patches.cpp: patches of images as columns

/// Number `at`, a whole one, of linspace's; rounded to `dtype`, a floating one, in what that
/// computes in. `steps`: at least 2.
ir::Value linspace_value(const Context& context, ir::StatementBuilder& s, ir::Value at,
                         int64_t steps, const c10::Scalar& start, const c10::Scalar& end,
                         c10::ScalarType dtype);

}  // namespace graft::ops
