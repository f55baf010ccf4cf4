// What the reports say of rows: against their reference, in words, along a sweep.
#include "lab/report/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "lab/words.h"
#include "tests/lab/report_runs.h"

namespace graft::lab {
namespace {

TEST(Report, FactsStandBesideTheReference) {
  const lab::Run run = small_run();
  const std::vector<CaseFacts> cases = facts_of(run);
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[0].reference()->row->variant, "eager");
  const RowFacts& rope = cases[0].rows[1];
  ASSERT_TRUE(rope.against);
  EXPECT_NEAR(rope.against->ratio.ratio, 4, 1e-9);
  EXPECT_EQ(verdict_text(rope), "faster");
  EXPECT_EQ(class_text(rope), "excellent");
  ASSERT_TRUE(rope.pays_after);
  EXPECT_NEAR(*rope.pays_after, 10, 1e-9);  // 60 ms at 6 ms per call
  EXPECT_EQ(pays_text(rope), "10 calls");
  const RowFacts& sum = cases[1].rows[1];
  EXPECT_EQ(verdict_text(sum), "slower");
  EXPECT_EQ(class_text(sum), "investigate");
  EXPECT_EQ(pays_text(sum), "never");
  EXPECT_EQ(verdict_text(cases[1].rows[0]), "reference");
}

TEST(Report, WhatWasMeasuredAloneIsComparedWithEagerAlone) {
  lab::Run run;
  // In turns each leaves the other cold caches; the machine was three times as busy later.
  run.rows = {row_of("block", "eager", 4), row_of("block", "graft", 2),
              row_of("block", "eager_alone", 9), row_of("block", "graft_alone", 3)};
  run.rows[2].isolated = run.rows[3].isolated = true;
  run.rows[3].compile_ms = 60;
  const std::vector<CaseFacts> cases = facts_of(run);
  const std::vector<RowFacts>& rows = cases[0].rows;
  EXPECT_EQ(cases[0].reference()->row->variant, "eager");
  EXPECT_NEAR(rows[1].against->ratio.ratio, 2, 1e-9);
  EXPECT_NEAR(rows[3].against->ratio.ratio, 3, 1e-9);
  EXPECT_NEAR(*rows[3].pays_after, 10, 1e-9);
  EXPECT_EQ(verdict_text(rows[2]), "reference");
  EXPECT_EQ(to_json(run)["results"][3]["ratio"]["to"], "eager_alone");
  EXPECT_FALSE(to_json(run)["results"][2].contains("ratio"));
  // A file of before has no such eager.
  run.rows.erase(run.rows.begin() + 2);
  EXPECT_NEAR(facts_of(run)[0].rows[2].against->ratio.ratio, 4.0 / 3, 1e-9);
}

TEST(Report, NoGainThatNoiseExplainsPays) {
  lab::Run run;
  run.rows = {row_of("rope", "eager", 1), row_of("rope", "graft", 0.999)};
  run.rows[1].compile_ms = 10;
  const RowFacts row = facts_of(run)[0].rows[1];
  EXPECT_EQ(row.against->verdict, Verdict::Same);
  EXPECT_FALSE(row.pays_after);
  EXPECT_EQ(pays_text(row), "");
}

TEST(Report, AReferenceWithoutSamplesComparesNothing) {
  lab::Run run = small_run();
  run.rows[0].samples_ms.clear();
  run.rows[0].status = Status::Crashed;
  run.rows[0].error = "signal 11";
  const std::vector<CaseFacts> cases = facts_of(run);
  EXPECT_EQ(cases[0].reference(), nullptr);
  EXPECT_FALSE(cases[0].rows[1].against);
  EXPECT_EQ(verdict_text(cases[0].rows[0]), "crashed");
  const std::vector<Note> notes = notes_of(cases);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].about, "rope, eager");
  EXPECT_EQ(notes[0].text, "signal 11");
}

TEST(Report, ScoresCountVerdicts) {
  lab::Run run = small_run();
  run.rows.push_back(row_of("add", "eager", 1));
  Row crashed = row_of("add", "graft", 1);
  crashed.samples_ms.clear();
  crashed.status = Status::Timeout;
  run.rows.push_back(crashed);
  const std::vector<VariantScore> all = scores(facts_of(run));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].variant, "graft");
  EXPECT_EQ(all[0].reference, "eager");
  EXPECT_EQ(all[0].faster, 1);
  EXPECT_EQ(all[0].slower, 1);
  EXPECT_EQ(all[0].without_time, 1);
  EXPECT_EQ(all[0].compared(), 2);
  EXPECT_NEAR(all[0].mean_ratio, std::sqrt(4.0 / 3), 1e-9);
}

TEST(Report, SweepsFollowTheAxisWithTheMostValues) {
  lab::Run run;
  for (const char* rows : {"256", "16", "64"}) {
    for (const char* type : {"f32", "bf16"}) {
      for (const char* variant : {"eager", "graft"}) {
        run.rows.push_back(row_of("softmax", variant, std::stod(rows) / 10));
        run.rows.back().config = {{"rows", rows}, {"dtype", type}};
      }
    }
  }
  run.rows.push_back(row_of("rope", "eager", 1));
  const std::vector<CaseFacts> cases = facts_of(run);
  const std::vector<Sweep> found = sweeps(cases);
  ASSERT_EQ(found.size(), 2u);  // one for each dtype
  EXPECT_EQ(found[0].title, "softmax[dtype=bf16]");
  EXPECT_EQ(found[0].axis, "rows");
  ASSERT_EQ(found[0].lines.size(), 2u);
  ASSERT_EQ(found[0].lines[1].points.size(), 3u);
  EXPECT_EQ(found[0].lines[1].variant, "graft");
  EXPECT_EQ(found[0].lines[1].points[0].first, 16);
  EXPECT_EQ(found[0].lines[1].points[2].first, 256);
}

TEST(Report, WordsHaveUnits) {
  EXPECT_EQ(time_text(0.000773), "773 ns");
  EXPECT_EQ(time_text(0.99996), "1.00 ms");
  EXPECT_EQ(time_text(1.7749), "1.77 ms");
  EXPECT_EQ(time_text(90000), "90.0 s");
  EXPECT_EQ(time_text(std::nan("")), "-");
  EXPECT_EQ(time_tick(20), "20 ms");
  EXPECT_EQ(si_text(1.5e9) + "FLOP/s", "1.50 GFLOP/s");
  EXPECT_EQ(si_tick(1.5e9), "1.5 G");
  EXPECT_EQ(count_text(1, "case"), "1 case");
  EXPECT_EQ(count_text(2, "case"), "2 cases");
  lab::Run run = small_run();
  run.rows[0].fp64_error = 2e-7;
  run.rows[1].fp64_error = 1e-7;
  run.rows[1].bitwise = false;
  run.rows[1].max_abs_diff = 0.0078125;
  EXPECT_EQ(output_text(facts_of(run)[0].rows[1]), "max 7.8e-03, 0.50x error");
  run.rows[1].bitwise = true;
  EXPECT_EQ(output_text(facts_of(run)[0].rows[1]), "bitwise");
}

}  // namespace
}  // namespace graft::lab
