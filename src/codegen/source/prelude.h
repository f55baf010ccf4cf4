// What every printed file starts with: the types and the functions that kernels are written in.
#pragma once

#include <string>

#include "ir/target.h"

namespace graft::codegen {

std::string source_prelude(const ir::Target& target);
/// The function that Routine::TableExp is, for behind the prelude.
std::string source_table_exp();
inline constexpr const char* kSourceTableExp = "table_exp";

}  // namespace graft::codegen
