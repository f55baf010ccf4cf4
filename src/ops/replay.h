// A trace as a program that calls each operator as it was recorded, and so gives eager's own bits.
#pragma once

#include "ops/lower.h"

namespace graft::ops {

/// Views vanish as in lower(); every other operator is an extern call. `operators` is left empty.
Lowered lower_as_called(const record::Trace& trace);

}  // namespace graft::ops
