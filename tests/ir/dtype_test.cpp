// The table of dtypes against c10's own types.
#include "tensor/dtype.h"

#include <ATen/OpMathType.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

namespace graft::ir {
namespace {

template <class T>
void expect_facts(ScalarType type) {
  SCOPED_TRACE(c10::toString(type));
  const DtypeInfo* row = find_dtype(type);
  ASSERT_NE(row, nullptr);
  using L = std::numeric_limits<T>;
  EXPECT_EQ(row->digits, L::digits);
  EXPECT_EQ(row->has_infinity, L::has_infinity);
  EXPECT_EQ(row->largest, static_cast<double>(L::max()));
  EXPECT_EQ(epsilon(type), is_float(type) ? std::ldexp(1, 1 - L::digits) : 0);
  EXPECT_EQ(opmath(type), c10::CppTypeToScalarType<at::opmath_type<T>>::value);
  EXPECT_EQ(is_float(type), !L::is_integer);
  EXPECT_EQ(is_unsigned(type), !L::is_signed);
  EXPECT_EQ(is_reduced(type), c10::isReducedFloatingType(type));
}

TEST(Dtype, FactsAreC10s) {
  expect_facts<bool>(ScalarType::Bool);
  expect_facts<uint8_t>(ScalarType::Byte);
  expect_facts<int8_t>(ScalarType::Char);
  expect_facts<int16_t>(ScalarType::Short);
  expect_facts<int32_t>(ScalarType::Int);
  expect_facts<int64_t>(ScalarType::Long);
  expect_facts<c10::BFloat16>(ScalarType::BFloat16);
  expect_facts<c10::Half>(ScalarType::Half);
  expect_facts<float>(ScalarType::Float);
  expect_facts<double>(ScalarType::Double);
  expect_facts<c10::Float8_e4m3fn>(ScalarType::Float8_e4m3fn);
  expect_facts<c10::Float8_e5m2>(ScalarType::Float8_e5m2);
}

TEST(Dtype, NamesAreDifferent) {
  std::set<std::string> names;
  for (const DtypeInfo& row : kDtypes) names.insert(row.name);
  EXPECT_EQ(names.size(), std::size(kDtypes));
  EXPECT_STREQ(short_name(ScalarType::ComplexFloat), "ComplexFloat");
}

TEST(Dtype, WhatHasNoLoopsIsNothing) {
  for (ScalarType type :
       {ScalarType::ComplexFloat, ScalarType::Float8_e5m2fnuz, ScalarType::UInt16,
        ScalarType::Undefined, static_cast<ScalarType>(-1), static_cast<ScalarType>(127)}) {
    EXPECT_FALSE(has_loops(type));
    EXPECT_FALSE(is_float(type));
    EXPECT_FALSE(is_integer(type));
  }
  EXPECT_EQ(epsilon(ScalarType::Float8_e5m2fnuz), 0.25);
}

TEST(Dtype, RoundingToANarrowTypeGoesThroughFloat) {
  // Halfway between two BFloat16 values, and a bit more that float drops.
  const double x = 1 + 0x1p-8 + 0x1p-40;
  EXPECT_EQ(rounded_to(x, ScalarType::BFloat16), 1);
  EXPECT_EQ(rounded_to(x, ScalarType::Float), 1 + 0x1p-8);
  EXPECT_EQ(rounded_to(x, ScalarType::Double), x);
  EXPECT_EQ(rounded_to(65520, ScalarType::Half), std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace graft::ir
