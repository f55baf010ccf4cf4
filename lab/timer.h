// Interleaved timing: variants of one computation, measured in turns in one process, so that a
// machine that is slow for a while slows all of them.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "lab/device.h"

namespace graft::lab {

struct TimedVariant {
  std::string name;
  std::function<void()> run;
};

struct MeasureOptions {
  double min_time = 1.0;  ///< seconds of samples per variant, on average over the variants
  double max_time = 0;    ///< the most seconds, likewise, while `precision` is not reached
  /// Wanted half-width of the 95 % interval of each ratio to the first variant (of the median, if
  /// it is alone); 0: min_time is enough.
  double precision = 0;
  int min_samples = 10;  ///< per variant, even if that takes longer
  int max_samples = 1000;
  int warmup = -1;  ///< untimed calls of each variant before the first sample; -1: until steady
  double max_warmup_time = 1.0;  ///< the most seconds to wait for a variant's steady state
  /// A sample takes at least as long: for a quick function it is a batch of calls. It is longer
  /// where max_samples of this length would not fill min_time.
  double min_sample_us = 50;
  /// Called between samples with the part done (0 to 1) and the variant's name; may be empty.
  std::function<void(double, const std::string&)> progress = {};
  Device* device = nullptr;  ///< the device that the variants run on; null: the CPU
};

struct Samples {
  std::string name;
  std::vector<double> ms;  ///< per call; one value per sample
  int batch = 1;           ///< calls in a sample
  int warmup_calls = 0;    ///< before the first sample
  bool steady = true;      ///< times had stopped falling when the first sample was taken
};

/// Warm-up ends when the median of five samples is no longer more than 2 % below that of the five
/// before. Then come rounds of one sample of each variant, in an order that rotates. All variants
/// get equally many samples, and sample i of one is taken next to sample i of every other.
std::vector<Samples> measure(const std::vector<TimedVariant>& variants,
                             const MeasureOptions& options = {});

/// Milliseconds that one call takes.
double time_once_ms(const std::function<void()>& run);

}  // namespace graft::lab
