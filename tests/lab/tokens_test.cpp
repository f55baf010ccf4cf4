// Greedy tokens of logits and of decodes.
#include "lab/accuracy/tokens.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace graft::lab {
namespace {

/// The greedy token after `t` is t + step, modulo 10; from `turn` on, that after t + 1 more.
LanguageModel counter(int64_t step, int64_t turn = 1000) {
  return [=](const at::Tensor& ids) {
    at::Tensor next = (ids + step).remainder(10);
    if (ids.size(1) >= turn) next = (next + 1).remainder(10);
    return at::one_hot(next, 10).to(at::kFloat);
  };
}

TEST(Tokens, AgreementOfLogits) {
  const at::Tensor a = at::one_hot(at::arange(1, 7, at::kLong).view({2, 3}), 8).to(at::kFloat);
  at::Tensor b = a.clone();
  EXPECT_TRUE(token_agreement(a, b).identical());
  b[0][2][7] = 1.5;   // token 3 becomes 7
  b[1][1][0] = -0.5;  // token 5 stays
  const TokenAgreement t = token_agreement(a, b);
  EXPECT_EQ(t.positions, 6);
  EXPECT_EQ(t.matches, 5);
  EXPECT_EQ(t.first_divergence, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(t.token_a, 3);
  EXPECT_EQ(t.token_b, 7);
  EXPECT_DOUBLE_EQ(*t.max_logit_diff, 1.5);
  EXPECT_DOUBLE_EQ(*t.mean_logit_diff, 2.0 / 48);
  EXPECT_EQ(t.text(),
            "tokens 5/6 (83.33 %), first divergence at [0, 2]: 3 against 7; logits max 1.50, mean "
            "0.0417");
}

TEST(Tokens, FirstDivergenceIsTheEarliestPosition) {
  const at::Tensor a = at::one_hot(at::zeros({2, 4}, at::kLong), 3).to(at::kFloat);
  at::Tensor b = a.clone();
  b[0][3][1] = 2;
  b[1][1][2] = 2;
  EXPECT_EQ(token_agreement(a, b).first_divergence, (std::vector<int64_t>{1, 1}));
}

TEST(Tokens, DtypesMayDiffer) {
  const at::Tensor a = at::one_hot(at::arange(1, 3, at::kLong), 4).to(at::kFloat);
  const TokenAgreement t = token_agreement(a.mul(1.25), a.to(at::kBFloat16));
  EXPECT_TRUE(t.identical());
  EXPECT_DOUBLE_EQ(*t.max_logit_diff, 0.25);
  EXPECT_TRUE(token_agreement(a[0], a[0]).identical());  // one position
}

TEST(Tokens, GreedyDecode) {
  const GreedyRun run = greedy_decode(counter(3), at::tensor({5, 1}), 4);
  EXPECT_TRUE(run.tokens.equal(at::tensor({4, 7, 0, 3}).view({1, 4}))) << run.tokens;
  const LanguageModel last_only = [](const at::Tensor& ids) {
    return counter(3)(ids).select(1, -1);
  };
  EXPECT_TRUE(greedy_decode(last_only, at::tensor({5, 1}), 4).tokens.equal(run.tokens));
  EXPECT_EQ(greedy_decode(counter(1), at::zeros({2, 3}, at::kInt), 5).tokens.sizes(),
            (at::IntArrayRef{2, 5}));
  EXPECT_EQ(greedy_decode(counter(1), at::tensor({5}), 0).tokens.numel(), 0);
}

TEST(Tokens, DecodesCompared) {
  const at::Tensor prompt = at::tensor({1, 2, 3, 4}).view({2, 2});
  const GreedyRun a = greedy_decode(counter(1), prompt, 8);
  EXPECT_TRUE(token_agreement(a, greedy_decode(counter(1), prompt, 8)).identical());
  const TokenAgreement t = token_agreement(a, greedy_decode(counter(1, 5), prompt, 8));
  EXPECT_EQ(t.positions, 16);
  EXPECT_EQ(t.matches, 6);  // three steps of each, then never again
  EXPECT_EQ(t.first_divergence, (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(t.token_b, t.token_a + 1);
  EXPECT_FALSE(t.max_logit_diff);
  const nlohmann::json json = to_json(t);
  EXPECT_DOUBLE_EQ(json["match_rate"].get<double>(), 0.375);
  EXPECT_EQ(json["first_divergence"]["index"][1], 3);
  EXPECT_TRUE(json["max_logit_diff"].is_null());
}

TEST(Tokens, OtherFormsAreRefused) {
  EXPECT_THROW(token_agreement(at::ones({2, 3}), at::ones({3, 2})), std::invalid_argument);
  EXPECT_THROW(token_agreement(at::ones({}), at::ones({})), std::invalid_argument);
  EXPECT_THROW(greedy_decode(counter(1), at::ones({3}), 1), std::invalid_argument);
  EXPECT_THROW(greedy_decode(counter(1), at::tensor({1}), -1), std::invalid_argument);
  const LanguageModel wrong = [](const at::Tensor& ids) { return ids.select(1, 0); };
  try {
    greedy_decode(wrong, at::tensor({1, 2, 3}), 1);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("expected [batch, length, V]"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace graft::lab
