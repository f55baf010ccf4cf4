// Interleaved timing: variants of one computation, measured in turns in one process, so that what
// slows the machine down for a while slows all of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace graft::lab {

struct TimedVariant {
  std::string name;
  std::function<void()> run;
};

struct MeasureOptions {
  double min_time = 1.0;  ///< seconds of samples for each variant, on average over the variants
  int min_samples = 10;   ///< of each variant, even if that takes longer
  int max_samples = 1000;
  int warmup = 3;             ///< untimed calls of each variant before the first sample
  double min_sample_us = 50;  ///< a sample of a quicker function is a batch of calls
  /// Called between samples with the part done (0 to 1) and the variant's name; may be empty.
  std::function<void(double, const std::string&)> progress = {};
};

struct Samples {
  std::string name;
  std::vector<double> ms;  ///< per call; one value a sample
  int batch = 1;           ///< calls in a sample
};

/// Rounds of one sample of each variant, in an order that rotates. All variants have equally many
/// samples, and sample i of one was taken next to sample i of another.
std::vector<Samples> measure(const std::vector<TimedVariant>& variants,
                             const MeasureOptions& options = {});

/// Milliseconds that one call takes.
double time_once_ms(const std::function<void()>& run);

}  // namespace graft::lab
