// Generating with a cache against runs over whole sequences, eager and compiled; weights of codes
// against the numbers that they stand for.
#include "workloads/decoder/session.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace graft::workloads::decoder {
namespace {

using at::Tensor;
namespace fs = std::filesystem;

Tensor normal_weight(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::kFloat);
}

/// Of small integers, as numbers and as codes.
struct Coded {
  Tensor codes, scale, zero, group;
  /// (code - zero) * scale, one by one.
  Tensor numbers(int bits) const {
    Tensor out = at::empty(codes.sizes(), at::kFloat);
    const int64_t columns = codes.size(1), size = columns / scale.size(1);
    for (int64_t i = 0; i < codes.size(0); ++i)
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t g = group.defined() ? group[j].item<int64_t>() : j / size;
        const float z = zero.defined() ? zero[i][g].item<float>()
                                       : static_cast<float>(int64_t{1} << (bits - 1));
        out[i][j] = (codes[i][j].item<float>() - z) * scale[i][g].item<float>();
      }
    return out;
  }
};

TEST(Weight, OfCodesIsWhatTheyStandFor) {
  for (const int bits : {3, 4, 8})
    for (const int64_t groups : {1, 3, 4})
      for (const bool with_zero : {false, true})
        for (const bool mixed : {false, true}) {
          const int64_t rows = 5, columns = 48;
          const auto from = at::detail::createCPUGenerator(7);
          Coded c;
          c.codes = at::randint(int64_t{1} << bits, {rows, columns}, from, at::kByte);
          c.scale = at::rand({rows, groups}, from, at::kFloat) + 0.5;
          if (with_zero) c.zero = at::randint(int64_t{1} << bits, {rows, groups}, from, at::kFloat);
          if (mixed) c.group = at::arange(columns).remainder(groups);
          const Weight weight = coded_weight(c.codes, c.scale, c.zero, bits, c.group);
          const Tensor x = normal_weight({2, columns}, 9);
          EXPECT_TRUE(at::allclose(linear(x, weight), at::linear(x, c.numbers(bits)), 1e-4, 1e-3))
              << bits << " bits, " << groups << " groups" << (with_zero ? ", zeros" : "")
              << (mixed ? ", mixed" : "");
          EXPECT_EQ(weight.rows(), rows);
        }
}

TEST(Weight, NearestCodesAreNear) {
  const Tensor numbers = normal_weight({6, 40}, 3), x = normal_weight({3, 40}, 4);
  for (const int bits : {4, 8}) {
    const Weight weight = nearest_codes(numbers, bits, 8);
    const Tensor back = linear(at::eye(40), weight).t();
    const Tensor largest = numbers.view({6, 5, 8}).abs().amax(-1, true);
    const Tensor step = largest.expand({6, 5, 8}).reshape({6, 40}) / ((1 << (bits - 1)) - 1);
    EXPECT_TRUE(((back - numbers).abs() <= step * 0.501).all().item<bool>()) << bits;
    EXPECT_TRUE(linear(x.to(at::kBFloat16), weight).scalar_type() == at::kBFloat16);
  }
  EXPECT_TRUE(at::equal(linear(x, nearest_codes(at::zeros({2, 40}), 4, 40)), at::zeros({3, 2})));
}

TEST(Weight, RefusesWhatDoesNotFit) {
  const Tensor codes = at::zeros({2, 12}, at::kByte), scale = at::ones({2, 3});
  EXPECT_THROW(coded_weight(codes, scale, {}, 5), std::invalid_argument);
  EXPECT_THROW(coded_weight(codes, at::ones({2, 5}), {}, 4), std::invalid_argument);
  EXPECT_THROW(coded_weight(codes, at::ones({3, 3}), {}, 4), std::invalid_argument);
  EXPECT_THROW(coded_weight(codes.to(at::kInt), scale, {}, 4), std::invalid_argument);
  EXPECT_THROW(coded_weight(codes, scale, at::ones({2, 2}), 4), std::invalid_argument);
  EXPECT_THROW(coded_weight(codes, scale, {}, 4, at::zeros({12}, at::kLong)),
               std::invalid_argument);
  EXPECT_THROW(coded_weight(at::zeros({2, 9}, at::kByte), scale, {}, 4), std::invalid_argument);
  EXPECT_THROW(nearest_codes(at::zeros({2, 12}), 4, 5), std::invalid_argument);
  EXPECT_THROW(nearest_codes(at::zeros({2, 12}), 3, 4), std::invalid_argument);
}

class SessionTest : public ::testing::TestWithParam<const char*> {
 protected:
  SessionTest()
      : decoder_(
            Decoder::read(fs::path(GRAFT_SOURCE_DIR) / "tests/workloads/fixtures" / GetParam())) {
    Generator made{decoder_.config, decoder_.outer.embedding, decoder_.outer.norm, {}, {}};
    made.head = dense_weight(decoder_.outer.head);
    for (const LayerWeights& layer : decoder_.layers) made.layers.push_back(layer_of(layer));
    plain_ = std::make_shared<const Generator>(made);
    for (Layer& layer : made.layers)
      for (Weight* w : layer.weights()) {
        const Tensor bias = w->bias;
        *w = nearest_codes(w->values, w == &layer.o ? 8 : 4, w->values.size(1));
        w->bias = bias;
      }
    coded_ = std::make_shared<const Generator>(std::move(made));
  }

  static std::vector<int64_t> continued(Session& session, const Tensor& prompt, int64_t count) {
    std::vector<int64_t> out;
    Tensor logits = session.feed(prompt);
    for (int64_t k = 0; k < count; ++k) {
      const Tensor next = logits.argmax(-1, true);
      out.push_back(next.item<int64_t>());
      if (k + 1 < count) logits = session.feed(next);
    }
    return out;
  }

  Decoder decoder_;
  std::shared_ptr<const Generator> plain_, coded_;
  const Tensor prompt_ = at::tensor({3, 1, 30, 7, 7, 12}, at::kLong);
};

TEST_P(SessionTest, GoesOnAsRunsOverTheWholeSequence) {
  const Tensor expected = greedy(decoder_, prompt_, 9);
  for (const bool compiled : {false, true}) {
    Session session(plain_, 20, compiled);
    for (int time = 0; time < 3; ++time) {
      session.clear();
      const std::vector<int64_t> tokens = continued(session, prompt_, 9);
      EXPECT_TRUE(at::equal(at::tensor(tokens, at::kLong), expected)) << compiled << time;
      session.wait();
    }
    EXPECT_EQ(session.length(), 14);
    if (!compiled) continue;
    const Report layer = session.reports().at("layer");
    EXPECT_GT(layer.plan_hits, 0);
    EXPECT_EQ(layer.breaks, 0);
  }
}

TEST_P(SessionTest, InPartsGivesTheLogitsOfTheWhole) {
  const Tensor whole = decoder_.forward(prompt_.unsqueeze(0))[0][-1];
  Session session(plain_, 6, false);
  session.feed(prompt_.slice(0, 0, 2));
  session.feed(prompt_.slice(0, 2, 5));
  EXPECT_TRUE(at::allclose(session.feed(prompt_.slice(0, 5)), whole, 1e-4, 1e-5));
}

TEST_P(SessionTest, WeightsOfCodesGiveTheSameCompiled) {
  Session eager(coded_, 20, false), compiled(coded_, 20, true);
  for (int time = 0; time < 3; ++time) {
    eager.clear(), compiled.clear();
    EXPECT_EQ(continued(compiled, prompt_, 9), continued(eager, prompt_, 9));
    compiled.wait();
  }
  EXPECT_GT(compiled.reports().at("layer").plan_hits, 0);
  EXPECT_LT(coded_->bytes_per_token(), plain_->bytes_per_token());
}

TEST_P(SessionTest, RefusesWhatDoesNotFit) {
  Session session(plain_, 4, false);
  EXPECT_THROW(session.feed(prompt_), std::invalid_argument);  // no room
  EXPECT_THROW(session.feed(prompt_.slice(0, 0, 2).to(at::kInt)), std::invalid_argument);
  EXPECT_THROW(session.feed(at::tensor({1, 99}, at::kLong)), std::invalid_argument);
  EXPECT_THROW(session.feed(at::tensor({-1}, at::kLong)), std::invalid_argument);
  EXPECT_THROW(session.feed(prompt_.slice(0, 0, 0)), std::invalid_argument);
  EXPECT_EQ(session.length(), 0);
  EXPECT_THROW(Session(plain_, 1 << 20, false), std::invalid_argument);
  EXPECT_THROW(Session(plain_, 0, false), std::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Models, SessionTest, ::testing::Values("decoder_llama", "decoder_qwen2"));

}  // namespace
}  // namespace graft::workloads::decoder
