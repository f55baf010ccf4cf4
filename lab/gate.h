// Did anything become slower between two runs? For tables and for continuous integration.
#pragma once

#include <string>
#include <vector>

#include "lab/run.h"
#include "lab/stats.h"

namespace graft::lab {

enum class Outcome {
  Same,    ///< within what the two runs' own noise allows
  Faster,  ///< certainly
  /// Certainly slower, both by its own time and beside its reference; or its results changed; or it
  /// failed.
  Regression,
  Ambiguous,  ///< the interval reaches beyond the threshold, but not wholly
  Missing,    ///< in the baseline, not in the other run, or skipped there
  New,        ///< not in the baseline
};
const char* to_string(Outcome outcome);

struct GateRow {
  std::string case_name, variant;
  Outcome outcome = Outcome::Same;
  double before_ms = 0, after_ms = 0;  ///< medians
  Ratio change;                        ///< before / after: below 1, it became slower
  double threshold = 0;                ///< relative change that the two runs' noise alone can make
  /// Both taken as multiples of the run's own reference: what made the whole machine slower between
  /// the runs cancels.
  bool relative = false;
  size_t fewest_samples = 0;
  std::string why;  ///< for outcomes other than Same and Faster
};

struct GateOptions {
  double least = 0.02;  ///< changes below it are never a regression
};

/// The threshold of a row is `least` plus how far its median drifted within either run (the first
/// half of the samples against the second); a change is certain when its whole 95 % interval lies
/// beyond it, with five samples or more. The reference itself is at most ambiguous while others are
/// measured by it: it has nothing that would tell a slower machine from slower code.
std::vector<GateRow> gate(const Run& baseline, const Run& now, const GateOptions& options = {});

/// What differs between the machines or builds of two runs; empty if nothing that matters.
std::string difference_of_contexts(const Run& a, const Run& b);

}  // namespace graft::lab
