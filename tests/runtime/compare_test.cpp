#include "runtime/proof/compare.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "passes/disturb.h"

namespace graft::runtime {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Tolerance loose(c10::ScalarType coarsest = at::kFloat) {
  return {false, coarsest, 1};
}

TEST(Compare, ExactWantsTheBits) {
  at::Tensor x = at::tensor({1.f, -0.f, kNan, kInf});
  EXPECT_TRUE(compare(x, x.clone(), {}).equal);
  Comparison zero = compare(at::tensor({0.f}), at::tensor({-0.f}), {});
  EXPECT_FALSE(zero.equal);
  at::Tensor near = at::tensor({1.f, std::nextafter(2.f, 3.f)});
  Comparison ulp = compare(at::tensor({1.f, 2.f}).view({1, 2}), near.view({1, 2}), {});
  EXPECT_FALSE(ulp.equal);
  EXPECT_EQ(ulp.what, "at [0, 1]: eager 2, compiled 2.0000002384185791");
  EXPECT_NEAR(ulp.max_abs, 2.4e-7, 1e-8);
}

TEST(Compare, AnyNanEqualsAnyNan) {
  at::Tensor a = at::tensor({kNan}), b = at::tensor({-kNan});
  EXPECT_TRUE(compare(a, b, {}).equal);
  EXPECT_TRUE(compare(a, b, {}).bitwise);
  EXPECT_FALSE(compare(a, at::tensor({1.f}), loose()).equal);
  EXPECT_FALSE(compare(at::tensor({1.f}), a, loose()).equal);
  EXPECT_FALSE(compare(at::tensor({kInf}), at::tensor({-kInf}), loose()).equal);
  EXPECT_TRUE(compare(at::tensor({kInf}), at::tensor({kInf}), loose()).equal);
}

TEST(Compare, ToleranceFollowsDtypeAndScale) {
  auto close = [](float a, float b, const Tolerance& t) {
    return compare(at::tensor({a, 1000.f}), at::tensor({b, 1000.f}), t).equal;
  };
  EXPECT_TRUE(close(1000, 1000.005f, loose()));
  EXPECT_FALSE(close(1000, 1000.05f, loose()));
  EXPECT_TRUE(close(0, 0.001f, loose())) << "the tensor's largest value sets the scale";
  EXPECT_FALSE(close(0, 0.01f, loose()));
  EXPECT_TRUE(close(1000, 1010, loose(at::kBFloat16))) << "a float result of a bfloat16 chain";
  EXPECT_FALSE(close(1000, 1100, loose(at::kBFloat16)));
  at::Tensor x = at::tensor({1.f}).to(at::kBFloat16),
             y = at::tensor({1.0078125f}).to(at::kBFloat16);
  EXPECT_TRUE(compare(x, y, loose()).equal);
  EXPECT_FALSE(compare(x, y, loose()).bitwise);
  EXPECT_FALSE(compare(x, y, {}).equal);
}

/// Nobody can tell which side's long sum of doubles is off.
TEST(Compare, DoublesMayDifferByTheErrorOfALongSum) {
  const auto close = [](double a, double b) {
    return compare(at::tensor({a, 1.0}), at::tensor({b, 1.0}), loose(at::kDouble)).equal;
  };
  EXPECT_TRUE(close(0.5, 0.5 * (1 + 1e-12)));
  EXPECT_FALSE(close(0.5, 0.5 * (1 + 1e-10)));
  EXPECT_FALSE(close(0.5, static_cast<double>(0.5f * 1.0000001f)));
}

TEST(Compare, IntegersAndBoolsAreExactAlways) {
  EXPECT_FALSE(compare(at::tensor({1, 2}), at::tensor({1, 3}), loose()).equal);
  EXPECT_FALSE(compare(at::ones({1}, at::kBool), at::zeros({1}, at::kBool), loose()).equal);
  EXPECT_EQ(compare(at::tensor({1, 2}), at::tensor({1, 3}), loose()).what,
            "at [1]: eager 2, compiled 3");
}

TEST(Compare, LayoutsMatter) {
  EXPECT_EQ(compare(at::zeros({2, 3}), at::zeros({3, 2}).t(), {}).what,
            "strides: eager [3, 1], compiled [1, 2]");
  EXPECT_FALSE(compare(at::zeros({2}), at::zeros({3}), {}).equal);
  EXPECT_FALSE(compare(at::zeros({2}), at::zeros({2}, at::kDouble), {}).equal);
  EXPECT_FALSE(compare(at::zeros({2}), at::Tensor(), {}).equal);
  EXPECT_TRUE(compare(at::Tensor(), at::Tensor(), {}).equal);
  at::Tensor t = at::arange(6, at::kFloat).view({2, 3}).t();
  EXPECT_TRUE(compare(t, at::arange(6, at::kFloat).view({2, 3}).t(), {}).equal);
  EXPECT_TRUE(compare(at::zeros({0, 3}), at::zeros({0, 3}), {}).equal);
}

TEST(Compare, ComplexAndNarrowTypes) {
  at::Tensor c = at::complex(at::tensor({1.f, 2.f}), at::tensor({3.f, 4.f}));
  at::Tensor d = at::complex(at::tensor({1.f, 2.f}), at::tensor({3.f, 5.f}));
  EXPECT_EQ(compare(c, d, {}).what, "at [1]: eager 4, compiled 5");
  at::Tensor e = at::tensor({1.f, 2.f}).to(at::kFloat8_e4m3fn),
             f = at::tensor({1.f, 3.f}).to(at::kFloat8_e4m3fn);
  EXPECT_FALSE(compare(e, f, {}).equal);
  EXPECT_TRUE(compare(e, e.clone(), {}).equal);
}

/// 256 values that are 1 or -1 by the sign of noise: some flip in each right run, others stand.
struct Signs {
  at::Tensor eager = at::ones({256});
  Witnesses witnesses;

  Signs() {
    for (int run = 0; run < passes::kDisturbances; ++run) {
      at::Tensor made = at::ones({256});
      const bool strong = run + passes::kStrongDisturbances >= passes::kDisturbances;
      if (run > 0) made += 1e-7f * static_cast<float>(run);  // each is moved a little
      if (strong)
        for (int64_t at = run; at < 256; at += 5) made[at] = -1;
      witnesses.disturbed.push_back(made);
    }
  }
  at::Tensor flipped(const std::vector<int64_t>& at) const {
    at::Tensor made = eager.clone();
    for (const int64_t i : at) made[i] = -1;
    return made;
  }
  bool equal(const at::Tensor& came) const {
    return compare(eager, came, loose(), witnesses).equal;
  }
};

TEST(Compare, SignsOfNoiseMayDiffer) {
  const Signs signs;
  EXPECT_FALSE(compare(signs.eager, signs.flipped({100}), loose()).equal) << "without witnesses";
  EXPECT_TRUE(signs.equal(signs.flipped({100})));
  EXPECT_TRUE(signs.equal(signs.flipped({3, 100, 101, 200})));
  EXPECT_FALSE(signs.equal(signs.eager * 4)) << "further than anything goes";
  EXPECT_FALSE(signs.equal(-signs.eager)) << "more than go so far";
  at::Tensor nan = signs.eager.clone();
  nan[7] = kNan;
  EXPECT_FALSE(signs.equal(nan));
}

TEST(Compare, WhatStandsOrIsCarriedOnIsNoNoise) {
  Signs stands;
  for (at::Tensor& run : stands.witnesses.disturbed) run[100] = 1;
  EXPECT_FALSE(stands.equal(stands.flipped({100}))) << "no disturbance moves it";
  Signs carried;
  for (size_t run = 0; run < carried.witnesses.disturbed.size(); ++run) {
    const bool strong = run + passes::kStrongDisturbances >= passes::kDisturbances;
    const double by = run == 0 ? 0 : strong ? passes::kStrong : 1;
    carried.witnesses.disturbed[run] = carried.eager + 0.01 * by;
  }
  EXPECT_TRUE(carried.equal(carried.eager + 0.015)) << "within twice what moves it";
  EXPECT_FALSE(carried.equal(carried.eager + 0.3)) << "the strong ones only carry it further";
}

TEST(Compare, IntegersMayBeWhatDisturbancesMakeOfThem) {
  const at::Tensor compiled = at::tensor({177, 5, 40}, at::kByte);
  Witnesses witnesses;
  for (int run = 0; run < passes::kDisturbances; ++run)
    witnesses.disturbed.push_back(compiled.clone());
  witnesses.disturbed[5] = at::tensor({178, 5, 42}, at::kByte);
  auto equal = [&](const at::Tensor& eager, const Tolerance& tolerance) {
    return compare(eager, compiled, tolerance, witnesses).equal;
  };
  EXPECT_TRUE(equal(at::tensor({178, 5, 41}, at::kByte), loose()));
  EXPECT_FALSE(equal(at::tensor({179, 5, 40}, at::kByte), loose())) << "further than it is moved";
  EXPECT_FALSE(equal(at::tensor({176, 5, 40}, at::kByte), loose())) << "the other way";
  EXPECT_FALSE(equal(at::tensor({177, 6, 40}, at::kByte), loose())) << "it stands";
  EXPECT_FALSE(equal(at::tensor({178, 5, 40}, at::kByte), {})) << "there are no sums";
  const at::Tensor jumps = at::tensor({177, 200, 40}, at::kByte);
  witnesses.disturbed[5] = jumps;
  EXPECT_TRUE(equal(jumps, loose()));
  EXPECT_FALSE(equal(at::tensor({177, 100, 40}, at::kByte), loose())) << "between two places";
  witnesses.disturbed[5] = compiled;
  witnesses.disturbed.back() = at::tensor({178, 5, 42}, at::kByte);
  EXPECT_FALSE(equal(at::tensor({178, 5, 40}, at::kByte), loose())) << "strongly only";
}

TEST(Compare, NoiseHereIsNoExcuseElsewhere) {
  const Signs signs;
  Witnesses half = signs.witnesses;
  const at::Tensor eager = at::cat({signs.eager, at::ones({4096})});
  for (size_t run = 0; run < half.disturbed.size(); ++run)
    half.disturbed[run] =
        at::cat({half.disturbed[run], at::ones({4096}) + 1e-7f * static_cast<float>(run)});
  at::Tensor came = eager.clone();
  came.slice(0, 1000, 1100).fill_(-1);
  EXPECT_FALSE(compare(eager, came, loose(), half).equal);
  came = eager.clone();
  came[2000] = -1;
  EXPECT_TRUE(compare(eager, came, loose(), half).equal) << "one alone";
}

}  // namespace
}  // namespace graft::runtime
