// Turns a trace into a loop program: views vanish into accesses, fused operators become statements,
// the rest externs.
#pragma once

#include "graft/report.h"
#include "ir/program.h"
#include "record/trace.h"

namespace graft::ops {

struct Lowered {
  ir::Program program;
  std::vector<OperatorReport> operators;  ///< what became of each operator, counted
  bool exact = true;  ///< every fused operator has eager's bits: results must be bitwise equal
  bool either_zero = false;                   ///< except that zeros may differ in sign
  std::vector<c10::ScalarType> approximated;  ///< if not exact: dtypes of the inexact computations
  std::optional<std::string> broken;          ///< cannot be compiled: why, and the next step
};

enum class Matmuls : uint8_t {
  Aten,     ///< as eager
  Fastest,  ///< measured (Mode::MaxAutotune)
  OneDnn,   ///< where oneDNN has it, unmeasured
};

struct LowerSettings {
  bool fast = false;  ///< Numerics::Fast
  Matmuls matmuls = Matmuls::Aten;
  int threads = 1;  ///< of whoever will run the program: what Fastest measures with
};

Lowered lower(const record::Trace& trace, const LowerSettings& settings = {});

}  // namespace graft::ops
