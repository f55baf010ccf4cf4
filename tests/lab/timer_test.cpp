#include "lab/timer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <string>
#include <thread>

#include "lab/progress.h"
#include "lab/stats.h"

namespace graft::lab {
namespace {

void busy(double us) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double, std::micro>(us);
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(Timer, InterleavesAndRotates) {
  std::string order;
  const MeasureOptions options{
      .min_time = 0, .min_samples = 4, .max_samples = 4, .warmup = 1, .min_sample_us = 0};
  const auto samples =
      measure({{"a", [&] { order += 'a'; }}, {"b", [&] { order += 'b'; }}}, options);
  // Warm-up and one call to size the batch each, then rounds.
  EXPECT_EQ(order,
            "aabb"
            "abbaabba");
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].name, "a");
  EXPECT_EQ(samples[0].ms.size(), 4u);
  EXPECT_EQ(samples[1].ms.size(), 4u);
}

TEST(Timer, BatchesQuickFunctions) {
  const MeasureOptions options{.min_time = 0.01, .min_samples = 5, .max_samples = 50};
  const auto samples = measure({{"quick", [] { busy(2); }}, {"slow", [] { busy(300); }}}, options);
  EXPECT_GE(samples[0].batch, 5);
  EXPECT_EQ(samples[1].batch, 1);
  EXPECT_GE(median(samples[0].ms), 0.0015);  // per call, not per batch
  EXPECT_LT(median(samples[0].ms), 0.2);
  EXPECT_GE(median(samples[1].ms), 0.3);
}

TEST(Timer, StopsAtTheTimeForAllVariants) {
  const MeasureOptions options{
      .min_time = 0.02, .min_samples = 2, .max_samples = 1000, .warmup = 0};
  const auto samples = measure({{"a", [] { busy(3000); }}, {"b", [] { busy(1000); }}}, options);
  EXPECT_EQ(samples[0].ms.size(), samples[1].ms.size());
  EXPECT_GE(samples[0].ms.size(), 2u);
  EXPECT_LE(samples[0].ms.size(), 11u);
}

TEST(Timer, WaitsForTheSteadyState) {
  double now = 3000;
  const auto falling = [&] { busy(now = std::max(300.0, 0.85 * now)); };
  const auto samples =
      measure({{"falls", falling}}, {.min_time = 0, .min_samples = 5, .max_samples = 5});
  EXPECT_TRUE(samples[0].steady);
  EXPECT_GE(samples[0].warmup_calls, 14) << "it takes 14 calls to fall";
  EXPECT_EQ(now, 300);

  double us = 20000;
  const auto endless = [&] { busy(us *= 0.95); };
  const auto never = measure({{"falls on", endless}}, {.min_time = 0,
                                                       .min_samples = 1,
                                                       .max_samples = 1,
                                                       .max_warmup_time = 0.1,
                                                       .min_sample_us = 0});
  EXPECT_FALSE(never[0].steady);
}

TEST(Timer, GoesOnUntilItIsPreciseOrTimeIsUp) {
  const auto steady = [] { busy(200); };
  MeasureOptions options{.min_time = 0.01, .max_time = 0.2, .min_samples = 5, .warmup = 0};
  options.precision = 1;  // at once
  const size_t few = measure({{"a", steady}, {"b", steady}}, options)[0].ms.size();
  options.precision = 1e-9;  // never
  const size_t many = measure({{"a", steady}, {"b", steady}}, options)[0].ms.size();
  EXPECT_GT(many, 4 * few);
}

TEST(Timer, ReportsProgress) {
  double last = -1;
  MeasureOptions options{
      .min_time = 0, .min_samples = 3, .max_samples = 3, .warmup = 0, .min_sample_us = 0};
  options.progress = [&](double done, const std::string& name) {
    EXPECT_TRUE(name.starts_with("x")) << name;
    EXPECT_GE(done, 0);
    EXPECT_LE(done, 1);
    last = done;
  };
  measure({{"x", [] {}}}, options);
  EXPECT_GE(last, 0);
  EXPECT_TRUE(measure({}, options).empty());
}

TEST(Progress, PlainLinesInALog) {
  std::ostringstream out;
  {
    Progress progress(out, /*terminal=*/false, 2);
    progress.begin("first");
    progress.at(0.5, "half");
    progress.begin("second");
  }
  EXPECT_EQ(out.str(), "[1/2] first\n[2/2] second\n");
}

TEST(Progress, OneLineWithTimeLeftOnATerminal) {
  std::ostringstream out;
  {
    Progress progress(out, /*terminal=*/true, 1);
    progress.begin("only");
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
    progress.at(0.5, "eager");
  }
  EXPECT_EQ(out.str().find('\n'), std::string::npos);
  EXPECT_NE(out.str().find("[1/1] only: eager, 1 s left"), std::string::npos) << out.str();
  EXPECT_TRUE(out.str().ends_with("\r\x1b[K"));  // the line is gone at the end
}

TEST(Progress, Durations) {
  EXPECT_EQ(duration_text(0.2), "1 s");
  EXPECT_EQ(duration_text(125), "2 min 5 s");
  EXPECT_EQ(duration_text(3780), "1 h 3 min");
}

}  // namespace
}  // namespace graft::lab
