#include "lab/accuracy/compare.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace graft::lab {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

at::Tensor floats(std::initializer_list<float> values) {
  return at::tensor(values, at::kFloat);
}

TEST(Compare, EqualBits) {
  EXPECT_TRUE(compare({floats({1, NAN, -kInfinity})}, {floats({1, NAN, -kInfinity})}).bitwise);
  EXPECT_TRUE(compare({floats({NAN})}, {floats({-NAN})}).bitwise);  // all NaNs count equal
  EXPECT_TRUE(compare({}, {}).bitwise);
  EXPECT_EQ(compare({floats({1})}, {floats({1})}).text(), "bitwise");
}

TEST(Compare, StridesDoNotMatter) {
  const at::Tensor a = floats({1, 2, 3, 4, 5, 6}).view({2, 3});
  EXPECT_TRUE(compare({a.t()}, {a.t().contiguous()}).bitwise);
}

TEST(Compare, LargestDifference) {
  const Comparison c = compare({floats({1, 2, 3})}, {floats({1, 2.5, 2.75})});
  EXPECT_FALSE(c.bitwise);
  EXPECT_DOUBLE_EQ(c.max_abs_diff, 0.5);
  EXPECT_EQ(c.text(), "max 5.0e-01");
}

TEST(Compare, SignedZerosDiffer) {
  const Comparison c = compare({floats({0.0f})}, {floats({-0.0f})});
  EXPECT_FALSE(c.bitwise);
  EXPECT_EQ(c.max_abs_diff, 0);
}

TEST(Compare, InfiniteWhereOnlyOneIsANumber) {
  EXPECT_EQ(compare({floats({1})}, {floats({NAN})}).max_abs_diff, kInfinity);
  EXPECT_EQ(compare({floats({1})}, {floats({kInfinity})}).max_abs_diff, kInfinity);
  EXPECT_EQ(compare({floats({-kInfinity})}, {floats({kInfinity})}).max_abs_diff, kInfinity);
  EXPECT_EQ(compare({floats({kInfinity, 1})}, {floats({kInfinity, 2})}).max_abs_diff, 1);
}

TEST(Compare, FormsMustMatch) {
  EXPECT_FALSE(compare({floats({1})}, {}).same_form);
  EXPECT_FALSE(compare({floats({1})}, {floats({1, 2})}).same_form);
  EXPECT_FALSE(compare({floats({1})}, {floats({1}).to(at::kDouble)}).same_form);
  EXPECT_FALSE(compare({at::Tensor()}, {floats({1})}).same_form);
  EXPECT_TRUE(compare({at::Tensor()}, {at::Tensor()}).same_form);
}

TEST(Compare, OtherDtypes) {
  const at::Tensor a = floats({1, 2, 3});
  for (at::ScalarType type :
       {at::kBFloat16, at::kHalf, at::kDouble, at::kInt, at::kLong, at::kBool, at::kByte}) {
    EXPECT_TRUE(compare({a.to(type)}, {a.to(type)}).bitwise) << type;
  }
  EXPECT_EQ(compare({a.to(at::kBFloat16)}, {(a.add(1)).to(at::kBFloat16)}).max_abs_diff, 1);
  const at::Tensor z = a.to(at::kComplexFloat);
  EXPECT_TRUE(compare({z}, {z.clone()}).bitwise);
  EXPECT_EQ(compare({z}, {z.add(2)}).max_abs_diff, 2);
}

TEST(Compare, RelativeError) {
  const at::Tensor reference = at::full({4}, 8.0, at::kDouble);
  EXPECT_DOUBLE_EQ(relative_error({floats({8, 8, 8, 9})}, {reference}), 0.125);
  EXPECT_TRUE(std::isnan(relative_error({floats({8})}, {reference})));
}

}  // namespace
}  // namespace graft::lab
