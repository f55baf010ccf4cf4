// Mode::MaxAutotune, first half: where two of ATen's routines compute an operator, the one that is
// faster on this machine. The other half chooses schedules (runtime/function/autotune.h).
#pragma once

#include <string>
#include <vector>

#include "ops/lower.h"
#include "passes/merge_products.h"
#include "runtime/process/with_threads.h"

namespace graft::runtime {

/// What tuning decided: for each of Lowered::choices why it was taken, as its operator's report
/// says it ("oneDNN's, 3.5 ms against 8.3 ms"); empty where it was not.
using Tuning = std::vector<std::string>;

/// Times the choices with that many threads: the first time a call of that operator on those
/// layouts is met, each of its routines runs once or a few times, on data of its own. That takes
/// about 0.3 s, or two calls where those take longer; the answer is kept for the process.
/// Thread-safe.
Tuning tune(const ops::Lowered& lowered, int threads);

/// Puts the routines that were chosen into the program.
void apply_tuning(const Tuning& tuning, ops::Lowered& lowered);

/// Merges the products that are faster as one and have the same bits, with that many threads: both
/// ways run a few times on random numbers, once in a process for those layouts. Thread-safe.
void merge_products(ops::Lowered& lowered, int threads);

}  // namespace graft::runtime
