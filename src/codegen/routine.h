// Which function of the process a routine is on a target.
#pragma once

#include <string>

#include "ir/expr.h"
#include "ir/target.h"

namespace graft::codegen {

enum class RoutineSource : uint8_t {
  Vml,    ///< MKL's vector library out of libtorch: wants arrays, takes (&n, x, y, &mode)
  Sleef,  ///< SLEEF out of libtorch: takes and gives vectors of `lanes`; two arguments are two
  Libm,   ///< the C library: one number at a time
  Inline  ///< instructions; a formula may call for numbers that are beyond it
};

struct RoutineCall {
  RoutineSource source;
  std::string symbol;  ///< empty for Inline
  int lanes = 1;       ///< Sleef: of the vectors that it takes and gives
};

/// For Float or Double. Without AVX2 ATen calls the C library for a vector's lanes, and its
/// libtorch has no SLEEF of that width. Throws std::runtime_error for a routine that no library
/// or the target's instructions have.
RoutineCall routine_call(ir::Routine routine, ScalarType type, const ir::Target& target);

/// No call is needed: with fused multiply-add the inline exp has the bits of the exported SLEEF
/// function, compared for all floats and for 2 x 10^8 doubles.
inline bool inline_has_its_bits(ir::Routine routine, const ir::Target& target) {
  return routine == ir::Routine::VectorExp && target.fma;
}

/// Does its code hand a NaN on, as arithmetic does? (VML, which formulas may call, does.)
inline bool is_arithmetic(ir::Routine routine, const ir::Target& target) {
  return info(routine).form == ir::RoutineForm::Formula || inline_has_its_bits(routine, target);
}

/// VML_HA | VML_FTZDAZ_OFF | VML_ERRMODE_IGNORE, as ATen calls VML.
constexpr int64_t kVmlMode = 0x140102;

}  // namespace graft::codegen
