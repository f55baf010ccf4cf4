// Profiles: from made-up events, where every figure is known, and of real calls, where the nest is.

#include "lab/profile/profile.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "lab/profile/picture.h"
#include "lab/profile/table.h"

namespace graft::lab {
namespace {

ProfileEvent range(const std::string& name, double start, double duration) {
  return {.name = name, .is_range = true, .start_us = start, .duration_us = duration};
}
ProfileEvent op(const std::string& name, double start, double duration, int64_t thread = 1) {
  return {.name = name, .start_us = start, .duration_us = duration, .thread = thread};
}

/// Two calls: forward = linear(addmm) + attention range with softmax; then a bare add.
Profile made_up() {
  Profile profile;
  profile.calls = 2;
  for (double at : {0.0, 1000.0}) {
    const double slower = at > 0 ? 10 : 0;
    profile.events.push_back(op("aten::add", at + 80, 5 + slower));
    profile.events.push_back(op("aten::addmm", at + 12, 30));
    profile.events.push_back(op("aten::linear", at + 10, 40));
    profile.events.push_back(range("forward", at + 5, 70));
    profile.events.push_back(range("attention", at + 55, 15));
    profile.events.push_back(op("aten::softmax", at + 56, 12));
    profile.events.push_back(range(kCallRange, at, 100));
  }
  nest(profile.events);
  return profile;
}

const OperatorRow& operator_row(const std::vector<OperatorRow>& rows, const std::string& name) {
  for (const OperatorRow& row : rows)
    if (row.name == name) return row;
  throw std::out_of_range("no row " + name);
}

std::string text_of(const Table& table) {
  std::ostringstream out;
  table.print(out);
  return out.str();
}

TEST(Profile, NestsEventsAndSharesTime) {
  const Profile profile = made_up();
  ASSERT_EQ(profile.events.size(), 14u);
  const ProfileEvent& call = profile.events[0];
  EXPECT_EQ(call.name, kCallRange);
  EXPECT_EQ(call.range, "");
  EXPECT_EQ(call.parent, -1);
  EXPECT_DOUBLE_EQ(call.self_us, 100 - 70 - 5);
  const ProfileEvent& forward = profile.events[1];
  EXPECT_EQ(forward.range, "forward");
  EXPECT_DOUBLE_EQ(forward.self_us, 70 - 40 - 15);
  const ProfileEvent& addmm = profile.events[3];
  EXPECT_EQ(addmm.name, "aten::addmm");
  EXPECT_EQ(addmm.range, "forward");
  EXPECT_EQ(addmm.parent, 2);
  EXPECT_DOUBLE_EQ(profile.events[2].self_us, 10);  // linear's own
  const ProfileEvent& softmax = profile.events[5];
  EXPECT_EQ(softmax.range, "forward/attention");
  EXPECT_EQ(profile.events[6].name, "aten::add");
  EXPECT_EQ(profile.events[6].parent, 0);
  EXPECT_EQ(profile.events[7].parent, -1);  // the second call
}

TEST(Profile, ThreadsNestApart) {
  std::vector<ProfileEvent> events{op("aten::mul", 2, 3, 2), op("aten::add", 0, 10, 1)};
  nest(events);
  EXPECT_EQ(events[0].name, "aten::add");
  EXPECT_EQ(events[1].parent, -1);
  EXPECT_DOUBLE_EQ(events[0].self_us, 10);
}

TEST(Profile, RangesInsideByNameNotByLetters) {
  EXPECT_TRUE(inside_range("forward/attention", "forward"));
  EXPECT_TRUE(inside_range("forward", "forward"));
  EXPECT_TRUE(inside_range("", ""));
  EXPECT_FALSE(inside_range("forward2", "forward"));
  EXPECT_FALSE(inside_range("", "forward"));
}

TEST(Profile, OperatorRowsOfARange) {
  const Profile profile = made_up();
  const auto forward = operator_rows(profile, "forward");
  std::vector<std::string> names;
  double shares = 0;
  for (const OperatorRow& row : forward) names.push_back(row.name), shares += row.share;
  EXPECT_EQ(names,
            (std::vector<std::string>{"aten::addmm", kHostCode, "aten::softmax", "aten::linear"}));
  EXPECT_NEAR(shares, 1, 1e-12);
  const OperatorRow& addmm = forward[0];
  EXPECT_DOUBLE_EQ(addmm.share, 60.0 / 140);
  EXPECT_EQ(addmm.instances, 2);
  const OperatorRow& linear = operator_row(forward, "aten::linear");
  EXPECT_DOUBLE_EQ(linear.self_ms, 0.020);
  EXPECT_DOUBLE_EQ(linear.total_ms, 0.080);
  const OperatorRow& host = operator_row(forward, kHostCode);
  EXPECT_EQ(host.instances, 4);
  EXPECT_DOUBLE_EQ(host.self_ms, 0.036);
  EXPECT_DOUBLE_EQ(host.total_ms, 0.140);  // the inner range is in the outer one's

  const auto whole = operator_rows(profile);
  const OperatorRow& add = operator_row(whole, "aten::add");
  EXPECT_DOUBLE_EQ(add.share, 20.0 / 200);
  EXPECT_DOUBLE_EQ(add.avg_us, 10);
  EXPECT_DOUBLE_EQ(add.median_us, 10);
  EXPECT_DOUBLE_EQ(add.min_us, 5);
  EXPECT_DOUBLE_EQ(add.max_us, 15);
  EXPECT_NEAR(add.stddev_us, 7.0710678, 1e-6);
  EXPECT_TRUE(operator_rows(profile, "backward").empty());
}

TEST(Profile, RangeRows) {
  const auto rows = range_rows(made_up());
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].range, "");
  EXPECT_DOUBLE_EQ(rows[0].share, 1);
  EXPECT_EQ(rows[1].range, "forward");
  EXPECT_DOUBLE_EQ(rows[1].share, 0.7);
  EXPECT_EQ(rows[2].range, "forward/attention");
  EXPECT_DOUBLE_EQ(rows[2].avg_us, 15);
  EXPECT_EQ(rows[2].instances, 2);
}

TEST(Profile, KindRowsAddUp) {
  const auto rows = kind_rows(made_up());
  ASSERT_EQ(rows.size(), 4u);  // matmul, element-wise, reduction, other
  EXPECT_EQ(rows[0].kind, Kind::Matmul);
  EXPECT_DOUBLE_EQ(rows[0].share, 0.4);
  EXPECT_EQ(rows[1].kind, Kind::Elementwise);
  EXPECT_DOUBLE_EQ(rows[1].share, 0.1);
  double shares = 0;
  for (const KindRow& row : rows) shares += row.share;
  EXPECT_NEAR(shares, 1, 1e-12);
}

TEST(Profile, TablesCutAndSayWhatIsLeft) {
  const Profile profile = made_up();
  const std::string rows = text_of(table_of(operator_rows(profile), 2));
  EXPECT_NE(rows.find("3 more"), std::string::npos) << rows;
  EXPECT_EQ(rows.find("aten::linear"), std::string::npos) << rows;
  const std::string kinds = text_of(kind_table(profile, {"forward/attention", "forward"}));
  EXPECT_NE(kinds.find("matmul                        -            -          -   57.1 %"),
            std::string::npos)
      << kinds;
  const std::string by_range = text_of(kinds_by_range(profile, {"forward/attention", "forward"}));
  EXPECT_NE(by_range.find("ms per call  matmul"), std::string::npos) << by_range;
  EXPECT_NE(by_range.find("57.1 %"), std::string::npos) << by_range;
}

TEST(Profile, Json) {
  const auto json = to_json(made_up());
  EXPECT_EQ(json["calls"], 2);
  ASSERT_EQ(json["ranges"].size(), 3u);
  EXPECT_EQ(json["ranges"][1]["range"], "forward");
  EXPECT_EQ(json["ranges"][1]["operators"][0]["name"], "aten::addmm");
  EXPECT_EQ(json["ranges"][1]["operators"][0]["kind"], "matmul");
  EXPECT_EQ(json["ranges"][2]["kinds"][0]["kind"], "reduction");
}

TEST(Profile, TraceIsChromesForm) {
  const auto json = nlohmann::json::parse(trace_json(made_up()));
  size_t complete = 0, named = 0;
  for (const auto& event : json["traceEvents"]) {
    named += event["ph"] == "M";
    if (event["ph"] != "X") continue;
    ++complete;
    for (const char* key : {"name", "cat", "ts", "dur", "pid", "tid", "args"})
      EXPECT_TRUE(event.contains(key)) << key;
  }
  EXPECT_EQ(complete, 14u);
  EXPECT_EQ(named, 2u);
  EXPECT_EQ(json["traceEvents"][3]["args"]["range"], "forward");
  EXPECT_EQ(json["traceEvents"][3]["ts"], 12.0);
}

TEST(Profile, FlameGraphMergesCallsAndEscapes) {
  Profile profile = made_up();
  profile.events[1].name = profile.events[8].name = "a<b> & \"c\"";
  const std::string svg = flame_graph(profile, "one & two", 1020);
  EXPECT_EQ(svg.substr(0, 4), "<svg");
  EXPECT_EQ(svg.find("http", 0), svg.find("http://www.w3.org/2000/svg"));
  EXPECT_EQ(svg.find("http", svg.find("http") + 1), std::string::npos);  // needs nothing else
  EXPECT_NE(svg.find("one &amp; two"), std::string::npos);
  EXPECT_NE(svg.find("<title>a&lt;b&gt; &amp; &quot;c&quot;\n0.0700 ms per call, 70.0 %"),
            std::string::npos)
      << svg;
  size_t addmm = 0;
  for (size_t at = svg.find("<title>aten::addmm"); at != std::string::npos;
       at = svg.find("<title>aten::addmm", at + 1))
    ++addmm;
  EXPECT_EQ(addmm, 1u);  // both calls are one
  EXPECT_NE(svg.find("width=\"299.5\""), std::string::npos)
      << svg;  // addmm: 30 of 100 us of 1000 px
}

TEST(Profile, EmptyIsFine) {
  const Profile profile;
  EXPECT_TRUE(operator_rows(profile).empty());
  EXPECT_TRUE(kind_rows(profile).empty());
  EXPECT_EQ(range_rows(profile).size(), 1u);
  EXPECT_EQ(to_json(profile)["calls"], 0);
  EXPECT_NE(flame_graph(profile, "nothing").find("</svg>"), std::string::npos);
}

TEST(Profile, SeesRealOperatorsInTheirRanges) {
  const at::Tensor x = at::ones({16, 32}), w = at::ones({8, 32}).requires_grad_();
  int runs = 0;
  const Profile profile = lab::profile(
      [&] {
        ++runs;
        at::Tensor loss;
        {
          const ProfileRange forward("forward");
          const at::Tensor hidden = at::linear(x, w);
          RECORD_USER_SCOPE("loss");
          loss = hidden.sum();
        }
        const ProfileRange backward("backward");
        loss.backward();
      },
      {.calls = 3, .warmup = 2});
  EXPECT_EQ(runs, 2 + 3 + 3);
  EXPECT_EQ(profile.calls, 3);
  EXPECT_EQ(profile.plain_ms.size(), 3u);
  EXPECT_EQ(profile.call_ms.size(), 3u);
  std::vector<std::string> ranges;
  for (const RangeRow& row : range_rows(profile)) {
    ranges.push_back(row.range);
    EXPECT_EQ(row.instances, 3) << row.range;
  }
  EXPECT_EQ(ranges, (std::vector<std::string>{"", "forward", "forward/loss", "backward"}));
  EXPECT_EQ(operator_row(operator_rows(profile, "forward"), "aten::linear").instances, 3);
  EXPECT_GE(operator_row(operator_rows(profile, "forward/loss"), "aten::sum").instances, 3);
  const auto backward = operator_rows(profile, "backward");
  EXPECT_TRUE(std::any_of(backward.begin(), backward.end(),
                          [](const OperatorRow& row) { return row.kind == Kind::Matmul; }));
  double self = 0, calls = 0;
  for (const ProfileEvent& event : profile.events) {
    self += event.self_us;
    EXPECT_GE(event.start_us, 0);
    EXPECT_LE(event.self_us, event.duration_us);
  }
  for (double ms : profile.call_ms) calls += 1e3 * ms;
  EXPECT_NEAR(self, calls, 1e-3 * calls);  // no time is lost and none is counted twice
}

TEST(Profile, AnErrorPassesThroughAndTheNextProfileWorks) {
  int runs = 0;
  const auto fails = [&] {
    if (++runs == 3) throw std::runtime_error("third");
  };
  EXPECT_THROW(profile(fails, {.calls = 2, .warmup = 0}), std::runtime_error);
  const Profile after = profile([] { at::ones({2}); }, {.calls = 1, .warmup = 0});
  EXPECT_FALSE(operator_rows(after).empty());
}

TEST(Profile, RefusesAProfileWithinAProfile) {
  const auto nested = [] {
    static int depth = 0;
    if (++depth == 2) profile([] {}, {.calls = 1, .warmup = 0});
  };
  try {
    profile(nested, {.calls = 1, .warmup = 0});
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("already active"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace graft::lab
