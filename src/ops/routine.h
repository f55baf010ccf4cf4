// Mode::MaxAutotune: of the ATen routines that compute an operator, the one that is fastest on this
// machine. A matmul of fp32 is MKL's in ATen; oneDNN's, which ATen has as well, is twice as fast on
// some processors and slower on others, so both are measured.
#pragma once

#include <optional>
#include <string>

#include "ops/lower.h"

namespace graft::ops {

struct Routine {
  c10::OperatorHandle op;
  std::vector<c10::IValue> constants;  ///< its arguments after `inputs`
  std::vector<ir::View> inputs;        ///< storage -1: None
  std::string why;                     ///< for the report: "oneDNN's, 3.5 ms against MKL's 8.3 ms"
};

/// Empty where the operator is no matmul of fp32, or is ATen's by the settings or the clock. With
/// Matmuls::Fastest, the first call for a shape runs each routine once or a few times, on data of
/// its own: about 0.3 s, or two calls where those take longer. The answer is kept for the process.
/// Thread-safe. Results differ from eager's by the rounding of a sum in another order.
std::optional<Routine> chosen_routine(const record::Trace& trace, const record::OperatorRecord& op,
                                      const LowerSettings& settings);

}  // namespace graft::ops
