// Eager against the plans of a range of sizes: what proofs decide.
#include "runtime/proof/odds.h"

#include <gtest/gtest.h>

#include <optional>

namespace graft::runtime {
namespace {

void expect(const std::optional<Odds::Verdict>& came, bool faster, int64_t until_proof) {
  ASSERT_TRUE(came);
  EXPECT_EQ(came->faster, faster);
  EXPECT_EQ(came->until_proof, until_proof);
}

TEST(Odds, AClearGainNeedsNoOtherProof) {
  Odds odds;
  expect(odds.add(1.6, false), true, 0);
}

TEST(Odds, CloseSidesAreProvenAgain) {
  Odds odds;
  expect(odds.add(1.1, false), true, 16);
  expect(odds.add(0.9, false), true, 32);  // the median is 1
  expect(odds.add(0.8, false), false, 256);
  for (double gain : {1.2, 1.2, 1.2}) ASSERT_TRUE(odds.add(gain, false));
  expect(odds.add(1.2, false), true, 0);  // seven of them are enough
}

TEST(Odds, OneLuckyProofDoesNotOutweighTheOthers) {
  Odds odds;
  for (int k = 0; k < 3; ++k) ASSERT_FALSE(odds.add(0.9, false)->faster);
  expect(odds.add(5, false), false, 64 << 3);
}

TEST(Odds, WhatCompilesBesideCountsLittle) {
  Odds odds;
  expect(odds.add(1.6, true), true, 8);
  expect(odds.add(0.5, true), false, 8);
  expect(odds.add(4.5, true), true, 0);
  expect(odds.add(0.9, false), false, 64);  // as if it were the first
}

TEST(Odds, GivingUpDecidesTheThirdTime) {
  Odds odds;
  EXPECT_FALSE(odds.add(std::nullopt, false));
  EXPECT_FALSE(odds.add(std::nullopt, true));
  expect(odds.add(std::nullopt, false), false, 64);
}

}  // namespace
}  // namespace graft::runtime
