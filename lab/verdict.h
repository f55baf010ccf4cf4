// Is one variant faster than another? From samples taken in turns, so that what slows the machine
// for a while slows both.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lab/stats.h"

namespace graft::lab {

enum class Verdict {
  Faster,
  Slower,
  Same,       ///< the interval lies within the smallest difference that matters
  Ambiguous,  ///< the interval is too wide to say
};
const char* to_string(Verdict verdict);

struct Judgement {
  Ratio ratio;   ///< reference / candidate: above 1, the candidate is faster
  double p = 1;  ///< of the rank test
  Verdict verdict = Verdict::Ambiguous;
};

struct JudgeOptions {
  double least = 0.02;  ///< the smallest relative difference that is called one
  double alpha = 0.01;  ///< of the rank test
  bool paired = true;   ///< sample i of one was taken next to sample i of the other
  uint64_t seed = 0;
};

/// Faster or slower only if the whole interval of the ratio lies beyond `least` *and* the ranks
/// differ with p < alpha. Samples taken one after the other are alike for longer than one sample
/// (frequency, neighbours), so the interval resamples blocks of them, not single ones.
Judgement judge(std::span<const double> reference, std::span<const double> candidate,
                const JudgeOptions& options = {});

/// 95 % interval of one sample's median, from blocks of neighbours.
Interval block_bootstrap_median(std::span<const double> x, uint64_t seed = 0);

/// "excellent" from 1.5, "good" from 1.2, "measured" from 1.0, "investigate" below.
const char* gain_class(double ratio);

}  // namespace graft::lab
