#include "lab/gate.h"

#include <gtest/gtest.h>

#include <random>

namespace graft::lab {
namespace {

std::vector<double> times(double center, uint64_t seed, size_t count = 60) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> draw(0, 0.01);
  std::vector<double> out;
  for (size_t i = 0; i < count; ++i) out.push_back(center * (1 + std::abs(draw(random))));
  return out;
}

Row row(const std::string& name, const std::string& variant, std::vector<double> samples) {
  Row r;
  r.name = name, r.variant = variant, r.samples_ms = std::move(samples);
  return r;
}

lab::Run run(double eager, double graft, uint64_t seed) {
  lab::Run r;
  r.rows = {row("a", "eager", times(eager, seed)), row("a", "graft", times(graft, seed + 1))};
  return r;
}

Outcome outcome(const std::vector<GateRow>& rows, const std::string& variant) {
  for (const GateRow& r : rows)
    if (r.variant == variant) return r.outcome;
  ADD_FAILURE() << variant;
  return Outcome::Same;
}

TEST(Gate, ASlowerVariantIsARegression) {
  const auto rows = gate(run(10, 2, 1), run(10, 2.4, 3));
  EXPECT_EQ(outcome(rows, "graft"), Outcome::Regression);
  EXPECT_EQ(outcome(rows, "eager"), Outcome::Same);
  EXPECT_NEAR(rows[1].change.ratio, 2 / 2.4, 0.02);
  EXPECT_TRUE(rows[1].relative);
  EXPECT_EQ(outcome(gate(run(10, 2.4, 1), run(10, 2, 3)), "graft"), Outcome::Faster);
}

TEST(Gate, ASlowerMachineIsNot) {
  const auto rows = gate(run(10, 2, 1), run(15, 3, 3));
  EXPECT_EQ(outcome(rows, "graft"), Outcome::Same);
  EXPECT_EQ(outcome(rows, "eager"), Outcome::Ambiguous) << "it has nothing to be relative to";
}

TEST(Gate, AFasterReferenceDoesNotMakeOthersSlower) {
  EXPECT_EQ(outcome(gate(run(10, 2, 1), run(8, 2, 3)), "graft"), Outcome::Ambiguous);
}

TEST(Gate, AVariantAloneIsJudgedByItsTime) {
  lab::Run before = run(10, 2, 1), now = run(10, 2.4, 3);
  before.rows.erase(before.rows.begin()), now.rows.erase(now.rows.begin());
  EXPECT_EQ(outcome(gate(before, now), "graft"), Outcome::Regression);
  now.rows[0].samples_ms.resize(3);
  EXPECT_EQ(outcome(gate(before, now), "graft"), Outcome::Ambiguous) << "too few samples";
}

TEST(Gate, NoiseWithinTheRunsRaisesTheThreshold) {
  lab::Run now = run(10, 2, 3);
  auto& samples = now.rows[1].samples_ms;  // it drifts by 20 % while it runs
  for (size_t i = samples.size() / 2; i < samples.size(); ++i) samples[i] *= 1.2;
  const auto rows = gate(run(10, 2, 1), now);
  EXPECT_GT(rows[1].threshold, 0.15);
  EXPECT_NE(rows[1].outcome, Outcome::Regression);
}

TEST(Gate, OtherResultsAreARegression) {
  lab::Run before = run(10, 2, 1), now = run(10, 2, 3);
  before.rows[1].bitwise = true, now.rows[1].bitwise = false;
  EXPECT_EQ(outcome(gate(before, now), "graft"), Outcome::Regression);
}

TEST(Gate, MissingAndNewOnesAreNamed) {
  lab::Run now = run(10, 2, 3);
  now.rows[1].status = Status::Crashed, now.rows[1].samples_ms.clear();
  now.rows.push_back(row("b", "graft", times(1, 9)));
  const auto rows = gate(run(10, 2, 1), now);
  EXPECT_EQ(outcome(rows, "eager"), Outcome::Same);
  ASSERT_EQ(rows.size(), 3u);
  now.rows[1].status = Status::Skipped;
  EXPECT_EQ(gate(run(10, 2, 1), now)[1].outcome, Outcome::Missing);
  EXPECT_EQ(rows[1].outcome, Outcome::Regression);
  EXPECT_NE(rows[1].why.find("crashed"), std::string::npos);
  EXPECT_EQ(rows[2].outcome, Outcome::New);
}

TEST(Gate, NamesWhatDiffersBetweenMachines) {
  lab::Run a, b;
  a.context = {{"cpu", "x"}, {"threads", 2}}, b.context = {{"cpu", "y"}, {"threads", 2}};
  EXPECT_EQ(difference_of_contexts(a, b), "cpu: \"x\" against \"y\"");
  EXPECT_EQ(difference_of_contexts(a, a), "");
}

}  // namespace
}  // namespace graft::lab
