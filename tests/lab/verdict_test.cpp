#include "lab/verdict.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace graft::lab {
namespace {

/// Times around `center` with noise that lasts: each is half its neighbour's.
std::vector<double> normal_times(double center, size_t count, uint64_t seed, double noise = 0.03) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> draw(0, noise);
  std::vector<double> out;
  double lasting = 0;
  for (size_t i = 0; i < count; ++i) {
    lasting = 0.5 * lasting + draw(random);
    out.push_back(center * (1 + std::abs(lasting)));
  }
  return out;
}

TEST(Verdict, ClearDifferencesAreNamed) {
  EXPECT_EQ(judge(normal_times(2, 40, 1), normal_times(1, 40, 2)).verdict, Verdict::Faster);
  EXPECT_EQ(judge(normal_times(1, 40, 1), normal_times(1.2, 40, 2)).verdict, Verdict::Slower);
  const Judgement j = judge(normal_times(2, 40, 1), normal_times(1, 40, 2));
  EXPECT_NEAR(j.ratio.ratio, 2, 0.1);
  EXPECT_LT(j.ratio.lo, j.ratio.ratio);
  EXPECT_GT(j.ratio.hi, j.ratio.ratio);
  EXPECT_LT(j.p, 1e-6);
}

TEST(Verdict, IdenticalOnesAreSeldomCalledDifferent) {
  int wrong = 0, same = 0;
  for (uint64_t run = 0; run < 200; ++run) {
    const Verdict v = judge(normal_times(1, 60, 2 * run), normal_times(1, 60, 2 * run + 1)).verdict;
    wrong += v == Verdict::Faster || v == Verdict::Slower;
    same += v == Verdict::Same;
  }
  EXPECT_LT(wrong, 10);
  EXPECT_GT(same, 100);
}

TEST(Verdict, FivePercentIsFound) {
  int found = 0;
  for (uint64_t run = 0; run < 100; ++run)
    found += judge(normal_times(1, 200, 2 * run), normal_times(1.05, 200, 2 * run + 1)).verdict ==
             Verdict::Slower;
  EXPECT_GT(found, 90);
}

TEST(Verdict, AFewSamplesSayNothing) {
  EXPECT_EQ(judge(std::vector<double>{2, 2, 2}, std::vector<double>{1, 1, 1}).verdict,
            Verdict::Ambiguous);
  EXPECT_EQ(judge({}, std::vector<double>{1}).verdict, Verdict::Ambiguous);
  EXPECT_TRUE(std::isnan(judge(std::vector<double>{}, std::vector<double>{}).ratio.ratio));
}

TEST(Verdict, NoiseIsAmbiguous) {
  EXPECT_EQ(judge(normal_times(1, 8, 1, 0.5), normal_times(1.05, 8, 2, 0.5)).verdict,
            Verdict::Ambiguous);
}

TEST(Verdict, DriftThatBothShareCancelsInPairs) {
  std::vector<double> a = normal_times(1, 100, 1, 0.002), b = normal_times(1.05, 100, 2, 0.002);
  for (size_t i = 0; i < a.size(); ++i) {
    const double drift = 1 + static_cast<double>(i) / 100;  // the machine slows down to half
    a[i] *= drift, b[i] *= drift;
  }
  const Ratio paired = judge(a, b).ratio, apart = judge(a, b, {.paired = false}).ratio;
  EXPECT_LT(paired.hi - paired.lo, 0.5 * (apart.hi - apart.lo));
}

TEST(Verdict, Classes) {
  EXPECT_STREQ(gain_class(1.5), "excellent");
  EXPECT_STREQ(gain_class(1.2), "good");
  EXPECT_STREQ(gain_class(1.0), "measured");
  EXPECT_STREQ(gain_class(0.99), "investigate");
}

}  // namespace
}  // namespace graft::lab
