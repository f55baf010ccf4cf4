// Sorting of long rows, their largest elements and medians, as operators: with ATen's arguments and
// ATen's order, equal elements and NaN included; in a fraction of its time where none are equal,
// places are not asked for, or the sort is stable. A program calls them where a function called
// aten::sort, aten::topk, aten::kthvalue or aten::median (ops/order.cpp). Each takes tensors of any
// layout, of integers and floating numbers, gives contiguous ones, and uses ATen's threads, one for
// a row.
#pragma once

#include <string_view>

namespace graft {

inline constexpr std::string_view kSorts = "graft::sort", kTops = "graft::topk",
                                  kRanks = "graft::kthvalue", kMedians = "graft::median",
                                  kNanMedians = "graft::nanmedian";
/// Of whose results only the values count: the places are memory with nothing in it.
inline constexpr std::string_view kSortsValues = "graft::sort_values",
                                  kTopValues = "graft::topk_values",
                                  kRankValues = "graft::kthvalue_values",
                                  kMedianValues = "graft::median_values",
                                  kNanMedianValues = "graft::nanmedian_values";

}  // namespace graft
