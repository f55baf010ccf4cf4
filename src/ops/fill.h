// Rows that copy_rows() lists with its own.
#pragma once

#include <vector>

#include "ops/context.h"

namespace graft::ops {

std::vector<Row> part_rows();           // parts.cpp: stores to a part of a tensor
std::vector<Row> fill_rows();           // fill.cpp
std::vector<Row> resample_rows();       // resample.cpp: upsampling by nearest neighbours
std::vector<Row> interpolation_rows();  // interpolate.cpp: upsampling between neighbours
std::vector<Row> grid_sample_rows();    // grid_sample.cpp: elements beside computed places
std::vector<Row> pad_rows();            // pad.cpp: borders, and channels that become pixels

}  // namespace graft::ops
