// The windows of pooling, whose forward and backward read them from the same arguments, and the
// border that they and those of convolutions reach into.
#pragma once

#include <vector>

#include "ops/context.h"

namespace graft::ops {

/// The windows along one dimension, as the operator's arguments say.
struct Windows {
  int64_t in = 1, out = 1;  ///< extents
  int64_t size = 1, step = 1, padding = 0, apart = 1;

  /// Neighbouring results whose windows have as many elements, `step` apart.
  struct Run {
    int64_t begin = 0, count = 0;  ///< results
    int64_t first = 0;             ///< of the first window's elements
    int64_t elements = 0;          ///< of each window
    int64_t padded = 0;            ///< likewise with those in the padding
  };
  /// Elements from the first window's begin to the last one's end, padding and what lies beyond it
  /// included.
  int64_t reach() const { return (out - 1) * step + (size - 1) * apart + 1; }
  std::vector<Run> runs() const;
};

/// Of the last dimensions of what is pooled (`in`) and of what comes of it (`out`).
std::vector<Windows> read_windows(const record::OperatorRecord& op, const ir::View& in,
                                  const ir::View& out, size_t dimensions);

/// Makes them the windows of adaptive pooling, side by side. False: these are not equally large.
bool make_equal(std::vector<Windows>& windows);
inline constexpr const char* kUnequalWindows = "windows of several sizes";

/// A copy of `in` of `sizes` in all, in which it begins at `before` along the last dimensions and
/// `value` is around it.
ir::View with_border(Context& ctx, const ir::View& in, const std::vector<int64_t>& sizes,
                     const std::vector<int64_t>& before, double value);

/// How many elements each window along axis `axis` has, perhaps with those in the padding.
ir::Value window_elements(ir::StatementBuilder& s, const Windows& w, int axis, bool padding);

}  // namespace graft::ops
