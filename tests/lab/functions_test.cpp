// Functions that eager's operators compute.
#include "lab/functions.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace graft::lab {
namespace {

TEST(Functions, AreCountedByElement) {
  const at::Tensor x = at::ones({4, 6});
  EXPECT_EQ(functions_of([&] { x.exp(); }), 24);
  EXPECT_EQ(functions_of([&] { x.clone().exp_().add_(x).sum(); }), 24);
  EXPECT_EQ(functions_of([&] { (x + 1) / x.sqrt(); }), 0);
  EXPECT_EQ(functions_of([&] { x.softmax(1); }), 24) << "whatever it consists of";
  EXPECT_EQ(functions_of([&] { at::softplus(x[0]); }), 12);
  EXPECT_EQ(functions_of([&] { x.slice(0, 0, 1).atan2(x); }), 24) << "of the result";
}

TEST(Functions, OperatorsThatCallOthersCountOnce) {
  const at::Tensor x = at::ones({10});
  EXPECT_EQ(functions_of([&] { at::celu(x), at::selu(x), x.float_power(0.3); }), 30);
}

TEST(Functions, WholePowersAreProducts) {
  const at::Tensor x = at::ones({10});
  EXPECT_EQ(functions_of([&] { x.pow(2), x.pow(-0.5); }), 0);
  EXPECT_EQ(functions_of([&] { x.pow(0.3), x.pow(x); }), 20);
}

TEST(Functions, CountingEndsWithTheCall) {
  const at::Tensor x = at::ones({10});
  EXPECT_THROW(functions_of([&] { x.exp().view({3}); }), c10::Error);
  x.exp();
  EXPECT_EQ(functions_of([] {}), 0);
}

}  // namespace
}  // namespace graft::lab
