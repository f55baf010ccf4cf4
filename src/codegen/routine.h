// Which function of the process a routine is on a target.
#pragma once

#include <string>

#include "ir/expr.h"
#include "ir/target.h"

namespace graft::codegen {

struct RoutineCall {
  ir::RoutineSource source;
  std::string symbol;  ///< empty for Inline
  int lanes = 1;       ///< Sleef: of the vectors that it takes and gives
};

/// For Float or Double. Without AVX2 ATen calls the C library for SLEEF's functions, and its
/// libtorch has none of that width.
RoutineCall routine_call(ir::Routine routine, ir::ScalarType type, const ir::Target& target);

/// VML_HA | VML_FTZDAZ_OFF | VML_ERRMODE_IGNORE, as ATen calls VML.
constexpr int64_t kVmlMode = 0x140102;

}  // namespace graft::codegen
