// Operators that move values without computing: copies, concatenation, fills, and the irregular ones (pad, roll, flip, tril).
#include <algorithm>
#include <cmath>

#include "ops/context.h"
#include "ops/schema.h"

namespace graft::ops {

namespace {

using ir::View;
using record::OperatorRecord;
using record::TensorInfo;

int64_t bytes_of(const View& view) { return static_cast<int64_t>(c10::elementSize(view.dtype)); }

View sliced(View view, size_t dim, int64_t first, int64_t count) {
  view.byte_offset += view.strides[dim] * first * bytes_of(view);
  view.sizes[dim] = count;
  return view;
}

size_t wrapped(int64_t dim, size_t dims) { return static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(dims) : dim); }

/// Copies tensor `from`, or the number it stands for.
void put(Context& context, const TensorInfo& from, const View& to) {
  if (from.constant) context.fill(to, *from.constant);
  else context.copy(Context::view(from), to);
}

Fate copy_into(Context& context, const OperatorRecord& op) {  // copy_(self, src)
  put(context, context.tensor(op, 1), Context::view(context.output(op)));
  return Fate::fused();
}

Fate copy_out(Context& context, const OperatorRecord& op) {  // clone, _to_copy, …
  put(context, context.tensor(op, 0), Context::view(context.output(op)));
  return Fate::fused();
}

/// Sources whose memory the output shares go through fresh memory before anything is stored.
std::vector<View> apart_from(Context& context, const std::vector<int>& tensors, const View& out) {
  std::vector<View> sources;
  for (int t : tensors) {
    View view = Context::view(context.trace.tensors[static_cast<size_t>(t)]);
    if (ir::may_overlap(view, out)) {
      View fresh = context.temporary(view.sizes, view.dtype);
      context.copy(view, fresh);
      view = fresh;
    }
    sources.push_back(view);
  }
  return sources;
}

Fate cat(Context& context, const OperatorRecord& op) {
  View out = Context::view(context.output(op));
  for (int t : op.inputs[0].tensors)
    if (t < 0 || context.trace.tensors[static_cast<size_t>(t)].constant) return Fate::external("a number among the tensors");
  size_t dim = wrapped(integer(op, "dim", 0), out.sizes.size());
  int64_t at = 0;
  for (const View& source : apart_from(context, op.inputs[0].tensors, out)) {
    if (source.sizes.size() == 1 && source.sizes[0] == 0) continue;  // cat ignores empty one-dimensional tensors
    context.copy(source, sliced(out, dim, at, source.sizes[dim]));
    at += source.sizes[dim];
  }
  return Fate::fused();
}

Fate stack(Context& context, const OperatorRecord& op) {
  View out = Context::view(context.output(op));
  for (int t : op.inputs[0].tensors)
    if (t < 0 || context.trace.tensors[static_cast<size_t>(t)].constant) return Fate::external("a number among the tensors");
  size_t dim = wrapped(integer(op, "dim", 0), out.sizes.size());
  int64_t at = 0;
  for (const View& source : apart_from(context, op.inputs[0].tensors, out)) {
    View part = sliced(out, dim, at++, 1);
    part.sizes.erase(part.sizes.begin() + static_cast<std::ptrdiff_t>(dim));
    part.strides.erase(part.strides.begin() + static_cast<std::ptrdiff_t>(dim));
    context.copy(source, part);
  }
  return Fate::fused();
}

Fate pad(Context& context, const OperatorRecord& op) {
  View from = Context::view(context.tensor(op, 0)), out = Context::view(context.output(op));
  std::vector<int64_t> pads = integers(op, "pad");
  context.fill(out, number(op, "value").value_or(0));
  for (size_t k = 0; 2 * k + 1 < pads.size(); ++k) {
    size_t dim = from.sizes.size() - 1 - k;
    int64_t before = pads[2 * k], after = pads[2 * k + 1];
    int64_t first = std::max<int64_t>(0, -before), last = from.sizes[dim] - std::max<int64_t>(0, -after);
    if (last <= first) return Fate::fused();  // nothing of the source is left
    from = sliced(from, dim, first, last - first);
    out = sliced(out, dim, std::max<int64_t>(0, before), last - first);
  }
  context.copy(from, out);
  return Fate::fused();
}

Fate repeat(Context& context, const OperatorRecord& op) {
  View from = Context::view(context.tensor(op, 0)), out = Context::view(context.output(op));
  size_t missing = out.sizes.size() - from.sizes.size();
  View source{from.storage, from.dtype, from.byte_offset, {}, {}}, target{out.storage, out.dtype, out.byte_offset, {}, {}};
  for (size_t d = 0; d < out.sizes.size(); ++d) {
    int64_t size = d < missing ? 1 : from.sizes[d - missing], stride = d < missing ? 0 : from.strides[d - missing];
    int64_t times = size == 0 ? 0 : out.sizes[d] / size;
    for (auto [n, s] : {std::pair<int64_t, int64_t>{times, out.strides[d] * size}, {size, out.strides[d]}})
      target.sizes.push_back(n), target.strides.push_back(s);
    for (auto [n, s] : {std::pair<int64_t, int64_t>{1, 0}, {size, stride}}) source.sizes.push_back(n), source.strides.push_back(s);
  }
  context.copy(source, target);
  return Fate::fused();
}

/// Rolls dims[k …] by their shifts: each dimension is two pieces.
void roll_from(Context& context, const View& from, const View& to, const std::vector<int64_t>& shifts,
               const std::vector<int64_t>& dims, size_t k) {
  if (k == dims.size()) return context.copy(from, to);
  size_t dim = wrapped(dims[k], from.sizes.size());
  int64_t n = from.sizes[dim];
  if (n == 0) return;
  int64_t shift = ((shifts[k] % n) + n) % n;
  roll_from(context, sliced(from, dim, 0, n - shift), sliced(to, dim, shift, n - shift), shifts, dims, k + 1);
  if (shift) roll_from(context, sliced(from, dim, n - shift, shift), sliced(to, dim, 0, shift), shifts, dims, k + 1);
}

Fate roll(Context& context, const OperatorRecord& op) {
  View from = Context::view(context.tensor(op, 0)), out = Context::view(context.output(op));
  std::vector<int64_t> shifts = integers(op, "shifts"), dims = integers(op, "dims");
  if (dims.empty()) {
    std::vector<int64_t> flat{ir::numel(from.sizes)};
    if (from.strides != ir::contiguous_strides(from.sizes) || out.strides != ir::contiguous_strides(out.sizes))
      return Fate::external("rolled as one dimension, and not contiguous");
    from.sizes = out.sizes = flat;
    from.strides = out.strides = {1};
    dims = {0};
  }
  std::vector<int64_t> distinct;
  for (int64_t d : dims) distinct.push_back(static_cast<int64_t>(wrapped(d, from.sizes.size())));
  std::sort(distinct.begin(), distinct.end());
  if (std::adjacent_find(distinct.begin(), distinct.end()) != distinct.end() || dims.size() > 3)
    return Fate::external("rolls one dimension twice, or more than three");
  roll_from(context, from, out, shifts, dims, 0);
  return Fate::fused();
}

Fate flip(Context& context, const OperatorRecord& op) {
  View from = Context::view(context.tensor(op, 0)), out = Context::view(context.output(op));
  for (int64_t d : integers(op, "dims")) {
    size_t dim = wrapped(d, from.sizes.size());
    if (from.sizes[dim] == 0) return Fate::fused();
    from.byte_offset += (from.sizes[dim] - 1) * from.strides[dim] * bytes_of(from);
    from.strides[dim] *= -1;
  }
  context.copy(from, out);
  return Fate::fused();
}

/// Keeps what `keep` says of (column - row - diagonal), zero elsewhere.
template <class Keep>
Fate triangle(Context& context, const OperatorRecord& op, Keep keep) {
  View from = Context::view(context.tensor(op, 0)), out = Context::view(context.output(op));
  if (ir::may_overlap(from, out) && !(from.byte_offset == out.byte_offset && from.strides == out.strides && from.sizes == out.sizes)) {
    View fresh = context.temporary(from.sizes, from.dtype);
    context.copy(from, fresh);
    from = fresh;
  }
  ir::StatementBuilder s(out.sizes);
  int last = static_cast<int>(out.sizes.size()) - 1;
  ir::Value distance = s.axis(last) - s.axis(last - 1);
  ir::Value diagonal = s.scalar(integer(op, "diagonal", 0), c10::ScalarType::Long);
  ir::Value x = s.load(from);
  ir::Value zero = x.type() == c10::ScalarType::Bool ? s.integer(0, x.type()) : s.constant(0, x.type());
  context.emit(s.store(out, ir::select(keep(distance, diagonal), x, zero)));
  return Fate::fused();
}
Fate tril(Context& context, const OperatorRecord& op) { return triangle(context, op, [](auto a, auto b) { return ir::le(a, b); }); }
Fate triu(Context& context, const OperatorRecord& op) { return triangle(context, op, [](auto a, auto b) { return ir::ge(a, b); }); }

template <int Number>
Fate fill_with(Context& context, const OperatorRecord& op) {
  context.fill(Context::view(context.output(op)), Number);
  return Fate::fused();
}

/// fill_, full, full_like, new_full, scalar_tensor: a Scalar, or a 0-dim tensor.
Fate fill(Context& context, const OperatorRecord& op) {
  View out = Context::view(context.output(op));
  for (std::string_view name : {"value", "fill_value", "s"}) {
    if (auto value = number(op, name)) {
      context.fill(out, *value);
      return Fate::fused();
    }
    int k = argument_index(op, name);
    if (k < 0 || op.inputs[static_cast<size_t>(k)].tensors.empty()) continue;
    put(context, context.tensor(op, static_cast<size_t>(k)), out);
    return Fate::fused();
  }
  return Fate::external("no value to fill with");
}

Fate arange(Context& context, const OperatorRecord& op) {
  View out = Context::view(context.output(op));
  double start = number(op, "start").value_or(0).toDouble(), step = number(op, "step").value_or(1).toDouble();
  // ATen's vector body rounds each vector's first element to the result type; whole numbers are exact either way.
  auto whole = [](double x) { return std::floor(x) == x && std::abs(x) < (1 << 20); };
  if (!whole(start) || !whole(step) || ir::numel(out.sizes) > (1 << 20) || out.dtype == c10::ScalarType::Half ||
      out.dtype == c10::ScalarType::BFloat16)
    return Fate::external("steps that are not whole numbers are rounded a vector at a time");
  ir::StatementBuilder s(out.sizes);
  constexpr auto kLong = c10::ScalarType::Long;
  ir::Value value = s.scalar(static_cast<int64_t>(start), kLong) + s.scalar(static_cast<int64_t>(step), kLong) * s.axis(0);
  context.emit(s.store(out, value));
  return Fate::fused();
}

Fate eye(Context& context, const OperatorRecord& op) {
  View out = Context::view(context.output(op));
  ir::StatementBuilder s(out.sizes);
  context.emit(s.store(out, convert(ir::eq(s.axis(0), s.axis(1)), out.dtype)));
  return Fate::fused();
}

}  // namespace

std::vector<Row> copy_rows() {
  return {
      {"aten::copy", copy_into, "copies with conversion, broadcast"},
      {"aten::clone", copy_out, "a copy"},
      {"aten::contiguous", copy_out, "a contiguous copy"},
      {"aten::_to_copy", copy_out, "a copy of another dtype or layout"},
      {"aten::cat", cat, "one copy a part"},
      {"aten::stack", stack, "one copy a part"},
      {"aten::constant_pad_nd", pad, "a fill and a copy"},
      {"aten::repeat", repeat, "a copy with repeated axes"},
      {"aten::roll", roll, "two copies a rolled dimension"},
      {"aten::flip", flip, "a copy with negative strides"},
      {"aten::tril", tril, "zero above a diagonal"},
      {"aten::triu", triu, "zero below a diagonal"},
      {"aten::zero", fill_with<0>, "a fill"},
      {"aten::zeros", fill_with<0>, "a fill"},
      {"aten::zeros_like", fill_with<0>, "a fill"},
      {"aten::new_zeros", fill_with<0>, "a fill"},
      {"aten::ones", fill_with<1>, "a fill"},
      {"aten::ones_like", fill_with<1>, "a fill"},
      {"aten::new_ones", fill_with<1>, "a fill"},
      {"aten::fill", fill, "a fill"},
      {"aten::full", fill, "a fill"},
      {"aten::full_like", fill, "a fill"},
      {"aten::new_full", fill, "a fill"},
      {"aten::scalar_tensor", fill, "a fill"},
      {"aten::arange", arange, "start + step * index, for whole numbers"},
      {"aten::eye", eye, "one on the diagonal"},
  };
}

}  // namespace graft::ops
