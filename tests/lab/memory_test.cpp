// The memory tracker, the sentinel, and their texts and pictures.
#include "lab/memory/memory.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "lab/memory/ledger.h"
#include "lab/memory/report.h"
#include "lab/memory/resident.h"
#include "lab/memory/sentinel.h"

namespace graft::lab {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

at::Tensor bytes_of(int64_t size) {
  return at::empty({size}, at::kByte);
}

TEST(MemoryTracker, CountsWhatComesAndGoes) {
  MemoryTracker tracker;
  at::Tensor a = bytes_of(3000), b = bytes_of(500);
  a.reset();
  const at::Tensor c = bytes_of(1000);
  tracker.stop();
  const at::Tensor unseen = bytes_of(9000);

  const MemoryReport report = tracker.report();
  EXPECT_EQ(report.start_bytes, 0);
  EXPECT_EQ(report.peak_bytes, 3500);
  EXPECT_EQ(report.peak_tensors, 2);
  EXPECT_EQ(report.end_bytes, 1500);
  EXPECT_EQ(report.end_tensors, 2);
  EXPECT_EQ(report.allocations, 3);
  EXPECT_EQ(report.frees, 1);
  EXPECT_EQ(report.peak_reserved, 3500);  // c10's allocator keeps nothing
  std::vector<int64_t> live;
  for (const MemoryPoint& point : report.timeline) live.push_back(point.live);
  EXPECT_EQ(live, (std::vector<int64_t>{0, 3000, 3500, 500, 1500, 1500}));
  EXPECT_GT(report.peak_seconds, 0);
  EXPECT_LE(report.peak_seconds, report.seconds);
  EXPECT_EQ(tracker.use().peak_allocated, 3500);
}

TEST(MemoryTracker, NamesWhoMadeWhatIsLiveAtThePeak) {
  const at::Tensor x = at::ones({256, 256});
  MemoryTracker tracker;
  {
    const MemoryRegion layer("layer 0");
    const MemoryRegion attention("attention");
    const at::Tensor y = at::softmax(x, -1);
    const at::Tensor z = at::empty({1000}, at::kByte);
    const at::Tensor w = at::mul(y, y), v = at::mul(y, w);
  }
  const at::Tensor later = at::exp(x);  // after the peak
  tracker.stop();
  const std::vector<MemoryOwner> largest = tracker.report().largest;
  ASSERT_EQ(largest.size(), 3u);
  EXPECT_EQ(largest[0].op, "aten::mul");
  EXPECT_EQ(largest[0].count, 2);
  EXPECT_EQ(largest[0].bytes, 256 * 256 * 4);
  EXPECT_EQ(largest[1].op, "aten::softmax > aten::_softmax");
  EXPECT_EQ(largest[2].op, "aten::empty");
  EXPECT_EQ(largest[2].bytes, 1000);
  for (const MemoryOwner& owner : largest) EXPECT_EQ(owner.region, "layer 0/attention");
}

TEST(MemoryTracker, EachRangeHasThePeakOfWhatIsInIt) {
  MemoryTracker tracker;
  {
    const MemoryRegion step("step");
    const at::Tensor kept = bytes_of(100);
    {
      const MemoryRegion forward("forward");
      const at::Tensor small = bytes_of(10);
      const MemoryRegion attention("attention");
      const at::Tensor large = bytes_of(1000);
    }
    const MemoryRegion backward("backward");
    const at::Tensor gradient = bytes_of(20);
  }
  tracker.stop();
  const at::Tensor after = bytes_of(5000);
  std::vector<std::pair<std::string, int64_t>> seen;
  for (const MemoryRange& range : tracker.report().ranges)
    seen.emplace_back(range.region, range.peak_bytes);
  EXPECT_EQ(seen, (decltype(seen){{"step", 1110},
                                  {"step/forward", 1110},
                                  {"step/forward/attention", 1110},
                                  {"step/backward", 120}}));
}

TEST(MemoryTracker, KeepsWhatWasFreedSinceThePeakAndDropsWhatWasBefore) {
  MemoryTracker tracker;
  {
    const at::Tensor before = bytes_of(100);
  }
  {
    const at::Tensor at_peak = bytes_of(700);
  }
  {
    const at::Tensor after = bytes_of(600);
  }
  const std::vector<MemoryOwner> largest = tracker.report().largest;
  ASSERT_EQ(largest.size(), 1u);
  EXPECT_EQ(largest[0].bytes, 700);
  EXPECT_EQ(largest[0].count, 1);
}

TEST(MemoryTracker, Nests) {
  MemoryTracker outer;
  at::Tensor a = bytes_of(1000);
  {
    MemoryTracker inner;
    const at::Tensor b = bytes_of(200);
    a.reset();  // made outside, freed inside
    const at::Tensor c = bytes_of(300);
    inner.stop();
    const MemoryReport report = inner.report();
    EXPECT_EQ(report.start_bytes, 1000);
    EXPECT_EQ(report.start_tensors, 1);
    EXPECT_EQ(report.peak_bytes, 200);
    EXPECT_EQ(report.peak_tensors, 2);
    EXPECT_EQ(report.end_bytes, 500);
    EXPECT_EQ(report.strange_frees, 0);
  }
  const MemoryReport report = outer.report();
  EXPECT_EQ(report.peak_bytes, 1200);
  EXPECT_EQ(report.end_bytes, 0);
  EXPECT_EQ(report.allocations, 3);
}

TEST(MemoryTracker, OldMemoryIsNotMistakenForItsOwn) {
  std::optional<MemoryTracker> first(std::in_place);
  at::Tensor old = bytes_of(4000);
  first.reset();
  const MemoryTracker second;
  old.reset();
  const MemoryReport report = second.report();
  EXPECT_EQ(report.end_bytes, 0);
  EXPECT_EQ(report.frees, 0);
  EXPECT_EQ(report.strange_frees, 1);
}

TEST(MemoryTracker, SeesAtensThreads) {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  {
    const MemoryTracker tracker;
    std::vector<at::Tensor> made(2);
    at::parallel_for(0, 2, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) made[static_cast<size_t>(i)] = bytes_of(100);
    });
    EXPECT_EQ(tracker.live_bytes(), 200);
  }
  at::parallel_for(0, 2, 1, [&](int64_t, int64_t) {
    EXPECT_EQ(c10::ThreadLocalDebugInfo::current(), nullptr);  // given back
  });
  at::set_num_threads(before);
}

TEST(MemoryTracker, SeesBackward) {
  const at::Tensor x = at::ones({1000}).requires_grad_();
  MemoryTracker tracker;
  at::exp(x).sum().backward();
  tracker.stop();
  std::string ops;
  for (const MemoryOwner& owner : tracker.report().largest) ops += owner.op + '\n';
  EXPECT_NE(ops.find("ExpBackward0 > aten::mul"), std::string::npos) << ops;
  EXPECT_EQ(tracker.report().end_bytes, 4000);  // the gradient
}

struct OtherProfiler : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void*, int64_t, size_t, size_t, c10::Device) override {}
  bool memoryProfilingEnabled() const override { return true; }
};

TEST(MemoryTracker, RefusesAThreadThatAProfilerWatches) {
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE,
                                  std::make_shared<OtherProfiler>());
  EXPECT_THROW(MemoryTracker(), std::runtime_error);
}

TEST(MemoryTracker, ReservedIsLiveAndCached) {
  int64_t cached = 100;
  MemoryTracker tracker({.cached = [&] { return cached; }});
  at::Tensor a = bytes_of(1000);
  cached = 5000;
  a.reset();
  const MemoryUse use = tracker.use();
  EXPECT_EQ(use.peak_allocated, 1000);
  EXPECT_EQ(use.peak_reserved, 5000);
}

TEST(MemoryTracker, ResidentPeakIsOfTheScope) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer keeps freed memory";
#endif
  if (!reset_resident_peak()) GTEST_SKIP() << "the kernel does not let the peak be reset";
  {
    const at::Tensor earlier = at::zeros({128 * kMiB}, at::kByte).fill_(1);
  }
  MemoryTracker tracker;
  {
    const MemoryTracker inner;  // resets the peak again; the outer remembers
    {
      const at::Tensor big = bytes_of(48 * kMiB).fill_(1);
    }
    EXPECT_NEAR(static_cast<double>(inner.use().peak_resident), 48.0 * kMiB, 4.0 * kMiB);
  }
  {
    const MemoryTracker small;
  }
  tracker.stop();
  const MemoryReport report = tracker.report();
  EXPECT_NEAR(static_cast<double>(report.peak_resident), 48.0 * kMiB, 4.0 * kMiB);
  EXPECT_NEAR(static_cast<double>(report.end_resident - report.start_resident), 0, 4.0 * kMiB);
}

TEST(MemoryTimeline, IsBoundedAndKeepsPeakAndEnd) {
  detail::Timeline timeline;
  constexpr int kEvents = 100'000;
  for (int i = 0; i < kEvents; ++i) timeline.add({i * 1.0, i == 77'777 ? 1'000'000 : i % 10, 0});
  const std::vector<MemoryPoint> points = timeline.points();
  EXPECT_LE(points.size(), detail::Timeline::kMost + 2);
  EXPECT_GE(points.size(), detail::Timeline::kMost / 2);
  EXPECT_EQ(points.back().seconds, kEvents - 1);
  bool peak = false;
  for (size_t i = 0; i < points.size(); ++i) {
    peak |= points[i].live == 1'000'000 && points[i].seconds == 77'777;
    if (i > 0) {
      EXPECT_GT(points[i].seconds, points[i - 1].seconds);
    }
  }
  EXPECT_TRUE(peak);
}

TEST(Sentinel, SeesAKnownSize) {
  const Sentinel s = memory_sentinel(16 * kMiB);
  EXPECT_TRUE(s.passed) << s.text();
  EXPECT_EQ(s.measured, 16 * kMiB);
  EXPECT_TRUE(s.freed);
  if (s.resident >= 0) {
    EXPECT_NEAR(static_cast<double>(s.resident), 16.0 * kMiB, 1.0 * kMiB);
  }
  const nlohmann::json json = to_json(s);
  EXPECT_EQ(json["requested"], 16 * kMiB);
  EXPECT_EQ(json["passed"], true);
  EXPECT_NE(s.text().find("passed: asked for 16777216 B, saw 16777216 B"), std::string::npos);
  EXPECT_THROW(memory_sentinel(0), std::invalid_argument);
}

TEST(Sentinel, FailsWhereMeasuringIsWrong) {
  EXPECT_TRUE(judge_sentinel(100'000, 7, 100'007, 7).passed);
  EXPECT_TRUE(judge_sentinel(100'000, 0, 100'099, 0).passed);   // 0.099 %
  EXPECT_FALSE(judge_sentinel(100'000, 0, 100'100, 0).passed);  // 0.1 %
  EXPECT_FALSE(judge_sentinel(100'000, 0, 0, 0).passed);        // not seen at all
  EXPECT_FALSE(judge_sentinel(100'000, 0, 0, 0).freed);
  const Sentinel kept = judge_sentinel(100'000, 0, 100'000, 100'000);
  EXPECT_FALSE(kept.passed);
  EXPECT_NE(kept.text().find("FAILED"), std::string::npos);
  EXPECT_NE(kept.text().find("not all freed"), std::string::npos);
}

MemoryReport steps() {
  MemoryReport report;
  report.seconds = 4;
  report.start_bytes = 100;
  report.peak_bytes = report.peak_reserved = 800;
  report.timeline = {{0, 100, 100}, {1, 900, 900}, {2, 500, 500}, {3.5, 100, 100}, {4, 100, 100}};
  return report;
}

TEST(MemoryPictures, SparklineHoldsTheMostOfEachPart) {
  EXPECT_EQ(sparkline(steps(), 4, 800, 4), "▁██▄");
  EXPECT_EQ(sparkline(steps(), 8, 800, 4), "██▁");  // over after half of the time
  EXPECT_EQ(sparkline(MemoryReport(), 1, 1, 4), "");
}

TEST(MemoryPictures, SvgNamesItsLinesAndUnits) {
  const std::string svg = memory_svg("a < b & c", {{"eager", steps()}, {"graft", steps()}});
  for (const char* text :
       {"a &lt; b &amp; c", "eager, peak 800 B", "graft, peak 800 B", "above the start, B",
        "call began, s", "prefers-color-scheme: dark", "</svg>"}) {
    EXPECT_NE(svg.find(text), std::string::npos) << text << '\n' << svg;
  }
  EXPECT_EQ(svg.find("http", svg.find("2000/svg")), std::string::npos);  // nothing is fetched
  EXPECT_EQ(svg.find("dashed"), std::string::npos);                      // reserved nowhere differs
}

TEST(MemoryReport, AsJson) {
  MemoryReport report = steps();
  report.peak_resident = -1;
  report.largest = {{400, 2, "aten::mul", "layer"}};
  const nlohmann::json json = to_json(report);
  EXPECT_EQ(json["peak_bytes"], 800);
  EXPECT_TRUE(json["peak_resident"].is_null());
  EXPECT_EQ(json["timeline"][1], (nlohmann::json{1.0, 900, 900}));
  EXPECT_EQ(json["largest"][0]["op"], "aten::mul");
}

}  // namespace
}  // namespace graft::lab
