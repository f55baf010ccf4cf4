#include "lab/timer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "lab/verdict.h"

namespace graft::lab {
namespace {

constexpr int kMaxBatch = 1 << 20;
constexpr std::ptrdiff_t kWindow = 5;  // samples that the steady state is seen by
constexpr double kStill = 0.02;

Device& processor() {
  static const std::unique_ptr<Device> cpu = cpu_device();
  return *cpu;
}

/// Calls a sample needs to last long enough, found by doubling: a quick function's first calls are
/// its slowest, so one of them would mislead. Adds to `made` the calls it makes.
int batch_for(Device& device, const TimedVariant& variant, double min_sample_us, int& made) {
  for (int calls = 1; calls < kMaxBatch; calls *= 2) {
    const double us = 1e3 * device.time_ms(variant.run, calls);
    made += calls;
    if (us >= min_sample_us) return calls;
    if (us * 4 >= min_sample_us) return static_cast<int>(std::ceil(calls * min_sample_us / us));
  }
  return kMaxBatch;
}

/// Runs until the times have stopped falling, or patience ends.
void warm_up(Device& device, const TimedVariant& variant, double patience_s, Samples& samples) {
  std::vector<double> ms;
  double spent_ms = 0;
  samples.steady = false;
  while (!samples.steady && (spent_ms < 1e3 * patience_s || ms.size() < 2)) {
    ms.push_back(device.time_ms(variant.run, samples.batch));
    samples.warmup_calls += samples.batch;
    spent_ms += ms.back();
    if (ms.size() < 2 * kWindow) continue;
    const std::span<const double> last(ms.end() - kWindow, ms.end()),
        before(ms.end() - 2 * kWindow, ms.end() - kWindow);
    samples.steady = median(last) >= (1 - kStill) * median(before);
  }
  if (ms.size() >= 2 * kWindow) return;
  // A function too slow for five and five samples: compares the two halves of those there are.
  const std::span<const double> all(ms);
  const size_t half = all.size() / 2;
  samples.steady = half < 2 || median(all.last(half)) >= (1 - 2 * kStill) * median(all.first(half));
}

/// The wider half of the widest interval.
double uncertainty(const std::vector<Samples>& samples) {
  if (samples.size() == 1) {
    const double center = median(samples[0].ms);
    const Interval ci = bootstrap_median(samples[0].ms);
    return std::max(ci.hi - center, center - ci.lo) / center;
  }
  double widest = 0;
  for (size_t i = 1; i < samples.size(); ++i) {
    const Ratio r = judge(samples[0].ms, samples[i].ms).ratio;
    widest = std::max(widest, std::max(r.hi - r.ratio, r.ratio - r.lo) / r.ratio);
  }
  return widest;
}

/// Decides when enough has been measured.
class Stop {
 public:
  Stop(const MeasureOptions& options, size_t variants)
      : options_(options),
        wanted_ms_(1e3 * options.min_time * static_cast<double>(variants)),
        most_ms_(1e3 * std::max(options.min_time, options.max_time) *
                 static_cast<double>(variants)) {}

  bool now(int round, double spent_ms, const std::vector<Samples>& samples) {
    if (round >= options_.max_samples) return true;
    if (round < options_.min_samples || spent_ms < wanted_ms_) return false;
    if (options_.precision <= 0 || spent_ms >= most_ms_) return true;
    // Computing the interval takes milliseconds, and doing it often would stop at a lucky moment.
    if (spent_ms < next_look_ms_) return false;
    next_look_ms_ = 1.3 * spent_ms;
    return uncertainty(samples) <= options_.precision;
  }

  double done(int round, double spent_ms) const {
    const double by_time = wanted_ms_ > 0 ? spent_ms / wanted_ms_ : 1;
    const double by_count = static_cast<double>(round) / std::max(1, options_.min_samples);
    const double least = std::min(by_time, by_count);
    const double most = static_cast<double>(round) / options_.max_samples;
    return std::min(1.0, std::max(least, most));
  }

 private:
  const MeasureOptions& options_;
  double wanted_ms_, most_ms_, next_look_ms_ = 0;
};

}  // namespace

double time_once_ms(const std::function<void()>& run) {
  return processor().time_ms(run, 1);
}

std::vector<Samples> measure(const std::vector<TimedVariant>& variants,
                             const MeasureOptions& options) {
  Device& device = options.device != nullptr ? *options.device : processor();
  const double fills_us = 1e6 * options.min_time / std::max(1, options.max_samples),
               least_us = options.min_sample_us > 0 ? std::max(options.min_sample_us, fills_us) : 0;
  std::vector<Samples> out;
  for (const TimedVariant& variant : variants) {
    if (options.progress) options.progress(0, variant.name + ", warming up");
    Samples& samples = out.emplace_back(Samples{.name = variant.name, .ms = {}});
    for (int i = 0; i < options.warmup; ++i) variant.run();
    device.synchronize();
    samples.warmup_calls = std::max(0, options.warmup);
    samples.batch = batch_for(device, variant, least_us, samples.warmup_calls);
    if (options.warmup < 0) warm_up(device, variant, options.max_warmup_time, samples);
  }
  if (variants.empty()) return out;

  Stop stop(options, variants.size());
  double spent_ms = 0;
  for (int round = 0; !stop.now(round, spent_ms, out); ++round) {
    const double done = stop.done(round, spent_ms);
    for (size_t turn = 0; turn < variants.size(); ++turn) {
      const size_t i = (turn + static_cast<size_t>(round)) % variants.size();
      if (options.progress) options.progress(done, variants[i].name);
      const double ms = device.time_ms(variants[i].run, out[i].batch);
      spent_ms += ms;
      out[i].ms.push_back(ms / out[i].batch);
    }
  }
  return out;
}

}  // namespace graft::lab
