// A run as a table: one line per case, one column per variant.
#pragma once

#include <iosfwd>

#include "lab/run.h"

namespace graft::cli {

/// Prints the table, the geometric means of the ratios, and the reasons for all that is not faster.
void print(std::ostream& out, const lab::Run& run, bool colour);

}  // namespace graft::cli
