// What GPTQ says of a layer that cannot be quantised: which, what came, and what to do.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "quantizer/gptq_naive.h"
#include "quantizer/model/layer.h"

namespace graft::quantizer {
namespace {

using at::Tensor;

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const GptqError& error) {
    return error.what();
  }
  return "no error";
}

class GptqErrors : public testing::Test {
 protected:
  std::string error(const Settings& settings = {.group = -1}) const {
    return error_of([&] {
      quantize_layer("model.q_proj", weight, hessian_of(inputs, precision), settings,
                     quantize_block, mask);
    });
  }
  static void expect_words(const std::string& text, const std::vector<std::string>& words) {
    for (const std::string& word : words)
      EXPECT_NE(text.find(word), std::string::npos) << word << " is not in: " << text;
  }

  Tensor weight = normal({3, 8}, 1), inputs = correlated(20, 8, 2), mask;
  at::ScalarType precision = at::kFloat;
};

TEST_F(GptqErrors, NoneForGoodInputs) {
  EXPECT_EQ(error(), "no error");
}

TEST_F(GptqErrors, NanAndInfInWeights) {
  weight[1][5] = std::numeric_limits<float>::quiet_NaN();
  expect_words(error(), {"model.q_proj", "1 of 24 weights", "[1, 5]", "checkpoint"});
  weight[0][2] = -std::numeric_limits<float>::infinity();
  expect_words(error(), {"model.q_proj", "2 of 24 weights", "[0, 2]"});
}

TEST_F(GptqErrors, NanAndInfInInputs) {
  inputs[4][6] = std::numeric_limits<float>::quiet_NaN();
  expect_words(error(), {"model.q_proj", "calibration inputs", "[6]"});
  inputs[4][6] = std::numeric_limits<float>::infinity();
  expect_words(error(), {"model.q_proj", "calibration inputs", "[6]"});
  inputs[4][6] = 1e30;  // finite, but not its square
  expect_words(error(), {"overflow"});
}

TEST_F(GptqErrors, ASingularHessianTakesMoreDampening) {
  inputs = at::ones({4, 8});  // rank 1
  const auto result = quantize_layer("q", weight, hessian_of(inputs, at::kFloat),
                                     {.group = -1, .dampening = 1e-8}, quantize_block);
  EXPECT_GT(result.dampening, 1e-8);
  EXPECT_LE(result.dampening, 1e-5);
  const auto from_zero = quantize_layer("q", weight, hessian_of(inputs, at::kFloat),
                                        {.group = -1, .dampening = 0}, quantize_block);
  EXPECT_GE(from_zero.dampening, 0.001);
}

TEST_F(GptqErrors, ASingularHessianThatStaysSo) {
  inputs = at::ones({4, 8});
  expect_words(error({.group = -1, .dampening = 1e-14}),
               {"model.q_proj", "singular", "4 samples", "dampening"});
}

TEST_F(GptqErrors, Settings) {
  expect_words(error({.group = 3}), {"model.q_proj", "group of 3", "does not divide", "8", "-1"});
  expect_words(error({.group = 0}), {"group of 0"});
  expect_words(error({.group = -2}), {"group of -2"});
  expect_words(error({.bits = 1}), {"1 bits", "2 to 8"});
  expect_words(error({.bits = 9}), {"9 bits", "2 to 8"});
  expect_words(error({.group = -1, .block = 0}), {"block of 0"});
  expect_words(error({.group = -1, .dampening = -0.5}), {"dampening of -0.5"});
  expect_words(error({.group = -1, .dampening = std::nan("")}), {"dampening of nan"});
}

TEST_F(GptqErrors, Shapes) {
  inputs = correlated(20, 6, 2);
  expect_words(error(), {"model.q_proj", "8 columns", "6"});
  inputs = correlated(20, 8, 2).slice(0, 0, 0);
  expect_words(error(), {"model.q_proj", "no calibration inputs"});
  inputs = correlated(20, 8, 2);
  mask = at::ones({3, 7}, at::kBool);
  expect_words(error(), {"mask", "[3, 7]", "[3, 8]"});
  mask.reset();
  weight = weight.to(at::kInt);
  expect_words(error(), {"model.q_proj", "[3, 8]", "Int", "floating"});
  Hessian hessian(8);
  expect_words(error_of([&] { hessian.add(at::ones({4, 7})); }), {"[4, 7]", "8"});
  expect_words(error_of([&] { hessian.add(at::ones({4, 8}, at::kLong)); }), {"Long", "floating"});
  expect_words(error_of([] { Hessian(8, at::kHalf); }), {"Half"});
}

TEST_F(GptqErrors, WeightsThatOverflow) {
  weight = weight.sign() * 3e38;
  expect_words(error(), {"model.q_proj", "overflow"});
}

}  // namespace
}  // namespace graft::quantizer
