// Mode::MaxAutotune: chooses by timing among ATen's routines for one operator. ATen computes fp32
// matmuls with MKL; its oneDNN routine is twice as fast on some processors and slower on others.
#pragma once

#include <optional>
#include <string>

#include "ops/lower.h"

namespace graft::ops {

struct ChosenRoutine {
  c10::OperatorHandle op;
  std::vector<c10::IValue> constants;  ///< its arguments after `inputs`
  std::vector<ir::View> inputs;        ///< storage -1: None
  std::string why;                     ///< for the report: "oneDNN's, 3.5 ms against MKL's 8.3 ms"
};

/// Empty where the operator is no fp32 matmul, or where ATen's usual routine is kept: by the
/// settings, or because it is the faster one. With Matmuls::Fastest, the first call for a shape
/// runs each routine a few times on data of its own (about 0.3 s, or two calls where those take
/// longer); the answer is kept for the process. Thread-safe. Results differ from eager's by the
/// rounding of sums in another order.
std::optional<ChosenRoutine> chosen_routine(const record::Trace& trace,
                                            const record::OperatorRecord& op,
                                            const LowerSettings& settings);

}  // namespace graft::ops
