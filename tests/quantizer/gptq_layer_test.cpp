// GPTQ of one layer, against an independent implementation: scalar loops, no tensor operators.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <vector>

#include "graft/graft.h"
#include "quantizer/gptq_naive.h"
#include "quantizer/model/grid.h"
#include "quantizer/model/layer.h"
#include "support/compare.h"

namespace graft::quantizer {
namespace {

using at::Tensor;

struct Case {
  int bits = 4;
  int64_t group = -1;
  bool symmetric = true;
  int64_t block = 10;
  bool act_order = false;
  bool masked = false;
  bool dead = false;
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.bits << " bits, group " << c.group << (c.symmetric ? ", sym" : ", asym")
             << ", block " << c.block << (c.act_order ? ", act-order" : "")
             << (c.masked ? ", masked" : "") << (c.dead ? ", dead" : "");
}

class GptqLayer : public testing::TestWithParam<Case> {
 protected:
  static constexpr int64_t kRows = 7, kColumns = 24;

  GptqLayer() {
    inputs_ = correlated(80, kColumns, 3);
    if (GetParam().dead)
      for (int64_t c : {0, 11, 17}) inputs_.select(1, c).zero_();
    weight_ = normal({kRows, kColumns}, 7) * 0.1;
    weight_[2].zero_();  // a row without a scale
    weight_[3].abs_();   // a row on one side of 0
    if (GetParam().masked) mask_ = normal({kRows, kColumns}, 9) > 0.3;
  }

  Settings settings() const {
    const Case& c = GetParam();
    return {.bits = c.bits,
            .group = c.group,
            .symmetric = c.symmetric,
            .block = c.block,
            .act_order = c.act_order};
  }

  LayerResult quantize(const QuantizeBlock& process = quantize_block) const {
    return quantize_layer("q", weight_, hessian_of(inputs_), settings(), process, mask_);
  }

  Tensor inputs_, weight_, mask_;
};

TEST_P(GptqLayer, AgreesWithAScalarImplementation) {
  const LayerResult got = quantize();
  std::vector<std::vector<bool>> mask;
  for (int64_t r = 0; mask_.defined() && r < kRows; ++r) {
    mask.emplace_back();
    for (int64_t c = 0; c < kColumns; ++c) mask[r].push_back(mask_[r][c].item<bool>());
  }
  const NaiveLayer want =
      naive_layer(matrix_of(weight_), matrix_of(hessian_of(inputs_).matrix()), settings(), mask);
  ASSERT_EQ(got.codes.scalar_type(), GetParam().symmetric ? at::kChar : at::kByte);
  ASSERT_EQ(got.scale.sizes(), got.zero.sizes());
  ASSERT_EQ(got.scale.size(1), static_cast<int64_t>(want.scale[0].size()));
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t g = 0; g < got.scale.size(1); ++g) {
      EXPECT_NEAR(got.scale[r][g].item<double>(), want.scale[r][g], 1e-5 * want.scale[r][g]);
      EXPECT_EQ(got.zero[r][g].item<int>(), want.zero[r][g]);
    }
    for (int64_t c = 0; c < kColumns; ++c) {
      EXPECT_EQ(got.codes[r][c].item<int>(), want.codes[r][c]) << r << ", " << c;
      EXPECT_NEAR(got.weight[r][c].item<double>(), want.weight[r][c], 1e-5);
    }
  }
  EXPECT_NEAR(got.loss, want.loss, 1e-4 * want.loss);
  EXPECT_EQ(got.dead_columns, GetParam().dead ? 3 : 0);
  EXPECT_EQ(got.dampening, 0.01);
  ASSERT_EQ(got.group_index.defined(), GetParam().act_order && GetParam().group > 0);
  for (int64_t c = 0; got.group_index.defined() && c < kColumns; ++c)
    EXPECT_EQ(got.group_index[c].item<int>(), want.group_index[c]);
}

TEST_P(GptqLayer, CodesAndScalesAreTheWeight) {
  const LayerResult got = quantize();
  const int64_t width = GetParam().group > 0 ? GetParam().group : kColumns;
  const Tensor groups =
      got.group_index.defined() ? got.group_index : at::arange(kColumns).floor_divide(width);
  const Tensor again = (got.codes.to(at::kInt) - got.zero.index_select(1, groups)).to(at::kFloat) *
                       got.scale.index_select(1, groups);
  EXPECT_TRUE(test::same(got.weight, again));
  if (mask_.defined()) {
    EXPECT_TRUE((got.weight.masked_select(mask_) == 0).all().item<bool>());
  }
  if (GetParam().dead) {
    EXPECT_TRUE((got.weight.select(1, 11) == 0).all().item<bool>());
  }
  const CodeRange range = CodeRange::of(GetParam().bits, GetParam().symmetric);
  EXPECT_GE(got.codes.min().item<int64_t>(), range.smallest);
  EXPECT_LE(got.codes.max().item<int64_t>(), range.largest);
}

TEST_P(GptqLayer, LossIsTheGrowthOfTheOutputsError) {
  const LayerResult got = quantize();
  const Hessian hessian = hessian_of(inputs_);
  Tensor h = hessian.matrix();
  const Tensor dead = h.diagonal() == 0;
  h.diagonal().masked_fill_(dead, 1);
  h.diagonal() += h.diagonal().mean() * 0.01;
  const Tensor change = (weight_.masked_fill(dead, 0) - got.weight).to(at::kDouble);
  const double grown = (change.matmul(h) * change).sum().item<double>() / 2;
  EXPECT_NEAR(got.loss, grown, 1e-4 * grown);
}

TEST_P(GptqLayer, LosesLessThanRoundingToNearest) {
  const LayerResult got = quantize();
  const int64_t width = GetParam().group > 0 ? GetParam().group : kColumns;
  const CodeRange range = CodeRange::of(GetParam().bits, GetParam().symmetric);
  Tensor rounded = at::empty_like(weight_);
  for (int64_t c = 0; c < kColumns; c += width) {
    const Tensor w = weight_.slice(1, c, c + width);
    const Grid grid = find_grid(w, GetParam().bits, GetParam().symmetric);
    const Tensor scale = grid.scale.unsqueeze(1), zero = grid.zero.unsqueeze(1);
    rounded.slice(1, c, c + width)
        .copy_((at::clamp(at::round(w / scale) + zero, range.smallest, range.largest) - zero) *
               scale);
  }
  if (mask_.defined()) rounded.masked_fill_(mask_, 0);
  const auto error = [&](const Tensor& w) {
    return inputs_.matmul((w - weight_).t()).pow(2).sum().item<double>();
  };
  EXPECT_LT(error(got.weight), 0.9 * error(rounded));
}

TEST_P(GptqLayer, CompiledIsEagerBitForBit) {
  graft::Options options;
  options.name = "quantize_block";
  options.async = false;
  options.race = false;
  const auto compiled = graft::compile(quantize_block, options);
  const LayerResult want = quantize();
  for (int call = 0; call < 3; ++call) {
    const LayerResult got = quantize(compiled);
    EXPECT_TRUE(test::same(got.weight, want.weight));
    EXPECT_TRUE(got.codes.equal(want.codes));
    EXPECT_EQ(got.loss, want.loss);
  }
  EXPECT_EQ(compiled.report().breaks, 0) << compiled.report();
  EXPECT_GT(compiled.report().plan_hits, 0) << compiled.report();
}

INSTANTIATE_TEST_SUITE_P(
    Settings, GptqLayer,
    testing::Values(Case{}, Case{.symmetric = false}, Case{.bits = 3, .group = 8},
                    Case{.bits = 3, .group = 8, .symmetric = false},
                    Case{.bits = 8, .group = 4, .symmetric = false, .block = 24},
                    Case{.bits = 8, .group = 12, .block = 5}, Case{.group = 24, .block = 1},
                    Case{.group = 6, .act_order = true},
                    Case{.group = 8, .symmetric = false, .act_order = true, .dead = true},
                    Case{.act_order = true, .masked = true}, Case{.dead = true},
                    Case{.group = 12, .symmetric = false, .masked = true, .dead = true},
                    Case{.group = 3, .block = 100, .masked = true}));

// ---- one block --------------------------------------------------------------------------------

/// The same fp32 operations in the same order as the tensor program: equal to the last bit.
TEST(GptqProcessBlock, IsTheScalarLoopBitForBit) {
  const int64_t rows = 5, n = 13;
  const Tensor wide = normal({rows, 2 * n}, 1), W1 = wide.slice(1, 4, 4 + n);
  const Tensor kept = W1.clone();
  const Tensor Hinv1 = normal({n, n}, 2).abs().triu() + at::eye(n);
  const Tensor scale = normal({rows, n}, 3).abs() * 0.2 + 0.05;
  const Tensor zero = at::round(normal({rows, n}, 4).abs() * 4);
  const Tensor mask = normal({rows, n}, 5) > 1;
  for (const bool sym : {true, false}) {
    const auto [Q, losses, errors] =
        process_block(W1, Hinv1, scale, zero, mask, sym ? -8 : 0, sym ? 7 : 15, sym);
    EXPECT_TRUE(test::same(W1.contiguous(), kept.contiguous()));
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<float> w(n);
      for (int64_t c = 0; c < n; ++c) w[c] = W1[r][c].item<float>();
      for (int64_t c = 0; c < n; ++c) {
        const auto s = scale[r][c].item<float>(), z = sym ? 0 : zero[r][c].item<float>();
        const auto d = Hinv1[c][c].item<float>();
        const float code =
            std::clamp(std::nearbyintf(w[c] / s) + z, sym ? -8.F : 0.F, sym ? 7.F : 15.F);
        const float q = mask[r][c].item<bool>() ? 0 : (code - z) * s;
        const float e = (w[c] - q) / d;
        EXPECT_EQ(Q[r][c].item<float>(), q);
        EXPECT_EQ(errors[r][c].item<float>(), e);
        EXPECT_EQ(losses[r][c].item<float>(), (w[c] - q) * (w[c] - q) / (d * d));
        for (int64_t k = c; k < n; ++k) {
          const volatile float step = e * Hinv1[c][k].item<float>();  // rounded, never fused
          w[k] -= step;
        }
      }
    }
  }
}

TEST(GptqGrid, RowsOfZerosAndTinyRowsHaveAScaleOfOne) {
  const Tensor w = at::zeros({3, 4});
  w[1].fill_(1e-45F);
  w[2][1] = 3, w[2][2] = -1;
  for (const bool symmetric : {true, false}) {
    const Grid grid = find_grid(w, 4, symmetric);
    EXPECT_EQ(grid.scale[0].item<float>(), 1);
    EXPECT_EQ(grid.scale[1].item<float>(), 1);
    EXPECT_EQ(grid.scale[2].item<float>(), (symmetric ? 6.F : 4.F) / 15);
    EXPECT_EQ(grid.zero[2].item<float>(), symmetric ? 0 : 4);
  }
}

TEST(GptqHessian, IsTwiceTheMeanOuterProduct) {
  const Tensor x = normal({6, 5, 4}, 1);
  Hessian once(4, at::kDouble), parts(4, at::kDouble);
  once.add(x);
  for (int64_t i = 0; i < x.size(0); ++i) parts.add(x[i]);
  parts.add(x.slice(0, 0, 0));
  EXPECT_EQ(once.samples(), 30);
  EXPECT_EQ(parts.samples(), 30);
  const Matrix rows = matrix_of(x.reshape({30, 4}));
  for (int64_t a = 0; a < 4; ++a)
    for (int64_t b = 0; b < 4; ++b) {
      double sum = 0;
      for (const auto& row : rows) sum += row[a] * row[b];
      EXPECT_NEAR(once.matrix()[a][b].item<double>(), 2 * sum / 30, 1e-12);
      EXPECT_NEAR(parts.matrix()[a][b].item<double>(), 2 * sum / 30, 1e-12);
    }
  EXPECT_TRUE(once.diagonal().equal(once.matrix().diagonal()));
}

}  // namespace
}  // namespace graft::quantizer
