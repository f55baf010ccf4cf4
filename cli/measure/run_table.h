// A run as a table: a line a case, a column a variant.
#pragma once

#include <iosfwd>

#include "lab/run.h"

namespace graft::cli {

/// The table, geometric means of the ratios, and the reasons of all that is not simply faster.
void print(std::ostream& out, const lab::Run& run, bool colour);

}  // namespace graft::cli
