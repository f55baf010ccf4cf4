// Decisions: what passes chose by cost is recorded, and can be turned without changing results.
#include <gtest/gtest.h>

#include "passes/decider.h"
#include "programs.h"

namespace graft::passes {
namespace {

std::vector<Decision> decisions_of(const ir::Program& program, Settings settings = {}) {
  settings.keep_text = true;
  std::vector<PassRecord> records;
  run(program, settings, &records);
  std::vector<Decision> all;
  for (const PassRecord& record : records)
    all.insert(all.end(), record.decisions.begin(), record.decisions.end());
  return all;
}

std::string text_of(const std::vector<Decision>& decisions) {
  std::string text;
  for (const Decision& d : decisions) {
    text += d.id() + ": " + d.ways[d.taken].name + ", not";
    for (size_t w = 0; w < d.ways.size(); ++w)
      if (w != d.taken) text += " " + d.ways[w].name;
    text += '\n';
  }
  return text;
}

TEST(Decisions, ResidualNormsAreListedInOrder) {
  EXPECT_EQ(text_of(decisions_of(residual_norm(4096, 2048).program)),
            "fuse: %2 + %6: together, not apart\n"
            "fuse: %2 %6 + %3: together, not apart\n"
            "vectors: %2 %6 %3: inside, not v0\n");
}

TEST(Decisions, RowsOfAColumnLoopAreLanesOrTiles) {
  EXPECT_EQ(text_of(decisions_of(columns_in_place().program)), "lanes: %2 %0: v0, not as it is\n");
}

TEST(Decisions, AreNotKeptWhereNobodyAsks) {
  std::vector<PassRecord> records;
  run(residual_norm().program, {}, &records);
  for (const PassRecord& record : records) EXPECT_TRUE(record.decisions.empty()) << record.name;
}

TEST(Decisions, StatementsKeptApartAreKernelsOfTheirOwn) {
  const ir::Program program = residual_norm(4096, 2048).program;
  Settings settings;
  settings.decisions = {{"fuse: %2 %6 + %3", "apart"}};
  EXPECT_EQ(count_of("kernel ", schedule_of(program)), 1u);
  EXPECT_EQ(count_of("kernel ", schedule_of(program, {}, settings)), 2u)
      << schedule_of(program, {}, settings);
}

TEST(Decisions, UnknownOnesChangeNothing) {
  const ir::Program program = residual_norm().program;
  Settings settings;
  settings.decisions = {{"fuse: %2 + %99", "apart"}, {"fuse: %2 + %6", "sideways"}};
  EXPECT_EQ(schedule_of(program, {}, settings), schedule_of(program));
}

/// Differences of neighbours of what takes some work.
ProgramBuilder differences() {
  using ir::Value;
  ProgramBuilder b;
  auto x = b.argument({64, 513}), t = b.temporary(x.sizes), out = b.output({64, 512});
  b.map(t, [](Value v) { return ir::max(v * v + 2.0, v * 3.0) * v; }, x);
  b.map(out, [](Value v, Value w) { return v - w; }, slice(t, 1, 1, 513), slice(t, 1, 0, 512));
  return b;
}

TEST(Decisions, WhatNeighboursReadTwiceIsStoredUntilComputedIsAskedFor) {
  const ir::Program program = differences().program;
  EXPECT_EQ(text_of(decisions_of(program)).find("inline: %1 in %2: stored, not computed\n"), 0u)
      << text_of(decisions_of(program));
  Settings settings;
  EXPECT_NE(schedule_of(program, {}, settings).find("scratch %1"), std::string::npos);
  settings.decisions = {{"inline: %1 in %2", "computed"}};
  EXPECT_EQ(schedule_of(program, {}, settings).find("%1"), std::string::npos)
      << schedule_of(program, {}, settings);
}

TEST(Decisions, EachOtherWayIsTakenAndKeepsTheResults) {
  size_t tried = 0;
  for (const ProgramBuilder& b : {rope({2, 2, 32, 32}), residual_norm(), stacked_states(),
                                  columns_in_place(), long_sum(), differences()}) {
    const std::vector<at::Tensor> arguments = whole_numbers(b);
    const std::string expected = after(b.program, arguments);
    for (const Decision& decision : decisions_of(b.program))
      for (const Decision::Way& way : decision.ways) {
        Settings settings;
        settings.decisions[decision.id()] = way.name;
        const std::string what = decision.id() + ": " + way.name;
        EXPECT_TRUE(after(run(b.program, settings), arguments) == expected) << what;
        const std::vector<Decision> made = decisions_of(b.program, settings);
        EXPECT_TRUE(std::any_of(made.begin(), made.end(), [&](const Decision& d) {
          return d.id() == decision.id() && d.ways[d.taken].name == way.name;
        })) << what;
        ++tried;
      }
  }
  EXPECT_GT(tried, 10u);
}

TEST(Decisions, ManyStatementsAreAFewStoragesAndTheirNumber) {
  std::vector<ir::Statement> statements(5);
  std::vector<const ir::Statement*> given;
  for (ir::Statement& s : statements) {
    s.store.storage = static_cast<int>(given.size());
    given.push_back(&s);
  }
  EXPECT_EQ(stored_by(given), "%0 %1 … %4 (5)");
  given.resize(3);
  EXPECT_EQ(stored_by(given), "%0 %1 %2");
  given.push_back(given[1]);
  EXPECT_EQ(stored_by(given), "%0 %1 %2 (4)");
}

}  // namespace
}  // namespace graft::passes
