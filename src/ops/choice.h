// Routines of ATen that compute what an operator computes, other than the one eager calls. ATen
// computes fp32 matmuls with MKL; its oneDNN routine is twice as fast on some processors and slower
// on others.
#pragma once

#include <optional>
#include <string>

#include "ir/extern.h"
#include "record/trace.h"

namespace graft::ops {

struct OtherRoutine {
  ir::Extern call;   ///< without outputs
  std::string name;  ///< for the report: "oneDNN's"
};

/// Empty where the operator is no fp32 matmul. Results differ from eager's by the rounding of sums
/// in another order.
std::optional<OtherRoutine> other_routine(const record::Trace& trace,
                                          const record::OperatorRecord& op);

}  // namespace graft::ops
