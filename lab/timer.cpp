#include "lab/timer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace graft::lab {
namespace {

constexpr int kMaxBatch = 1 << 20;

double time_batch_ms(const std::function<void()>& run, int calls) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) run();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

/// Calls a sample needs to last long enough, found by doubling: a quick function's first calls are
/// its slowest, so one of them would mislead.
int batch_for(const TimedVariant& variant, double min_sample_us) {
  for (int calls = 1; calls < kMaxBatch; calls *= 2) {
    const double us = 1e3 * time_batch_ms(variant.run, calls);
    if (us >= min_sample_us) return calls;
    if (us * 4 >= min_sample_us) return static_cast<int>(std::ceil(calls * min_sample_us / us));
  }
  return kMaxBatch;
}

}  // namespace

double time_once_ms(const std::function<void()>& run) {
  return time_batch_ms(run, 1);
}

std::vector<Samples> measure(const std::vector<TimedVariant>& variants,
                             const MeasureOptions& options) {
  std::vector<Samples> out;
  for (const TimedVariant& variant : variants) {
    for (int i = 0; i < options.warmup; ++i) variant.run();
    out.push_back({variant.name, {}, batch_for(variant, options.min_sample_us)});
  }
  if (variants.empty()) return out;

  const double wanted_ms = 1e3 * options.min_time * static_cast<double>(variants.size());
  double spent_ms = 0;
  for (int round = 0; round < options.max_samples; ++round) {
    const double by_time = wanted_ms > 0 ? spent_ms / wanted_ms : 1;
    if (round >= options.min_samples && by_time >= 1) break;
    const double by_count = static_cast<double>(round) / std::max(1, options.min_samples);
    const double done =
        std::max(std::min(by_time, by_count), static_cast<double>(round) / options.max_samples);
    for (size_t turn = 0; turn < variants.size(); ++turn) {
      const size_t i = (turn + static_cast<size_t>(round)) % variants.size();
      if (options.progress) options.progress(done, variants[i].name);
      const double ms = time_batch_ms(variants[i].run, out[i].batch);
      spent_ms += ms;
      out[i].ms.push_back(ms / out[i].batch);
    }
  }
  return out;
}

}  // namespace graft::lab
