#include "ir/program.h"

#include <algorithm>

namespace graft::ir {

Span span(const Access& access, const std::vector<int64_t>& axes) {
  Span reach{access.offset, access.offset};
  auto add = [&](int64_t far) { (far < 0 ? reach.first : reach.last) += far; };
  for (size_t a = 0; a < axes.size(); ++a) add((axes[a] - 1) * access.strides[a]);
  for (const Indirect& i : access.indirect)
    if (i.extent > 0) add((i.extent - 1) * i.stride);
  return reach;
}

bool is_bounded(const Access& access) {
  return std::all_of(access.indirect.begin(), access.indirect.end(),
                     [](const Indirect& i) { return i.extent > 0; });
}

Span span(const Access& access, const Statement& s) {
  if (!s.repeated()) return span(access, s.axes);
  std::vector<int64_t> axes = s.axes;
  axes[0] = 1;
  Span first = span(access, axes);
  int64_t steps = s.axes[0] - 1;
  for (size_t a = 1; a < axes.size(); ++a) axes[a] += s.growth[a] * steps;
  Span last = span(access, axes);
  // In between both ends of the span move linearly.
  int64_t moved = access.strides[0] * steps;
  return {std::min(first.first, last.first + moved), std::max(first.last, last.last + moved)};
}

Statement at_step(const Statement& s, int64_t step) {
  Statement out = s;
  out.growth.clear();
  out.axes.erase(out.axes.begin());
  for (size_t a = 1; a < s.axes.size(); ++a) out.axes[a - 1] += s.growth[a] * step;
  auto drop = [&](Access& access) {
    access.offset += access.strides[0] * step;
    access.strides.erase(access.strides.begin());
  };
  drop(out.store);
  for (Access& load : out.loads) drop(load);
  if (out.reduction) out.reduction->axes.erase(out.reduction->axes.begin());
  for (Node& node : out.expr.nodes) {
    if (node.op != Op::Axis) continue;
    if (node.payload == 0)
      node = {Op::Const, ScalarType::Long, {-1, -1, -1}, step};
    else
      --node.payload;
  }
  return out;
}

}  // namespace graft::ir
