// How a vector loop runs whose routines want arrays (MKL's VML): strip by strip, each in phases.
//
//     y[i] = exp(x[i] * 2) + x[i]              strip of 512 elements:
//                                        →       phase 0:  buffer[i] = x[i] * 2
//                                                VML:      buffer = exp(buffer)
//                                                phase 1:  y[i] = buffer[i] + x[i]
//
// A statement takes effect in the last phase that its values need, and no earlier than those before
// it, so memory sees statements in order. What a later phase needs is computed again, or kept in a
// buffer where that would cost more.
#pragma once

#include "codegen/llvm/plan.h"

namespace graft::codegen {

constexpr int64_t kStripElements = 512;

struct StripStep {
  int statement = -1;  ///< that takes effect here; or only:
  /// A value that goes to its buffer (for a call of an array routine: its argument).
  int keep = -1;
};
struct StripPhase {
  std::vector<StripStep> steps;
  std::vector<int> calls;  ///< values: array routines that run after the phase
};
struct StripPlan {
  std::vector<StripPhase> phases;
  /// A value: the phase from which on it is in its buffer; -1: it has none.
  std::vector<int> ready;
  /// A call's value: the load whose memory the routine reads itself, or -1.
  std::vector<int> straight;
};

/// Empty phases if the loop is better run otherwise: its routines are then called vector by vector.
StripPlan plan_strips(const Layout& layout, const Plan& plan, int loop);

}  // namespace graft::codegen
