// The ways a tensor of given sizes can lie in memory.
#pragma once

#include <string>
#include <vector>

#include "oracle/values.h"

namespace graft::test {

enum class Layout : uint8_t {
  Contiguous,
  Shifted,     ///< contiguous, one element past the start of its memory
  Transposed,  ///< dense, dimensions in the opposite order
  Step,        ///< every second element of the last dimension
  Rows,        ///< rows of a wider matrix: unit stride, not dense
  Row,         ///< sizes [1, …, 1, n]: broadcast over the others
  Column,      ///< sizes [n, 1, …, 1]
  Expanded,    ///< stride 0 in the first dimension
  Windows,     ///< overlapping: every stride 1
  ZeroDim,     ///< no dimensions
};

inline const char* name_of(Layout layout) {
  static constexpr const char* kNames[] = {"contiguous", "shifted", "transposed", "step",
                                           "rows",       "row",     "column",     "expanded",
                                           "windows",    "0-dim"};
  return kNames[static_cast<int>(layout)];
}

/// A tensor of random values, of `sizes` (or what broadcasts to them).
inline at::Tensor lay_out(at::ScalarType type, ops::Domain domain, int k,
                          std::vector<int64_t> sizes, Layout layout, Random& random,
                          bool specials = true) {
  auto fresh = [&](const std::vector<int64_t>& shape) {
    int64_t count = 1;
    for (int64_t size : shape) count *= size;
    return random_values(type, domain, k, count, random, specials).reshape(shape);
  };
  if (sizes.empty() || layout == Layout::ZeroDim) return fresh({});
  std::vector<int64_t> shape = sizes;
  size_t last = sizes.size() - 1;
  switch (layout) {
    case Layout::Shifted: {
      int64_t count = at::empty(sizes, at::kMeta).numel();
      return random_values(type, domain, k, count + 1, random, specials).slice(0, 1).view(sizes);
    }
    case Layout::Transposed: {
      std::vector<int64_t> order;
      for (size_t d = sizes.size(); d-- > 0;) order.push_back(static_cast<int64_t>(d));
      return fresh({sizes.rbegin(), sizes.rend()}).permute(order);
    }
    case Layout::Step:
      shape[last] *= 2;
      return fresh(shape).slice(-1, 0, std::nullopt, 2);
    case Layout::Rows:
      shape[last] += 3;
      return fresh(shape).slice(-1, 2, 2 + sizes[last]);
    case Layout::Row:
      for (size_t d = 0; d < last; ++d) shape[d] = 1;
      return fresh(shape);
    case Layout::Column:
      for (size_t d = 1; d <= last; ++d) shape[d] = 1;
      return fresh(shape);
    case Layout::Expanded:
      shape[0] = 1;
      return fresh(shape).expand(sizes);
    case Layout::Windows: {
      int64_t reach = 1;
      for (int64_t size : sizes) reach += std::max<int64_t>(size - 1, 0);
      return fresh({reach}).as_strided(sizes, std::vector<int64_t>(sizes.size(), 1));
    }
    default:
      return fresh(shape);
  }
}

}  // namespace graft::test
