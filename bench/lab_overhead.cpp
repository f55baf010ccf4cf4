// What the laboratory adds to a sample beyond the timed call: rounds of an empty function, one
// call per sample.
#include <chrono>
#include <cstdio>

#include "lab/stats.h"
#include "lab/timer.h"

int main() {
  using Clock = std::chrono::steady_clock;
  constexpr int kSamples = 1'000'000;
  const auto nothing = [] {};
  const auto start = Clock::now();
  const auto samples = graft::lab::measure({{"nothing", nothing}}, {.min_time = 0,
                                                                    .min_samples = kSamples,
                                                                    .max_samples = kSamples,
                                                                    .warmup = 0,
                                                                    .min_sample_us = 0});
  const double ns =
      std::chrono::duration<double, std::nano>(Clock::now() - start).count() / kSamples;
  std::printf("an empty sample reads %.0f ns; the loop takes %.0f ns per sample in all\n",
              1e6 * graft::lab::median(samples[0].ms), ns);
}
