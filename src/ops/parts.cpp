// Stores to the part of a tensor that a view shows: the scatters, which keep what is around it, and
// the backward of slice, select and diagonal, around which are zeros.
#include <algorithm>
#include <cstdlib>

#include "ops/fill.h"
#include "ops/reduce.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using ir::View;
using record::OperatorRecord;

/// A result, the tensor that goes to a part of it, and what is around.
struct Parts {
  View out, source;
  std::optional<View> kept;  ///< none: zeros

  /// What is around, in elements [from, from + count) of an axis.
  void around(Context& ctx, size_t axis, int64_t from, int64_t count) const {
    const View to = narrow(out, axis, from, count);
    kept ? ctx.copy(narrow(*kept, axis, from, count), to) : ctx.fill(to, 0);
  }
};

Parts scatter_of(Context& ctx, const OperatorRecord& op) {
  return {ctx.output(op), ctx.tensor(op, 1), ctx.tensor(op, 0)};
}
Parts backward_of(Context& ctx, const OperatorRecord& op) {
  return {ctx.output(op), ctx.tensor(op, 0), {}};
}
using PartsOf = Parts (*)(Context&, const OperatorRecord&);

Fate lower_range(Context& ctx, const Parts& parts, size_t axis, int64_t start, int64_t end,
                 int64_t step) {
  View part = narrow(parts.out, axis, start, (end - start + step - 1) / step);
  if (parts.source.storage < 0) return Fate::external("a part without memory");
  // Copied apart where that is possible, so that a reader of one finds one producer.
  if (step == 1) {
    parts.around(ctx, axis, 0, start);
    parts.around(ctx, axis, end, parts.out.sizes[axis] - end);
  } else {
    parts.around(ctx, axis, 0, parts.out.sizes[axis]);
    part.strides[axis] *= step;
  }
  View source = parts.source;
  if (source.sizes.size() < part.sizes.size()) {  // select's lacks the axis
    const auto place = static_cast<std::ptrdiff_t>(axis);
    source.sizes.insert(source.sizes.begin() + place, 1);
    source.strides.insert(source.strides.begin() + place, 0);
  }
  ctx.copy(source, part);
  return Fate::fused();
}

template <PartsOf of>
Fate slice(Context& ctx, const OperatorRecord& op) {
  const Parts parts = of(ctx, op);
  const size_t axis = wrapped(integer(op, "dim", 0), parts.out.sizes.size());
  const int64_t n = parts.out.sizes[axis];
  auto place = [&](std::string_view name, int64_t otherwise) {
    const int64_t at = integer(op, name, otherwise);
    return std::clamp<int64_t>(at < 0 ? at + n : at, 0, n);
  };
  const int64_t start = place("start", 0);
  return lower_range(ctx, parts, axis, start, std::max(start, place("end", n)),
                     integer(op, "step", 1));
}

template <PartsOf of>
Fate select(Context& ctx, const OperatorRecord& op) {
  const Parts parts = of(ctx, op);
  const size_t axis = wrapped(integer(op, "dim", 0), parts.out.sizes.size());
  const int64_t index = integer(op, "index", 0);
  const int64_t at = index < 0 ? index + parts.out.sizes[axis] : index;
  return lower_range(ctx, parts, axis, at, at + 1, 1);
}

template <PartsOf of>
Fate diagonal(Context& ctx, const OperatorRecord& op) {
  const Parts parts = of(ctx, op);
  View part = parts.out;
  if (parts.source.storage < 0) return Fate::external("a part without memory");
  const size_t row = wrapped(integer(op, "dim1", 0), part.sizes.size());
  const size_t column = wrapped(integer(op, "dim2", 1), part.sizes.size());
  const int64_t offset = integer(op, "offset", 0), length = parts.source.sizes.back();
  if (length > 0) advance(part, offset < 0 ? row : column, std::abs(offset));
  for (size_t axis : {std::max(row, column), std::min(row, column)}) {
    part.sizes.erase(part.sizes.begin() + static_cast<std::ptrdiff_t>(axis));
    part.strides.erase(part.strides.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  part.sizes.push_back(length);
  part.strides.push_back(parts.out.strides[row] + parts.out.strides[column]);
  parts.around(ctx, row, 0, parts.out.sizes[row]);
  ctx.copy(parts.source, part);
  return Fate::fused();
}

}  // namespace

std::vector<Row> part_rows() {
  const char* scattered = "copies of what is kept and what is put in";
  const char* backward = "zeros, and a copy of the gradient";
  return {
      {"aten::slice_scatter", slice<scatter_of>, scattered},
      {"aten::select_scatter", select<scatter_of>, scattered},
      {"aten::diagonal_scatter", diagonal<scatter_of>, "a copy, and one of the diagonal over it"},
      {"aten::slice_backward", slice<backward_of>, backward},
      {"aten::select_backward", select<backward_of>, backward},
      {"aten::diagonal_backward", diagonal<backward_of>, backward},
  };
}

}  // namespace graft::ops
