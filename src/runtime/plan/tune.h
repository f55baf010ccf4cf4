// Mode::MaxAutotune, first half: where two of ATen's routines compute an operator, the one that is
// faster on this machine. The other half chooses schedules (runtime/function/autotune.h).
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ops/lower.h"
#include "passes/merge_products.h"
#include "runtime/process/with_threads.h"

namespace graft::runtime {

/// What tuning decided, in the words of the operators' reports ("oneDNN's, 3.5 ms against 8.3 ms").
struct Tuning {
  std::vector<std::string> choices;  ///< for each of Lowered::choices; empty where it was not taken
  /// The matrix products that are loops, by record (runtime/function/folded_products.h).
  std::map<int, std::string> loops;
};

/// Operator, threads and layouts.
using CallKey = std::pair<std::string, std::vector<int64_t>>;
CallKey call_key(const ir::Extern& call, int threads);

/// Times the choices with that many threads: the first time a call of that operator on those
/// layouts is met, each of its routines runs once or a few times, on data of its own. That takes
/// about 0.3 s, or two calls where those take longer; the answer is kept for the process.
/// Thread-safe.
std::vector<std::string> tune(const ops::Lowered& lowered, int threads);

/// Lets kernels compute the product, a call of lowered.program. They sum in another order.
void mark_as_loops(ops::Lowered& lowered, ir::Extern& product);

/// Puts what was chosen into the program.
void apply_tuning(const Tuning& tuning, ops::Lowered& lowered);

/// Merges the products that are faster as one and have the same bits, with that many threads: both
/// ways run a few times on random numbers, once in a process for those layouts. Thread-safe.
void merge_products(ops::Lowered& lowered, int threads);

}  // namespace graft::runtime
