#include "ops/reduce.h"

#include <algorithm>

#include "ir/overlap.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

/// Marks the axes named by the operator's `dim`; without any, all of them.
std::vector<bool> axes_of(const record::OperatorRecord& op, size_t rank) {
  std::vector<int64_t> dims = integers(op, "dim");
  std::vector<bool> axes(rank, dims.empty());
  for (int64_t dim : dims) axes[wrapped(dim, rank)] = true;
  return axes;
}

/// Do `sizes` come out of reducing `axes` of `in`, with or without keeping the dimensions?
bool matches(const std::vector<int64_t>& sizes, const std::vector<int64_t>& in,
             const std::vector<bool>& axes) {
  std::vector<int64_t> kept, dropped;
  for (size_t a = 0; a < in.size(); ++a) {
    kept.push_back(axes[a] ? 1 : in[a]);
    if (!axes[a]) dropped.push_back(in[a]);
  }
  return sizes == kept || sizes == dropped;
}

}  // namespace

c10::ScalarType accumulate_type(c10::ScalarType type) {
  return is_float(type) ? c10::ScalarType::Double : c10::ScalarType::Long;
}

ir::View at_least_1d(ir::View view) {
  if (view.sizes.empty()) view.sizes = {1}, view.strides = {1};
  return view;
}
ir::View with_unit_axis(ir::View view, size_t at) {
  const auto place = static_cast<std::ptrdiff_t>(at);
  view.sizes.insert(view.sizes.begin() + place, 1);
  view.strides.insert(view.strides.begin() + place, 0);
  return view;
}

bool overlaps(const ir::View& in, const std::vector<ir::View>& outs, bool in_step) {
  return std::any_of(outs.begin(), outs.end(), [&](const ir::View& out) {
    return ir::overlap(in, out) && !(in_step && in == out);
  });
}

size_t wrapped(int64_t dim, size_t rank) {
  return static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(rank) : dim);
}

ir::View Reduced::per_row(Context& ctx, c10::ScalarType type) const {
  std::vector<int64_t> sizes = in.sizes;
  for (size_t a = 0; a < sizes.size(); ++a)
    if (axes[a]) sizes[a] = 1;
  return ctx.temporary(sizes, type);
}

std::optional<Reduced> read_reduction(Context& ctx, const record::OperatorRecord& op) {
  Reduced r;
  r.in = at_least_1d(ctx.tensor(op, 0));
  if (r.in.storage < 0) return std::nullopt;
  r.axes = axes_of(op, r.in.sizes.size());
  for (size_t k = 0; k < op.outputs.size(); ++k) {
    r.outs.push_back(ctx.output(op, k));
    bool scalar = ctx.tensor(op, 0).sizes.empty();
    if (r.outs[k].storage < 0) return std::nullopt;
    if (!matches(r.outs[k].sizes, r.in.sizes, r.axes) && !(scalar && r.outs[k].sizes.empty()))
      return std::nullopt;
  }
  for (size_t a = 0; a < r.axes.size(); ++a)
    if (r.axes[a]) r.count *= r.in.sizes[a];
  r.empty = ir::numel(r.in.sizes) == 0;
  if (overlaps(r.in, r.outs)) return std::nullopt;
  return r;
}

ir::View optional_tensor(Context& ctx, const record::OperatorRecord& op, const char* name) {
  int k = argument_index(op, name);
  if (k < 0) return {};
  return ctx.tensor(op, static_cast<size_t>(k));
}

bool is_constant(Context& ctx, const record::OperatorRecord& op, const char* name) {
  int k = argument_index(op, name);
  return k >= 0 && ctx.tensor(op, static_cast<size_t>(k)).constant.has_value();
}

}  // namespace graft::ops
