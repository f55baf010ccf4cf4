// A vector loop that calls routines on arrays (MKL's VML) runs strip by strip, each in phases.
//
//     y[i] = exp(x[i] * 2) + x[i]              strip of 512 elements:
//                                        →       phase 0:  buffer[i] = x[i] * 2
//                                                VML:      buffer = exp(buffer)
//                                                phase 1:  y[i] = buffer[i] + x[i]
//
// A statement stores in the last phase that its values need, and no earlier than the statements
// before it, so stores stay in order. A value that a later phase needs is computed again there, or
// kept in a buffer where that is cheaper.
#pragma once

#include "codegen/plan.h"

namespace graft::codegen {

constexpr int64_t kStripElements = 512;

struct StripStep {
  int statement = -1;  ///< a statement that stores here; or, if -1:
  /// a value that is stored to its buffer (for a call of an array routine, the routine's argument).
  int keep = -1;
};
struct StripPhase {
  std::vector<StripStep> steps;
  std::vector<int> calls;  ///< values: array routines that run after the phase
};
struct StripPlan {
  std::vector<StripPhase> phases;
  /// Per value: the first phase in which its buffer holds it; -1: it has no buffer.
  std::vector<int> ready;
  /// Per value: for a call whose routine reads its argument straight from memory, the load; or -1.
  std::vector<int> straight;
};

/// Empty phases if the loop is better run otherwise: its routines are then called vector by vector.
StripPlan plan_strips(const Layout& layout, const KernelPlan& plan, int loop);

}  // namespace graft::codegen
