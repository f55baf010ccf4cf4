// Did anything become slower between two runs? For people and for continuous integration.
#pragma once

#include <string>
#include <vector>

#include "lab/run.h"
#include "lab/stats.h"

namespace graft::lab {

enum class Outcome {
  Same,    ///< within the noise of the two runs
  Faster,  ///< certainly faster
  /// Certainly slower, both in time and relative to its reference; or its results changed; or it
  /// failed.
  Regression,
  Ambiguous,  ///< part of the interval lies beyond the threshold
  Missing,    ///< in the baseline, not in the other run, or skipped there
  New,        ///< not in the baseline
};
const char* to_string(Outcome outcome);

struct GateRow {
  std::string case_name, variant;
  Outcome outcome = Outcome::Same;
  double before_ms = 0, after_ms = 0;  ///< medians
  Ratio change;                        ///< before / after: below 1, it became slower
  double threshold = 0;                ///< relative change that noise alone can cause
  /// Both times are multiples of their run's reference, so that a machine that became slower
  /// between the runs cancels out.
  bool relative = false;
  size_t fewest_samples = 0;
  std::string why;  ///< for outcomes other than Same and Faster
};

struct GateOptions {
  double least = 0.02;  ///< smaller relative changes are never a regression
};

/// The threshold of a row is `least` plus the drift of its median within the runs (the first half
/// of the samples against the second). A change is certain when its whole 95 % interval lies beyond
/// the threshold and both sides have at least five samples. A case's reference is at most ambiguous
/// while the case has other variants: nothing tells a slower machine from slower code there.
std::vector<GateRow> gate(const Run& baseline, const Run& now, const GateOptions& options = {});

/// What differs between the machines or builds of two runs; empty if nothing that affects times.
std::string difference_of_contexts(const Run& a, const Run& b);

}  // namespace graft::lab
