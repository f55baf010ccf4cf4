// Roots, exponentials, logarithms, sines and tanh of Float: eager takes MKL's on whole arrays, of
// which the target knows a formula on some processors. It must hold for every number.
#include <gtest/gtest.h>

#include <cstring>

#include "codegen/backend.h"
#include "helpers.h"

namespace graft {
namespace {

/// The floats whose bits are first, first + step, …
at::Tensor floats(int64_t first, int64_t count, int64_t step = 1) {
  at::Tensor bits = (at::arange(count, at::kLong) * step + first).to(at::kInt);
  return bits.view(at::kFloat);
}

void expect_eagers_bits(at::Tensor (*function)(const at::Tensor&), const at::Tensor& x) {
  const auto compiled = compile(function, test::at_once());
  for (int call = 0; call < 4; ++call) {
    const at::Tensor expected = function(x), came = compiled(x);
    ASSERT_EQ(std::memcmp(expected.data_ptr(), came.data_ptr(), static_cast<size_t>(x.nbytes())), 0)
        << "call " << call;
  }
}

TEST(ArrayRoot, EveryMantissa) {
  // Roots of x and 4x have the same bits but for the exponent.
  expect_eagers_bits(&at::sqrt, floats(0x3f800000, 1 << 24));
}

TEST(ArrayRoot, EveryExponent) {
  expect_eagers_bits(&at::sqrt, floats(0, 1 << 21, 2011));  // of both signs, infinities and NaNs
}

TEST(ArrayRoot, TheEnds) {
  expect_eagers_bits(&at::sqrt, floats(0x7f7fe000, 1 << 14));  // the largest, infinity, NaNs
  expect_eagers_bits(&at::sqrt, floats(0, 1 << 14));
  expect_eagers_bits(&at::sqrt,
                     floats(0x007fe000, 1 << 14));  // the largest denormals, the least normals
  expect_eagers_bits(&at::sqrt, floats(0x0c7fe000, 1 << 14));  // where a formula scales
  expect_eagers_bits(&at::sqrt,
                     floats(int64_t{0x80000000} - (1ll << 32), 1 << 14));  // negative zero, then on
}

// (Each was compared with all floats once.)
constexpr int64_t kStep = 17, kNegative = -(int64_t{1} << 31);

TEST(ArrayExp, OneNumberInSeventeen) {
  // Of smaller ones the result is 1, of larger ones infinite or 0.
  constexpr int64_t kFirst = 0x32800000, kLast = 0x42d20000;
  for (int64_t sign : {int64_t{0}, kNegative})
    expect_eagers_bits(&at::exp, floats(kFirst + sign, (kLast - kFirst) / kStep, kStep));
}

TEST(ArrayLog, OneNumberInSeventeen) {
  expect_eagers_bits(&at::log, floats(0, 0x7f800000 / kStep, kStep));
}

TEST(ArraySines, OneNumberInSeventeen) {
  // Smaller ones are their own sine; of larger ones both are MKL's.
  constexpr int64_t kFirst = 0x38000000, kLast = 0x461c4100;
  for (int64_t sign : {int64_t{0}, kNegative})
    for (auto* function : {&at::sin, &at::cos})
      expect_eagers_bits(function, floats(kFirst + sign, (kLast - kFirst) / kStep, kStep));
}

TEST(ArrayTanh, OneNumberInSeventeen) {
  // Smaller ones are their own, larger ones' is 1.
  constexpr int64_t kFirst = 0x38000000, kLast = 0x41200000;
  for (int64_t sign : {int64_t{0}, kNegative})
    expect_eagers_bits(&at::tanh, floats(kFirst + sign, (kLast - kFirst) / kStep, kStep));
}

/// Otherwise the tests here compare MKL with itself.
TEST(ArrayFormulas, AreKnownOnAmd) {
  if (!__builtin_cpu_is("amd")) GTEST_SKIP() << "another make of processor";
  const ir::Target target = codegen::host_target(1);
  if (!target.vml || !target.keeps_subnormals) GTEST_SKIP() << "no MKL, or it flushes";
  for (const ir::Target::VmlFormula formula : ir::Target::kVmlFormulas)
    EXPECT_EQ(target.vml_has(formula), formula != ir::Target::VmlFormula::FusedRoot)
        << static_cast<int>(formula);
}
TEST(ArrayFormulas, RootsAreKnownOnIntel) {
  if (!__builtin_cpu_is("intel") || !__builtin_cpu_supports("avx512f"))
    GTEST_SKIP() << "another make of processor";
  const ir::Target target = codegen::host_target(1);
  if (!target.vml || !target.keeps_subnormals) GTEST_SKIP() << "no MKL, or it flushes";
  EXPECT_TRUE(target.vml_has(ir::Target::VmlFormula::FusedRoot));
}

TEST(ArrayFormulas, TheEnds) {
  for (auto* function : {&at::exp, &at::log, &at::sin, &at::cos, &at::tanh}) {
    expect_eagers_bits(function, floats(0, 1 << 21, 2011));  // of both signs, infinities and NaNs
    expect_eagers_bits(function, floats(0x7f7fe000, 1 << 14));
    expect_eagers_bits(function, floats(0x007fe000, 1 << 14));
    expect_eagers_bits(function, floats(kNegative, 1 << 14));
    expect_eagers_bits(function, floats(-(1 << 14), 1 << 15));
  }
}

}  // namespace
}  // namespace graft
