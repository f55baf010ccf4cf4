// docs/operators.md, from the tables.
#pragma once

#include <string>

namespace graft::ops {

/// Markdown: every operator Graft fuses, family by family. Whatever is not in it runs as ATen's own
/// kernel.
std::string operator_documentation();

}  // namespace graft::ops
