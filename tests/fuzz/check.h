// Runs a program eagerly and through graft::compile, and compares everything a caller can see.
#pragma once

#include <string>

#include "fuzz/program.h"

namespace graft::fuzz {

struct Outcome {
  std::string failure;  ///< empty: both sides agree
  bool exact = true;    ///< the whole program was promised eager's bits
  bool threw = false;   ///< eager threw
  int64_t plan_hits = 0;
  std::string verdict;  ///< at the end, with the reason
};

/// All calls of the program, on fresh data each: the record, the shadow and the plan, then other
/// ways to alias. `fast`: with Numerics::Fast, whose results may differ as rounding makes them.
Outcome check(const Program& program, bool fast);
/// The same, and where `gradients` says so check_gradients() after it.
Outcome check(const Program& program, bool fast, bool gradients);

/// The program as a part of a model: some arguments require grad, and gradients are compared. For
/// programs without a guard.
Outcome check_gradients(const Program& program);

/// What Graft did with the program: the trace and the schedule, for a failure's report.
std::string explain(const Program& program);

/// How far results can move when every inexact step is off by a few roundings: for each result and
/// input, is `came` as near to eager's as such programs are to one another? Empty, or the first
/// place where it is not. `fast`: every step that computes is inexact.
std::string explained_by_rounding(const Program& program, int placement, int call,
                                  const Tensors& captured, const Tensors& eager,
                                  const Tensors& came, bool fast);

}  // namespace graft::fuzz
