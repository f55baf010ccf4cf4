// Mode::MaxAutotune: the ways that estimates of cost did not take, timed.
#pragma once

#include "record/trace.h"
#include "runtime/function/compile.h"

namespace graft::runtime {

/// Tries the runner-up of the closest decisions one after the other, each with what was found
/// faster before it, and leaves the fastest plan in `scheduled` and `generated`. Plans run on data
/// of their own, with the target's threads. That takes two seconds, or two calls of both plans if
/// these take longer, and the memory of the arguments once more; a schedule that was tuned before
/// in this process is not timed again. Nothing is tried of programs that draw random numbers or
/// call operators of other libraries, which must not run without a call. `scheduled`: with its
/// decisions.
Autotuned autotune(const record::Trace& trace, const CompileSettings& settings,
                   Scheduled& scheduled, Generated& generated);

}  // namespace graft::runtime
