// Is one variant faster than another? Decided from samples taken in turns, so that a machine that
// is slow for a while slows both.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lab/stats.h"

namespace graft::lab {

enum class Verdict {
  Faster,
  Slower,
  Same,       ///< the whole interval lies within JudgeOptions::least
  Ambiguous,  ///< the interval is too wide to decide
};
const char* to_string(Verdict verdict);

struct Judgement {
  Ratio ratio;   ///< reference / candidate: above 1, the candidate is faster
  double p = 1;  ///< of the rank test
  Verdict verdict = Verdict::Ambiguous;
};

struct JudgeOptions {
  double least = 0.02;  ///< the smallest relative difference that matters
  double alpha = 0.01;  ///< significance level of the rank test
  bool paired = true;   ///< sample i of one was taken next to sample i of the other
  uint64_t seed = 0;
};

/// Faster or slower only if the whole interval of the ratio lies beyond `least` *and* the ranks
/// differ with p < alpha. Neighbouring samples are correlated (clock frequency, other processes),
/// so the interval resamples blocks of samples, not single ones.
Judgement judge(std::span<const double> reference, std::span<const double> candidate,
                const JudgeOptions& options = {});

/// 95 % interval of a sample's median, by resampling blocks of neighbours.
Interval block_bootstrap_median(std::span<const double> x, uint64_t seed = 0);

/// "excellent" from 1.5, "good" from 1.2, "measured" from 1.0, "investigate" below.
const char* gain_class(double ratio);

}  // namespace graft::lab
