// Every row of the pointwise table, every overload of its operator, every dtype: against eager.
// Adding a row to the table adds its tests.
#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "oracle/pointwise_cases.h"

namespace graft::test {
namespace {

using at::ScalarType;
using ops::PointwiseRow;

using Dtype = testing::TestWithParam<ScalarType>;
class Pointwise : public Dtype {};

std::string dtype_name(const testing::TestParamInfo<ScalarType>& info) {
  return c10::toString(info.param);
}
INSTANTIATE_TEST_SUITE_P(Oracle, Pointwise, testing::ValuesIn(kDtypes), dtype_name);

/// Runs `cases(row, form)` for every row and the forms that `fits` accepts.
template <class Fits, class Cases>
void sweep(const char* what, ScalarType type, Fits fits, Cases cases) {
  for (const PointwiseRow& row : ops::pointwise_table()) {
    if (Reporter::skipped(row.name)) continue;
    Reporter report(std::string(row.name) + " " + c10::toString(type) + " " + what);
    for (const Form& form : forms(row))
      if (fits(form))
        for (const PointwiseCase& c : cases(form)) report(check_of(row, form, c, type));
  }
}

TEST_P(Pointwise, NewResults) {
  bool thorough = is_thorough(GetParam());
  sweep(
      "", GetParam(), [](const Form& form) { return !form.in_place && !form.out; },
      [&](const Form& form) {
        return form.variant > 0 ? few_cases(form.operands) : layout_cases(form.operands, thorough);
      });
}

TEST_P(Pointwise, InPlace) {
  sweep(
      "in place", GetParam(), [](const Form& form) { return form.in_place; },
      [](const Form& form) { return in_place_cases(form.operands, form.variant > 0); });
}

TEST_P(Pointwise, OutArgument) {
  sweep(
      "out=", GetParam(), [](const Form& form) { return form.out && form.variant == 0; },
      [](const Form& form) { return out_cases(form.operands); });
}

/// Operands of different dtypes: the first has the test's dtype, the others one of each category.
TEST_P(Pointwise, MixedDtypes) {
  for (const PointwiseRow& row : ops::pointwise_table()) {
    if (Reporter::skipped(row.name)) continue;
    Reporter report(std::string(row.name) + " mixed");
    for (const Form& form : forms(row)) {
      if (form.operands < 2 || form.variant > 0 || form.out) continue;
      for (ScalarType other :
           {ScalarType::Bool, ScalarType::Byte, ScalarType::Short, ScalarType::Long,
            ScalarType::BFloat16, ScalarType::Half, ScalarType::Float, ScalarType::Double})
        if (other != GetParam())
          for (PointwiseCase c : mixed_cases(form.operands)) {
            c.other = other;
            report(check_of(row, form, c, GetParam()));
          }
    }
  }
}

class Fast : public Dtype {};
INSTANTIATE_TEST_SUITE_P(Oracle, Fast,
                         testing::Values(ScalarType::Float, ScalarType::Double, ScalarType::Half,
                                         ScalarType::BFloat16),
                         dtype_name);

/// Rows whose results a rounding of the operand moves by more than roundings: functions that
/// repeat, of large operands, acosh at the end of its domain, those of the gamma function beside
/// its poles, and prelu's backward, whose two results share an operand that is stored rounded. No
/// chain of them can be judged.
bool magnifies_rounding(const PointwiseRow& row) {
  static const std::set<std::string_view> kRows = {
      "aten::remainder", "aten::fmod",
      "aten::frac",      "aten::sin",
      "aten::cos",       "aten::tan",
      "aten::acosh",     "aten::lgamma",
      "aten::digamma",   "aten::_prelu_kernel_backward"};
  return kRows.contains(row.name);
}

/// Numerics::Fast: each row alone, and in a chain whose roundings are dropped. Plain data: where
/// eager's chain overflows, one that is kept wide does not.
TEST_P(Fast, NoFurtherFromDoubleThanEager) {
  const std::vector<PointwiseCase> cases = {
      {.sizes = {1000}, .specials = false},
      {.sizes = {7, 33}, .layouts = {Layout::Step, Layout::Contiguous}, .specials = false}};
  for (const PointwiseRow& row : ops::pointwise_table()) {
    if (Reporter::skipped(row.name)) continue;
    Reporter report(std::string(row.name) + " " + c10::toString(GetParam()) + " fast");
    for (const Form& form : forms(row)) {
      if (form.in_place || form.out || form.variant > 0) continue;
      for (const PointwiseCase& c : cases)
        for (bool chain : {false, true}) {
          // A comparison of two chains has no error that could be measured.
          bool unfit = row.promotion == ops::Promotion::Compare || magnifies_rounding(row);
          if (!chain || !unfit) report(fast_check_of(row, form, c, GetParam(), chain));
        }
    }
  }
}

class SixteenBits : public Dtype {};
INSTANTIATE_TEST_SUITE_P(Oracle, SixteenBits,
                         testing::Values(ScalarType::Half, ScalarType::BFloat16), dtype_name);

/// All 65,536 values, of rows with one operand.
TEST_P(SixteenBits, EveryValue) {
  at::Tensor values = all_16_bit_values(GetParam());
  for (const PointwiseRow& row : ops::pointwise_table()) {
    if (Reporter::skipped(row.name)) continue;
    Reporter report(std::string(row.name) + " " + c10::toString(GetParam()) + " every value");
    for (const Form& form : forms(row)) {
      if (form.operands != 1 || form.in_place || form.out) continue;
      Check check = check_of(row, form, {}, GetParam());
      check.label = form.text + " over all 16-bit values";
      check.arguments = [&](int call) { return Tensors{values.roll(64 * call)}; };
      report(check);
    }
  }
}

/// An integer divided by zero throws what eager throws, be it in the first call or in one that runs
/// a plan.
TEST(Division, ByZeroThrowsAsEager) {
  for (const PointwiseRow& row : ops::pointwise_table()) {
    if (row.raises == nullptr || Reporter::skipped(row.name)) continue;
    Reporter report(std::string(row.name) + " by zero");
    for (const Form& form : forms(row)) {
      if (form.operands < 2) continue;
      for (ScalarType type :
           {ScalarType::Byte, ScalarType::Short, ScalarType::Int, ScalarType::Long}) {
        for (int first_zero : {0, 1, 2}) {
          Check check = check_of(row, form, {.sizes = {77}}, type);
          auto plain = check.arguments;
          check.label += " zero from call " + std::to_string(first_zero + 1);
          check.must_fuse = false;
          check.arguments = [=](int call) {
            Tensors made = plain(call);
            if (call >= first_zero) made[1].select(0, 70).zero_();
            return made;
          };
          report(check);
        }
      }
    }
  }
}

TEST(Tables, EveryRowNamesAnOperatorWithForms) {
  for (const PointwiseRow& row : ops::pointwise_table())
    EXPECT_FALSE(forms(row).empty()) << row.name;
}

}  // namespace
}  // namespace graft::test
