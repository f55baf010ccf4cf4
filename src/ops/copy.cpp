// Operators that move elements without computing with them: copies, joins, pads, rolls, flips,
// triangles. One statement per part. Fills and ranges are in fill.cpp.
#include <algorithm>

#include "ir/overlap.h"
#include "ops/context.h"
#include "ops/fill.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;
using record::TensorInfo;

/// Element `index` of an axis, which disappears.
View select(View view, size_t axis, int64_t index) {
  view = narrow(view, axis, index, 1);
  view.sizes.erase(view.sizes.begin() + static_cast<std::ptrdiff_t>(axis));
  view.strides.erase(view.strides.begin() + static_cast<std::ptrdiff_t>(axis));
  return view;
}

/// A tensor operand into `to`, with broadcasting: a copy, or a fill where it is a number.
void put(Context& context, const TensorInfo& from, const View& to) {
  if (from.constant)
    context.fill(to, *from.constant);
  else
    context.copy(from, to);
}

size_t wrapped(int64_t axis, size_t rank) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}

Fate lower_copy_in_place(Context& context, const OperatorRecord& op) {
  if (ir::clash(context.output(op), context.tensor(op, 1)))
    return Fate::external("the tensors overlap");
  put(context, context.tensor(op, 1), context.output(op));
  return Fate::fused();
}

/// Result = operand 0 in another layout or dtype.
Fate lower_clone(Context& context, const OperatorRecord& op) {
  put(context, context.tensor(op, 0), context.output(op));
  return Fate::fused();
}

/// Where the parts are read in pieces, an output that shares their memory must not be written in
/// between.
bool shares_memory(const Context& context, const OperatorRecord& op, const View& out) {
  for (int tensor : op.inputs[0].tensors)
    if (ir::overlap(context.trace.tensors[static_cast<size_t>(tensor)], out)) return true;
  return false;
}

/// The tensors of operand 0, one behind the other along an axis.
Fate lower_cat(Context& context, const OperatorRecord& op) {
  View out = context.output(op);
  if (shares_memory(context, op, out)) return Fate::external("the out= tensor overlaps a part");
  size_t axis = wrapped(integer(op, "dim", 0), out.sizes.size());
  int64_t at = 0;
  for (int tensor : op.inputs[0].tensors) {
    const TensorInfo& part = context.trace.tensors[static_cast<size_t>(tensor)];
    if (part.sizes.size() == 1 && part.sizes[0] == 0) continue;  // torch joins these with any shape
    put(context, part, narrow(out, axis, at, part.sizes[axis]));
    at += part.sizes[axis];
  }
  return Fate::fused();
}

Fate lower_stack(Context& context, const OperatorRecord& op) {
  View out = context.output(op);
  if (shares_memory(context, op, out)) return Fate::external("the out= tensor overlaps a part");
  size_t axis = wrapped(integer(op, "dim", 0), out.sizes.size());
  int64_t at = 0;
  for (int tensor : op.inputs[0].tensors)
    put(context, context.trace.tensors[static_cast<size_t>(tensor)], select(out, axis, at++));
  return Fate::fused();
}

/// The inside is a copy, the border is filled as disjoint boxes, so that nothing is stored twice
/// and a reader of the inside finds one producer. Negative padding cuts the input.
Fate lower_pad(Context& context, const OperatorRecord& op) {
  View in = context.tensor(op, 0), out = context.output(op);
  std::vector<int64_t> pad = integers(op, "pad");
  c10::Scalar value = number(op, "value").value_or(0);
  for (size_t k = 0; 2 * k + 1 < pad.size(); ++k) {
    size_t axis = in.sizes.size() - 1 - k;
    int64_t low = std::max<int64_t>(pad[2 * k], 0), high = std::max<int64_t>(pad[2 * k + 1], 0);
    int64_t inside = std::max<int64_t>(out.sizes[axis] - low - high, 0);
    high = out.sizes[axis] - std::min(low, out.sizes[axis]) - inside;
    low = out.sizes[axis] - inside - high;
    in = narrow(in, axis, std::max<int64_t>(-pad[2 * k], 0), inside);
    context.fill(narrow(out, axis, 0, low), value);
    context.fill(narrow(out, axis, out.sizes[axis] - high, high), value);
    out = narrow(out, axis, low, inside);
  }
  context.copy(in, out);
  return Fate::fused();
}

/// Each axis of the output splits into (repetition, element); the input is broadcast along the
/// repetitions.
Fate lower_repeat(Context& context, const OperatorRecord& op) {
  View in = context.tensor(op, 0), out = context.output(op);
  std::vector<int64_t> repeats = integers(op, "repeats");
  size_t fresh = repeats.size() - in.sizes.size();
  View from{in.storage, in.dtype, in.byte_offset, {}, {}};
  View to{out.storage, out.dtype, out.byte_offset, {}, {}};
  for (size_t d = 0; d < repeats.size(); ++d) {
    int64_t size = d < fresh ? 1 : in.sizes[d - fresh];
    int64_t stride = d < fresh ? 0 : in.strides[d - fresh];
    to.sizes.insert(to.sizes.end(), {repeats[d], size});
    to.strides.insert(to.strides.end(), {size * out.strides[d], out.strides[d]});
    from.sizes.insert(from.sizes.end(), {1, size});
    from.strides.insert(from.strides.end(), {0, stride});
  }
  context.copy(from, to);
  return Fate::fused();
}

/// out[(i + shift) mod n] = in[i] along axes[next …]: two pieces per axis.
void roll(Context& context, const View& in, const View& out, const std::vector<int64_t>& shifts,
          const std::vector<size_t>& axes, size_t next) {
  if (next == axes.size()) return context.copy(in, out);
  size_t axis = axes[next];
  int64_t n = in.sizes[axis];
  int64_t shift = n == 0 ? 0 : (shifts[next] % n + n) % n;
  roll(context, narrow(in, axis, 0, n - shift), narrow(out, axis, shift, n - shift), shifts, axes,
       next + 1);
  if (shift > 0)
    roll(context, narrow(in, axis, n - shift, shift), narrow(out, axis, 0, shift), shifts, axes,
         next + 1);
}

Fate lower_roll(Context& context, const OperatorRecord& op) {
  View in = context.tensor(op, 0), out = context.output(op);
  std::vector<int64_t> shifts = integers(op, "shifts");
  std::vector<size_t> axes;
  for (int64_t dim : integers(op, "dims")) axes.push_back(wrapped(dim, in.sizes.size()));
  if (axes.empty() && !in.sizes.empty()) {  // rolls the flattened tensor
    if (out.strides != ir::contiguous_strides(out.sizes))
      return Fate::external("result is not contiguous");
    if (in.strides != ir::contiguous_strides(in.sizes)) {
      View flat = context.temporary(in.sizes, in.dtype);
      context.copy(in, flat);
      in = flat;
    }
    in.sizes = out.sizes = {ir::numel(in.sizes)};
    in.strides = out.strides = {1};
    axes = {0};
  }
  std::vector<size_t> sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end() || axes.size() > 3)
    return Fate::external("rolls one axis twice, or more than three");
  roll(context, in, out, shifts, axes, 0);
  return Fate::fused();
}

Fate lower_flip(Context& context, const OperatorRecord& op) {
  View in = context.tensor(op, 0), out = context.output(op);
  for (int64_t dim : integers(op, "dims")) {
    if (ir::numel(in.sizes) == 0 || in.sizes.empty()) break;
    size_t axis = wrapped(dim, in.sizes.size());
    in = narrow(in, axis, in.sizes[axis] - 1, in.sizes[axis]);
    in.strides[axis] = -in.strides[axis];
  }
  context.copy(in, out);
  return Fate::fused();
}

/// The lower (upper) triangle of each matrix; zero elsewhere.
template <bool lower>
Fate lower_triangle(Context& context, const OperatorRecord& op) {
  View in = context.tensor(op, 0), out = context.output(op);
  View target = ir::clash(out, in) ? context.temporary(out.sizes, out.dtype) : out;
  StatementBuilder s(out.sizes);
  int rank = static_cast<int>(out.sizes.size());
  Value offset = s.axis(rank - 1) - s.axis(rank - 2);
  Value diagonal = s.scalar(integer(op, "diagonal", 0), c10::ScalarType::Long);
  Value kept = lower ? ir::le(offset, diagonal) : ir::ge(offset, diagonal);
  Value value = s.load(in), zero = convert(s.integer(0, opmath(in.dtype)), in.dtype);
  context.emit(s.store(target, ir::select(kept, value, zero)));
  if (target != out) context.copy(target, out);
  return Fate::fused();
}

}  // namespace

std::vector<Row> copy_rows() {
  std::vector<Row> rows = {
      {"aten::copy", lower_copy_in_place,
       "stores another tensor's elements, converted and broadcast"},
      {"aten::clone", lower_clone,
       "a copy, perhaps in another memory format (contiguous, reshape)"},
      {"aten::_to_copy", lower_clone, "a copy in another dtype"},
      {"aten::lift_fresh_copy", lower_clone, "a copy"},
      {"aten::detach_copy", lower_clone, "a copy"},
      {"aten::alias_copy", lower_clone, "a copy"},
      {"aten::expand_copy", lower_clone, "a copy, broadcast"},
      {"aten::cat", lower_cat, "tensors one behind the other: a copy each"},
      {"aten::stack", lower_stack, "tensors along a new axis: a copy each"},
      {"aten::constant_pad_nd", lower_pad, "a copy and a filled border"},
      {"aten::repeat", lower_repeat, "a copy with repeated axes"},
      {"aten::roll", lower_roll, "two copies per axis"},
      {"aten::flip", lower_flip, "a copy with negative strides"},
  };
  for (const Row& row : part_rows()) rows.push_back(row);
  for (Row& row : rows) row.takes_complex = true;
  rows.push_back({"aten::tril", lower_triangle<true>, "a up to a diagonal, else 0"});
  rows.push_back({"aten::triu", lower_triangle<false>, "a from a diagonal on, else 0"});
  for (const Row& row : fill_rows()) rows.push_back(row);
  for (const Row& row : resample_rows()) rows.push_back(row);
  for (const Row& row : interpolation_rows()) rows.push_back(row);
  for (const Row& row : grid_sample_rows()) rows.push_back(row);
  for (const Row& row : grid_sample_volume_rows()) rows.push_back(row);
  for (const Row& row : affine_grid_rows()) rows.push_back(row);
  for (const Row& row : pad_rows()) rows.push_back(row);
  for (const Row& row : patch_rows()) rows.push_back(row);
  return rows;
}

}  // namespace graft::ops
