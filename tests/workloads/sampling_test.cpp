// Tokens that are drawn: which can come, how often, and what is refused.
#include "workloads/decoder/sampling.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace graft::workloads::decoder {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// How often each token comes in so many draws.
std::vector<double> shares(const at::Tensor& logits, const Sampling& sampling, int times = 4000) {
  Sampler sampler(sampling);
  std::vector<double> out(static_cast<size_t>(logits.size(0)));
  for (int k = 0; k < times; ++k) ++out[static_cast<size_t>(sampler.next(logits).item<int64_t>())];
  for (double& share : out) share /= times;
  return out;
}

/// Of probabilities 0.1, 0.5, 0.15 and 0.25.
at::Tensor logits() {
  return at::log(at::tensor({0.1, 0.5, 0.15, 0.25})).to(at::kFloat) + 3;
}

void expect_near(const std::vector<double>& came, const std::vector<double>& expected) {
  ASSERT_EQ(came.size(), expected.size());
  for (size_t k = 0; k < came.size(); ++k) {
    EXPECT_NEAR(came[k], expected[k], expected[k] == 0 || expected[k] == 1 ? 0 : 0.04) << k;
  }
}

TEST(Sampler, TakesTheMostLikelyUnlessToldToDraw) {
  expect_near(shares(logits(), {}, 20), {0, 1, 0, 0});
}

TEST(Sampler, DrawsByProbability) {
  expect_near(shares(logits(), {.temperature = 1}), {0.1, 0.5, 0.15, 0.25});
  // Squared, and scaled to one.
  expect_near(shares(logits(), {.temperature = 0.5}), {0.029, 0.725, 0.065, 0.181});
  expect_near(shares(logits(), {.temperature = 1e-30}), {0, 1, 0, 0});
}

TEST(Sampler, LeavesTheUnlikelyOut) {
  expect_near(shares(logits(), {.temperature = 1, .top_k = 2}), {0, 2.0 / 3, 0, 1.0 / 3});
  expect_near(shares(logits(), {.temperature = 1, .top_k = 9}), {0.1, 0.5, 0.15, 0.25});
  expect_near(shares(logits(), {.temperature = 1, .top_p = 0.6}), {0, 2.0 / 3, 0, 1.0 / 3});
  expect_near(shares(logits(), {.temperature = 1, .top_p = 0.3}), {0, 1, 0, 0});
  // Of two that are left 0.5 / 0.75 is enough.
  expect_near(shares(logits(), {.temperature = 1, .top_k = 2, .top_p = 0.66}), {0, 1, 0, 0});
  const at::Tensor masked = at::tensor({0.0F, -std::numeric_limits<float>::infinity(), 0.0F});
  expect_near(shares(masked, {.temperature = 1}), {0.5, 0, 0.5});
}

TEST(Sampler, TheSameSeedDrawsTheSame) {
  const at::Tensor many = at::randn({1000});
  const auto drawn = [&](uint64_t seed) {
    Sampler sampler({.temperature = 2, .seed = seed});
    std::vector<int64_t> ids;
    for (int k = 0; k < 20; ++k) ids.push_back(sampler.next(many).item<int64_t>());
    return ids;
  };
  EXPECT_EQ(drawn(3), drawn(3));
  EXPECT_NE(drawn(3), drawn(4));
}

std::string error_of(const Sampling& sampling, const at::Tensor& logits) {
  try {
    Sampler(sampling).next(logits);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

TEST(Sampler, RefusesWhatItCannotDrawFrom) {
  const at::Tensor good = logits();
  EXPECT_NE(error_of({.temperature = -1}, good).find("temperature is -1"), std::string::npos);
  EXPECT_NE(error_of({.temperature = kInf}, good).find("temperature is inf"), std::string::npos);
  EXPECT_NE(error_of({.temperature = 1, .top_k = -2}, good).find("top_k is -2"), std::string::npos);
  EXPECT_NE(error_of({.temperature = 1, .top_p = 0}, good).find("top_p is 0"), std::string::npos);
  EXPECT_NE(error_of({.temperature = 1, .top_p = 1.5}, good).find("above 0"), std::string::npos);
  for (const double bad : {static_cast<double>(NAN), kInf})
    EXPECT_NE(error_of({.temperature = 1}, at::tensor({1.0, bad})).find("logits"),
              std::string::npos);
  EXPECT_NE(error_of({.temperature = 1}, at::full({3}, -kInf)).find("logits"), std::string::npos);
}

}  // namespace
}  // namespace graft::workloads::decoder
