// Rows whose results are known to differ from eager's in some case, each an open defect or an
// unsettled question. They are run, and their differences printed, but they do not fail the suite;
// docs/roadmap.md lists them as work to do. Nothing may be added here to make a new failure go
// away: a row that is fixed is taken out.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace graft::test {

inline constexpr std::array<std::string_view, 24> kKnownDifferences = {
    // Judged against fp64 although the operand is fp64 itself, or eager's body and tail disagree
    // (NaN for huge quotients).
    "aten::remainder", "aten::fmod", "aten::sinh", "aten::cosh", "aten::atanh", "aten::atan2",
    "aten::gelu",
    // Special values (overflow, infinities) in two-pass moments and sums.
    "aten::var_mean", "aten::std_mean", "aten::native_layer_norm", "aten::native_group_norm",
    "aten::_softmax", "aten::_safe_softmax", "aten::sum", "aten::nansum", "aten::prod",
    "aten::amin", "aten::amax",
    // out= and in-place forms of half precision.
    "aten::mul", "aten::logit", "aten::rsqrt", "aten::log_sigmoid_forward", "aten::logical_and",
    "aten::logical_or"};

inline bool is_known(std::string_view group) {
  return std::any_of(kKnownDifferences.begin(), kKnownDifferences.end(),
                     [&](std::string_view name) {
                       return group.starts_with(name) &&
                              (group.size() == name.size() || group[name.size()] == ' ');
                     });
}

}  // namespace graft::test
