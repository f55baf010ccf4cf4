// Kernels that run alone while other threads come late.
#include "runtime/plan/backoff.h"

#include <gtest/gtest.h>

namespace graft::runtime {
namespace {

constexpr double kGain = 10'000, kQuantum = 3'000'000, kWake = 100'000;

/// A thread's calls by a clock of the test's own; a kernel of several threads takes no time here.
struct Clock {
  Backoff backoff;
  double now = 1e9;

  bool runs_alone(double gain = kGain) const { return backoff.runs_alone(gain, now); }
  void waited(double wait, double gain = kGain) { backoff.waited(gain, wait, now, now); }
  void pause() { now += 2 * Backoff::kAwake; }
  /// How many kernels run alone before one asks the threads again.
  int count_alone(double lost = kGain) {
    int alone = 0;
    for (; runs_alone() && alone < 10'000'000; ++alone) backoff.ran_alone(kGain, lost);
    return alone;
  }
};

TEST(Backoff, ThreadsThatComeInTimeAreAskedAgain) {
  Clock clock;
  EXPECT_FALSE(clock.runs_alone());
  clock.waited(Backoff::kWoken / 2);
  EXPECT_FALSE(clock.runs_alone());
  clock.waited(Backoff::kLate / 2);
  EXPECT_FALSE(clock.runs_alone());
  clock.pause();
  EXPECT_FALSE(clock.runs_alone());
}

TEST(Backoff, AWaitIsPaidBackByKernelsThatRunAlone) {
  Clock clock;
  clock.waited(0);
  clock.waited(kQuantum);
  EXPECT_EQ(clock.count_alone(), kQuantum / kGain);
  // A single late thread does not keep the others away for ever, nor does one that comes again.
  clock.waited(kQuantum);
  EXPECT_TRUE(clock.runs_alone());
}

TEST(Backoff, KernelsThatGainMoreThanAWaitCostsAwait) {
  Clock clock;
  clock.waited(0);
  clock.waited(kQuantum);
  EXPECT_FALSE(clock.runs_alone(2 * kQuantum));
  EXPECT_TRUE(clock.runs_alone());
  // What they wait is none that others could have saved.
  Clock long_ones;
  long_ones.waited(0);
  long_ones.waited(kQuantum, 2 * kQuantum);
  EXPECT_FALSE(long_ones.runs_alone());
}

TEST(Backoff, KernelsWithoutLossEndItToo) {
  Clock clock;
  clock.waited(0);
  clock.waited(kQuantum);
  EXPECT_EQ(clock.count_alone(0), static_cast<int>(kQuantum));
}

TEST(Backoff, ThreadsThatWereJustWokenAreAskedAtOnce) {
  Clock clock;
  clock.waited(kWake);  // the first kernel wakes them, and those that follow have them
  EXPECT_FALSE(clock.runs_alone());
  clock.waited(0);
  EXPECT_FALSE(clock.runs_alone());
  // They fall asleep, and it is not worth it to wake them each time.
  clock.pause();
  EXPECT_TRUE(clock.runs_alone());
  EXPECT_FALSE(clock.runs_alone(2 * kWake));
  EXPECT_EQ(clock.count_alone(), kWake / kGain);
  clock.waited(0);  // others kept them awake meanwhile
  clock.pause();
  EXPECT_FALSE(clock.runs_alone());
}

TEST(Backoff, ABusyMachineIsOneAfterAPauseToo) {
  Clock clock;
  clock.waited(0);
  clock.waited(kQuantum);
  clock.pause();
  EXPECT_TRUE(clock.runs_alone());
}

}  // namespace
}  // namespace graft::runtime
