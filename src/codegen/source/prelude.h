// What every printed file starts with: the types and the functions that kernels are written in.
#pragma once

#include <string>

#include "ir/target.h"

namespace graft::codegen {

std::string source_prelude(const ir::Target& target);
/// array_exp() and others, which the Formula routines are, for behind the prelude and what declares
/// VML's functions.
std::string source_array_formulas(const ir::Target& target);

}  // namespace graft::codegen
