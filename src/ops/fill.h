// Rows of fill.cpp; copy_rows() lists them with its own.
#pragma once

#include <vector>

#include "ops/context.h"

namespace graft::ops {

std::vector<Row> fill_rows();

}  // namespace graft::ops
