// docs/operators.md, from the tables.
#pragma once

#include <string>

namespace graft::ops {

/// Markdown: every operator that Graft fuses, by family. All others run as ATen's own kernels.
std::string operator_documentation();

}  // namespace graft::ops
