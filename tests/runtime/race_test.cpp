#include "runtime/proof/race.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "graft/graft.h"

namespace graft::runtime {
namespace {

/// Runs a race with the given times; gives the number of calls it took.
int race_of(Race& race, double eager, double compiled, double noise = 0) {
  int calls = 0;
  double wobble = 1;
  while (!race.decided() && calls < 100) {
    bool is_eager = race.next() == Race::Side::Eager;
    wobble = -wobble;
    race.add(race.next(), (is_eager ? eager : compiled) * (1 + noise * wobble * (calls % 3)));
    ++calls;
  }
  return calls;
}

TEST(Race, AClearWinnerNeedsThreePairs) {
  Race race;
  EXPECT_EQ(race_of(race, 100, 50), 8) << "three of each, and one of each to warm up";
  EXPECT_TRUE(race.compiled_wins());
  EXPECT_EQ(race.text(), "50 us against eager's 100 us (2.00x), 3 calls of each");
  Race other;
  race_of(other, 50, 100);
  EXPECT_FALSE(other.compiled_wins());
}

TEST(Race, LongCallsFarApartNeedOnePair) {
  Race race;
  EXPECT_EQ(race_of(race, 2e5, 3e4), 3) << "and one to warm the shorter side up";
  EXPECT_TRUE(race.compiled_wins());
  Race close;
  EXPECT_GT(race_of(close, 4e4, 3e4), 3);
}

TEST(Race, ATieEndsAndGoesToTheCompiledSide) {
  Race race;
  EXPECT_EQ(race_of(race, 100, 100), 32);
  EXPECT_TRUE(race.compiled_wins());
}

TEST(Race, NoiseTakesLonger) {
  Race race;
  EXPECT_GT(race_of(race, 100, 99, 0.2), 8);
  EXPECT_TRUE(race.decided());
}

/// What else the machine does slows calls and quickens none.
TEST(Race, WhereCallsAreDisturbedTheFastestTell) {
  Race race;
  for (int call = 0; !race.decided() && call < 100; ++call) {
    const bool is_eager = race.next() == Race::Side::Eager;
    race.add(race.next(), is_eager ? 300 : call % 4 == 1 ? 200 : 409);
  }
  EXPECT_TRUE(race.decided());
  EXPECT_TRUE(race.compiled_wins()) << race.text();
}

TEST(Race, LongCallsEndItEarly) {
  Race race;
  EXPECT_LE(race_of(race, 4e6, 3e6), 2) << "seconds per call: one of each is enough";
  EXPECT_TRUE(race.compiled_wins());
}

TEST(Race, ALoserWaitsUntilTheNextRaceCostsLittle) {
  Race race;
  EXPECT_EQ(race_of(race, 100, 300), 8);
  ASSERT_FALSE(race.compiled_wins());
  EXPECT_EQ(race.calls_to_rematch(1), 50 * 4 * 300 / 100);
  EXPECT_EQ(race.calls_to_rematch(2), 2 * race.calls_to_rematch(1));
  EXPECT_EQ(race.calls_to_rematch(2000), int64_t{1000000000000000});
  Race close;
  race_of(close, 4e6, 4.1e6);
  ASSERT_FALSE(close.compiled_wins());
  EXPECT_EQ(close.calls_to_rematch(1), 100) << "at least";
}

TEST(Race, AWinnerRacesAgainWhenThatCostsLittle) {
  EXPECT_EQ(calls_to_recheck(3000, 100, 1), 50 * 4 * 30);
  EXPECT_EQ(calls_to_recheck(3000, 100, 2), 16 * calls_to_recheck(3000, 100, 1));
  EXPECT_EQ(calls_to_recheck(110, 100, 1), 1000) << "at least";
  EXPECT_EQ(calls_to_recheck(3000, 100, 4), 0) << "it has won often enough";
}

/// A function that counts its runs: a compiled call runs none of it.
TEST(Race, AWinnerRacesAgain) {
  int runs = 0;
  const auto f = [&runs](const at::Tensor& x) {
    ++runs;
    return ((x * 2 + 1).tanh() * x - 3).abs().sqrt() + x;
  };
  Options options;
  options.async = options.cache = false;
  auto compiled = compile(f, options);
  const at::Tensor x = at::randn({1 << 14});
  for (int call = 0; call < 100 && compiled.report().verdict != Verdict::Faster; ++call)
    compiled(x);
  if (compiled.report().verdict != Verdict::Faster) GTEST_SKIP() << compiled.report().reason;
  const Report raced = compiled.report();
  const int64_t calls = calls_to_recheck(raced.eager_us, raced.compiled_us, 1);
  if (calls > 100'000) GTEST_SKIP() << raced.reason;
  const int before = runs;
  for (int64_t call = 0; call < calls - 1; ++call) compiled(x);
  EXPECT_EQ(runs, before) << "not so soon";
  for (int call = 0; call < 4; ++call) compiled(x);
  EXPECT_GT(runs, before);
}

TEST(Race, ABusyMomentLosesNoRace) {
  Race race;
  const auto add = [&](double eager, double compiled) {
    race.add(Race::Side::Eager, eager), race.add(Race::Side::Compiled, compiled);
  };
  add(1e4, 5e3);    // to warm up
  add(1e4, 3.1e4);  // 31 ms that another program shared
  EXPECT_FALSE(race.decided());
  add(1e4, 3e4), add(1.01e4, 4e3);
  EXPECT_FALSE(race.decided()) << "its median is the slower one, its fastest call is not";
  for (int pair = 0; pair < 6; ++pair) add(1e4, 4e3);
  EXPECT_TRUE(race.decided());
  EXPECT_TRUE(race.compiled_wins());

  Race slower;
  EXPECT_EQ(race_of(slower, 1e4, 3e4), 8) << "three pairs, though far apart";
  EXPECT_FALSE(slower.compiled_wins());
  Race long_calls;
  EXPECT_EQ(race_of(long_calls, 3e4, 2e5), 7) << "one pair is too little against it";
  EXPECT_FALSE(long_calls.compiled_wins());
}

TEST(Race, Median) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({3, 1}), 2);
  EXPECT_EQ(median({9, 1, 2}), 2);
}

}  // namespace
}  // namespace graft::runtime
