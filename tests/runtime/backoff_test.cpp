// Kernels that run alone while other threads come late.
#include "runtime/plan/backoff.h"

#include <gtest/gtest.h>

namespace graft::runtime {
namespace {

constexpr double kGain = 20'000, kQuantum = 3'000'000;

TEST(Backoff, ThreadsThatComeInTimeAreAskedAgain) {
  Backoff backoff;
  EXPECT_FALSE(backoff.runs_alone(kGain));
  backoff.waited(kGain, Backoff::kLate / 2);
  EXPECT_FALSE(backoff.runs_alone(kGain));
}

TEST(Backoff, AWaitIsPaidBackByKernelsThatRunAlone) {
  Backoff backoff;
  backoff.waited(kGain, kQuantum);
  int alone = 0;
  for (; backoff.runs_alone(kGain); ++alone) backoff.ran_alone(kGain);
  EXPECT_EQ(alone, kQuantum / kGain);
  // A single late thread does not keep the others away for ever, nor does one that comes again.
  backoff.waited(kGain, kQuantum);
  EXPECT_TRUE(backoff.runs_alone(kGain));
}

TEST(Backoff, KernelsThatGainMoreThanAWaitCostsAwait) {
  Backoff backoff;
  backoff.waited(kGain, kQuantum);
  EXPECT_FALSE(backoff.runs_alone(2 * kQuantum));
  EXPECT_TRUE(backoff.runs_alone(kGain));
  // What they wait is none that others could have saved.
  Backoff long_ones;
  long_ones.waited(2 * kQuantum, kQuantum);
  EXPECT_FALSE(long_ones.runs_alone(kGain));
}

TEST(Backoff, KernelsWithoutLossEndItToo) {
  Backoff backoff;
  backoff.waited(kGain, kQuantum);
  int alone = 0;
  for (; backoff.runs_alone(kGain) && alone < 10'000'000; ++alone) backoff.ran_alone(0);
  EXPECT_EQ(alone, static_cast<int>(kQuantum));
}

}  // namespace
}  // namespace graft::runtime
