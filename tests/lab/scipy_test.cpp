// Statistics of stored samples against scipy's and numpy's: fixtures/scipy_reference.py.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "lab/stats.h"

namespace graft::lab {
namespace {

nlohmann::json reference() {
  std::ifstream file(GRAFT_SOURCE_DIR "/tests/lab/fixtures/scipy.json");
  return nlohmann::json::parse(file);
}

std::vector<double> samples(const nlohmann::json& of) {
  return of["samples"].get<std::vector<double>>();
}

void expect_near(double ours, const nlohmann::json& theirs, const char* what) {
  const double expected = theirs.get<double>();
  EXPECT_NEAR(ours, expected, 1e-12 * (1 + std::abs(expected))) << what;
}

TEST(Scipy, Summaries) {
  const auto stored = reference();
  ASSERT_GE(stored["pairs"].size(), 4u);
  for (const auto& pair : stored["pairs"]) {
    const auto& theirs = pair["a"];
    const std::vector<double> x = samples(theirs);
    const Summary s = summarise(x);
    expect_near(s.median, theirs["median"], "median");
    expect_near(s.mean, theirs["mean"], "mean");
    expect_near(s.stddev, theirs["stddev"], "stddev");
    expect_near(s.cv, theirs["cv"], "cv");
    expect_near(s.p90, theirs["p90"], "p90");
    expect_near(s.p99, theirs["p99"], "p99");
    expect_near(geometric_mean(x), theirs["geometric_mean"], "geometric mean");
    EXPECT_EQ(s.outliers, theirs["outliers"].get<int>());
    // Both draw at random: the ends agree to a part of the interval's width.
    const double lo = theirs["bootstrap"][0], hi = theirs["bootstrap"][1], width = hi - lo;
    EXPECT_NEAR(s.ci.lo, lo, 0.35 * width + 1e-12);
    EXPECT_NEAR(s.ci.hi, hi, 0.35 * width + 1e-12);
  }
}

TEST(Scipy, RankTests) {
  const auto stored = reference();
  for (const auto& pair : stored["pairs"]) {
    const std::vector<double> a = samples(pair["a"]), b = samples(pair["b"]);
    const RankTest test = mann_whitney(a, b);
    EXPECT_EQ(test.u, pair["u"].get<double>());
    const double p = pair["p"];
    EXPECT_NEAR(test.p, p, 1e-9 + 1e-6 * p);
    const auto& few = pair["few"];
    if (few["ties"]) continue;
    const RankTest exact =
        mann_whitney({a.data(), few["a"].get<size_t>()}, {b.data(), few["b"].get<size_t>()});
    EXPECT_EQ(exact.u, few["u"].get<double>());
    EXPECT_NEAR(exact.p, few["p"].get<double>(), 1e-12);
  }
}

}  // namespace
}  // namespace graft::lab
