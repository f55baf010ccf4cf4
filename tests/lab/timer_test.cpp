#include "lab/timer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <string>
#include <thread>

#include "lab/progress.h"
#include "lab/stats.h"
#include "lab/words.h"

namespace graft::lab {
namespace {

/// A device whose clock goes on only as far as the functions on it say, so that no test depends on
/// what else the machine does.
class Scripted : public Device {
 public:
  void pass(double us) { now_us_ += us; }
  const char* name() const override { return "scripted"; }
  void synchronize() override {}
  double time_ms(const std::function<void()>& run, int calls) override {
    const double start = now_us_;
    for (int i = 0; i < calls; ++i) run();
    return (now_us_ - start) / 1e3;
  }
  MemoryUse memory_of(const std::function<void()>& run) override {
    run();
    return {};
  }

 private:
  double now_us_ = 0;
};

class OnAScriptedDevice : public testing::Test {
 protected:
  TimedVariant takes(const std::string& name, double us) {
    return {name, [this, us] { device.pass(us); }};
  }
  Scripted device;
};

TEST(Timer, TheProcessorsClockIsReal) {
  const double ms = time_once_ms([] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
  EXPECT_GE(ms, 5);
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

TEST_F(OnAScriptedDevice, BatchesQuickFunctions) {
  const MeasureOptions options{
      .min_time = 0.01, .min_samples = 5, .max_samples = 50, .device = &device};
  const auto samples = measure({takes("quick", 2), takes("slow", 300)}, options);
  // 10 ms in at most 50 samples: a sample fills 200 us.
  EXPECT_EQ(samples[0].batch, 100);
  EXPECT_EQ(samples[1].batch, 1);
  EXPECT_NEAR(median(samples[0].ms), 0.002, 1e-9);  // per call, not per batch
  EXPECT_NEAR(median(samples[1].ms), 0.3, 1e-9);
}

TEST_F(OnAScriptedDevice, StopsAtTheTimeForAllVariants) {
  const MeasureOptions options{
      .min_time = 0.02, .min_samples = 2, .max_samples = 1000, .warmup = 0, .device = &device};
  const auto samples = measure({takes("a", 3000), takes("b", 1000)}, options);
  EXPECT_EQ(samples[0].ms.size(), 10u);  // of 4 ms each, in 2 x 20 ms
  EXPECT_EQ(samples[1].ms.size(), 10u);
}

TEST_F(OnAScriptedDevice, WaitsForTheSteadyState) {
  double now = 3000;
  const auto falling = [&] { device.pass(now = std::max(300.0, 0.85 * now)); };
  const auto samples = measure(
      {{"falls", falling}}, {.min_time = 0, .min_samples = 5, .max_samples = 5, .device = &device});
  EXPECT_TRUE(samples[0].steady);
  EXPECT_GE(samples[0].warmup_calls, 15) << "it takes 15 calls to fall";
  EXPECT_EQ(now, 300);

  double us = 20000;
  const auto endless = [&] { device.pass(us *= 0.95); };
  const auto never = measure({{"falls on", endless}}, {.min_time = 0,
                                                       .min_samples = 1,
                                                       .max_samples = 1,
                                                       .max_warmup_time = 0.1,
                                                       .min_sample_us = 0,
                                                       .device = &device});
  EXPECT_FALSE(never[0].steady);
}

TEST_F(OnAScriptedDevice, GoesOnUntilItIsPreciseOrTimeIsUp) {
  // Every other call takes a tenth longer, so no interval is ever empty.
  int calls = 0;
  const auto uneven = [&] { device.pass(++calls % 2 == 0 ? 200 : 220); };
  MeasureOptions options{
      .min_time = 0.01, .max_time = 0.2, .min_samples = 5, .warmup = 0, .device = &device};
  options.precision = 1;  // at once
  const size_t few = measure({{"a", uneven}}, options)[0].ms.size();
  EXPECT_EQ(few, 48u);       // of 210 us, in 10 ms
  options.precision = 1e-9;  // never
  const size_t many = measure({{"a", uneven}}, options)[0].ms.size();
  EXPECT_EQ(many, 953u);  // in 200 ms
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
