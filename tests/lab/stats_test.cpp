#include "lab/stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace graft::lab {
namespace {

using Sample = std::vector<double>;

Sample normal(size_t n, double center, double spread, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> draw(center, spread);
  Sample out(n);
  for (double& value : out) value = draw(random);
  return out;
}

TEST(Stats, CenterAndSpread) {
  const Sample x{4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(mean(x), 2.5);
  EXPECT_DOUBLE_EQ(median(x), 2.5);
  EXPECT_DOUBLE_EQ(median(Sample{5, 1, 3}), 3);
  EXPECT_NEAR(stddev(x), 1.2909944487358056, 1e-15);  // numpy.std(x, ddof=1)
  EXPECT_DOUBLE_EQ(stddev(Sample{7}), 0);
  EXPECT_DOUBLE_EQ(geometric_mean(Sample{1, 4, 16}), 4);
}

TEST(Stats, EmptySamplesAreNaN) {
  EXPECT_TRUE(std::isnan(mean({})));
  EXPECT_TRUE(std::isnan(median({})));
  EXPECT_TRUE(std::isnan(stddev({})));
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
  EXPECT_TRUE(std::isnan(geometric_mean({})));
  EXPECT_TRUE(std::isnan(bootstrap_ratio({}, Sample{1}).ratio));
  EXPECT_TRUE(std::isnan(mann_whitney({}, Sample{1}).p));
  EXPECT_EQ(tukey_outliers({}).total(), 0);
}

TEST(Stats, QuantileInterpolatesAsNumpy) {
  const Sample x{10, 20, 30, 40};
  EXPECT_DOUBLE_EQ(quantile(x, 0), 10);
  EXPECT_DOUBLE_EQ(quantile(x, 0.25), 17.5);
  EXPECT_DOUBLE_EQ(quantile(x, 0.9), 37);
  EXPECT_DOUBLE_EQ(quantile(x, 1), 40);
}

TEST(Stats, BootstrapCoversTheTrueRatio) {
  int covered = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Ratio r = bootstrap_ratio(normal(40, 20, 1, 2 * seed), normal(40, 10, 1, 2 * seed + 1));
    EXPECT_LE(r.lo, r.ratio);
    EXPECT_LE(r.ratio, r.hi);
    covered += r.lo <= 2 && 2 <= r.hi;
  }
  EXPECT_GE(covered, 88);  // 95 of 100 on average; a fixed seed, so no flake
}

TEST(Stats, BootstrapIsRepeatable) {
  const Sample a = normal(30, 2, 0.1, 1), b = normal(30, 1, 0.1, 2);
  const Ratio first = bootstrap_ratio(a, b, 7), second = bootstrap_ratio(a, b, 7);
  EXPECT_EQ(first.lo, second.lo);
  EXPECT_EQ(first.hi, second.hi);
}

TEST(Stats, RankTestExact) {
  // scipy.stats.mannwhitneyu([1,2,3,4], [5,6,7,8], method="exact"): U = 0, p = 2 / C(8,4)
  const RankTest apart = mann_whitney(Sample{1, 2, 3, 4}, Sample{5, 6, 7, 8});
  EXPECT_DOUBLE_EQ(apart.u, 0);
  EXPECT_NEAR(apart.p, 2.0 / 70, 1e-15);
  // Of the C(5,2) = 10 splits, U <= 2 has 1 + 1 + 2.
  const RankTest mixed = mann_whitney(Sample{1, 4}, Sample{2, 3, 5});
  EXPECT_DOUBLE_EQ(mixed.u, 2);
  EXPECT_NEAR(mixed.p, 0.8, 1e-15);
}

TEST(Stats, RankTestApproximation) {
  const Sample a = normal(60, 10, 1, 3);
  EXPECT_GT(mann_whitney(a, normal(60, 10, 1, 4)).p, 0.05);
  EXPECT_LT(mann_whitney(a, normal(60, 12, 1, 5)).p, 1e-6);
  // Ties, worked by hand: U = 3.5, variance = 9/12 (7 - 30/30) = 4.5, z = (1 - 0.5) / sqrt(4.5).
  const RankTest tied = mann_whitney(Sample{1, 2, 2}, Sample{2, 1, 3});
  EXPECT_DOUBLE_EQ(tied.u, 3.5);
  EXPECT_NEAR(tied.p, std::erfc(0.5 / std::sqrt(2 * 4.5)), 1e-15);
  EXPECT_DOUBLE_EQ(mann_whitney(Sample{1, 1}, Sample{1, 1}).p, 1);
}

TEST(Stats, RankTestExactAndApproximateMeet) {
  const Sample a = normal(20, 10, 1, 6), b = normal(20, 10.7, 1, 7);
  Sample more = b;
  more.push_back(10.35);  // 21 values: the approximation
  EXPECT_NEAR(mann_whitney(a, b).p, mann_whitney(a, more).p, 0.03);
}

TEST(Stats, TukeyFences) {
  Sample x;
  for (int i = 0; i <= 100; ++i)
    x.push_back(i);  // quartiles 25 and 75: fences -50, 150 and -125, 225
  EXPECT_EQ(tukey_outliers(x).total(), 0);
  x.insert(x.end(), {-300, 180, 400, 500});
  const Outliers out = tukey_outliers(x);
  EXPECT_EQ(out.low_severe, 1);
  EXPECT_EQ(out.low_mild, 0);
  EXPECT_EQ(out.high_mild, 1);
  EXPECT_EQ(out.high_severe, 2);
}

}  // namespace
}  // namespace graft::lab
