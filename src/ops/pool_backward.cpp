// The backward of pooling and unfold: each element sums up the gradients of the windows over it, in
// the order in which ATen's loops over windows add them.
#include <algorithm>

#include "ops/reduce.h"
#include "ops/schema.h"
#include "ops/windows.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

constexpr size_t kMostPatches = 16;    ///< statements of one operator
constexpr int64_t kMostWindows = 128;  ///< windows over one element, each an addition of its own
constexpr const char* kUnusualGradient = "an unusual gradient, or one that overlaps its result";

/// Elements along one dimension over which as many windows lie: `count` groups of `neighbours`, a
/// step of the windows from one to the next.
struct Cover {
  int64_t begin = 0, neighbours = 1, count = 0;
  int64_t last = 0;  ///< of the windows over the first group; negative ones are beyond the border
  int64_t windows = 0;  ///< one behind the other
  int64_t within = 0;   ///< which element of the last window the first one is
};

std::vector<Cover> covers_of(const Windows& w) {
  std::vector<Cover> all;
  for (int64_t first = 0; first < std::min(w.step, w.in); ++first) {
    const int64_t at = first + w.padding, within = at % w.step;
    const Cover cover{first,
                      1,
                      (w.in - first + w.step - 1) / w.step,
                      at / w.step,
                      within < w.size ? (w.size - 1 - within) / w.step + 1 : 0,
                      within};
    if (!all.empty() && all.back().count == cover.count && all.back().last == cover.last &&
        all.back().windows == cover.windows)
      ++all.back().neighbours;
    else
      all.push_back(cover);
  }
  return all;
}

/// What goes back through windows along some dimensions of the result.
struct Way {
  View gradient, out;
  std::vector<size_t> dims;
  std::vector<Windows> windows;  ///< along these
  std::vector<int64_t> within;   ///< stride from one element of a window to the next
  std::vector<std::vector<Cover>> covers = {};

  /// Empty, or why it stays extern.
  std::string cover() {
    size_t statements = 1;
    int64_t terms = 1;
    for (const Windows& w : windows) {
      if (w.apart != 1) return "windows with gaps";
      const std::vector<Cover>& made = covers.emplace_back(covers_of(w));
      statements *= made.size();
      int64_t most = 0;
      for (const Cover& c : made) most = std::max(most, c.windows);
      terms *= most;
    }
    if (statements > kMostPatches || terms > kMostWindows) return "windows of many kinds";
    return {};
  }
};

/// Windows beyond the first and the last one that some cover names.
struct Border {
  int64_t before = 0, after = 0;
};
Border border_of(const std::vector<Cover>& covers, const Windows& w) {
  Border border;
  for (const Cover& c : covers) {
    if (c.windows == 0) continue;
    border.before = std::max(border.before, c.windows - 1 - c.last);
    border.after = std::max(border.after, c.last + c.count - w.out);
  }
  return border;
}

/// A copy of a view over the windows with a border of `value`; `made(builder, axes)` gives its
/// elements. The copy is what begins at the first window.
template <class Made>
View bordered_windows(Context& ctx, const Way& way, const View& view, double value, Made made) {
  std::vector<int64_t> sizes = view.sizes;
  bool any = false;
  for (size_t k = 0; k < way.dims.size(); ++k) {
    const Border border = border_of(way.covers[k], way.windows[k]);
    sizes[way.dims[k]] += border.before + border.after;
    any = any || border.before + border.after > 0;
  }
  View inside = ctx.temporary(sizes, view.dtype);
  if (any) ctx.fill(inside, value);
  for (size_t k = 0; k < way.dims.size(); ++k)
    inside = narrow(inside, way.dims[k], border_of(way.covers[k], way.windows[k]).before,
                    view.sizes[way.dims[k]]);
  StatementBuilder s(view.sizes);
  ctx.emit(s.store(inside, made(s)));
  return inside;
}

/// One cover along each dimension: the part of the result that has them.
struct Patch {
  std::vector<Cover> covers;
  View out;
  std::vector<int> group, neighbour;  ///< axes along each dimension; neighbour: -1 where just one

  int64_t terms() const {
    int64_t all = 1;
    for (const Cover& c : covers) all *= c.windows;
    return all;
  }
};

std::vector<Patch> patches_of(const Way& way) {
  std::vector<Patch> patches(1);
  patches.front().out = way.out;
  for (size_t k = 0; k < way.dims.size(); ++k) {
    const size_t d = way.dims[k];
    std::vector<Patch> cut;
    for (const Patch& patch : patches)
      for (const Cover& c : way.covers[k]) {
        Patch& made = cut.emplace_back(patch);
        made.covers.push_back(c);
        advance(made.out, d, c.begin);
        made.out.sizes[d] = c.count;
        made.out.strides[d] = way.out.strides[d] * way.windows[k].step;
        made.group.push_back(static_cast<int>(d));
        made.neighbour.push_back(c.neighbours > 1 ? static_cast<int>(made.out.sizes.size()) : -1);
        if (c.neighbours == 1) continue;
        made.out.sizes.push_back(c.neighbours);
        made.out.strides.push_back(way.out.strides[d]);
      }
    patches = std::move(cut);
  }
  return patches;
}

/// `windows`, as the patch's elements see the `term`-th of the windows over them, the first one
/// first, along the last dimension fastest.
View seen(const Way& way, const Patch& patch, View windows, int64_t term) {
  const std::vector<int64_t> strides = windows.strides;
  for (size_t k = way.dims.size(); k-- > 0;) {
    const Cover& c = patch.covers[k];
    const int64_t back = c.windows - 1 - term % c.windows;
    term /= c.windows;
    advance(windows, way.dims[k], c.last - back);
    windows.byte_offset += (c.within + back * way.windows[k].step) * way.within[k] *
                           static_cast<int64_t>(c10::elementSize(windows.dtype));
    windows.sizes[way.dims[k]] = c.count;
  }
  for (size_t k = 0; k < way.dims.size(); ++k) {
    if (patch.neighbour[k] < 0) continue;
    windows.sizes.push_back(patch.covers[k].neighbours);
    windows.strides.push_back(way.within[k]);
  }
  return windows;
}

/// `taken(builder, patch, term, gradient)`: what a window gives to an element. `copied`: no two
/// windows overlap, so that a −0 stays one.
template <class Taken>
void add_up(Context& ctx, const Way& way, const View& gradient, Taken taken, bool copied = false) {
  const ScalarType type = way.out.dtype, compute = opmath(type);
  for (const Patch& patch : patches_of(way)) {
    StatementBuilder s(patch.out.sizes);
    Value sum = s.constant(0, compute);
    for (int64_t term = 0; term < patch.terms(); ++term) {
      const Value from = s.load(seen(way, patch, gradient, term)).to(compute);
      const Value more = taken(s, patch, term, from);
      sum = copied ? more : (sum + more).to(type).to(compute);
    }
    ctx.emit(s.store(patch.out, sum.to(type)));
  }
}

/// Empty dims: it stays extern.
Way read_way(Context& ctx, const OperatorRecord& op, size_t dimensions) {
  Way way{ctx.tensor(op, 0), ctx.output(op), {}, {}, {}};
  const View &gradient = way.gradient, &out = way.out;
  const size_t rank = out.sizes.size();
  if (gradient.storage < 0 || !is_float(out.dtype) || gradient.dtype != out.dtype ||
      rank < dimensions || gradient.sizes.size() != rank || overlaps(gradient, {out}))
    return way;
  way.windows = read_windows(op, out, gradient, dimensions);
  way.within.assign(dimensions, 0);
  for (size_t k = 0; k < dimensions; ++k) way.dims.push_back(rank - dimensions + k);
  return way;
}

bool is_empty(const Way& way) {
  return ir::numel(way.out.sizes) == 0 || ir::numel(way.gradient.sizes) == 0;
}

/// `divided(builder, gradient)`: what each window gives to its elements.
template <class Divided>
Fate average_backward(Context& ctx, Way way, Divided divided) {
  if (is_empty(way)) return Fate::external("there are no elements");
  if (std::string why = way.cover(); !why.empty()) return Fate::external(why);
  const ScalarType compute = opmath(way.out.dtype);
  const View each = bordered_windows(ctx, way, way.gradient, 0, [&](StatementBuilder& s) {
    return divided(s, s.load(way.gradient).to(compute));
  });
  add_up(ctx, way, each,
         [](StatementBuilder&, const Patch&, int64_t, Value gradient) { return gradient; });
  return Fate::fused();
}

template <size_t dimensions>
Fate average_pool_backward(Context& ctx, const OperatorRecord& op) {
  const Way way = read_way(ctx, op, dimensions);
  if (way.dims.empty()) return Fate::external(kUnusualGradient);
  const std::optional<c10::Scalar> divisor = number(op, "divisor_override");
  const bool padding = boolean(op, "count_include_pad", true);
  return average_backward(ctx, way, [&](StatementBuilder& s, Value gradient) {
    if (divisor) return gradient / s.scalar(converted(*divisor, way.out.dtype), gradient.type());
    Value count = s.integer(1, ScalarType::Long);
    for (size_t k = 0; k < way.dims.size(); ++k)
      count = count * window_elements(s, way.windows[k], static_cast<int>(way.dims[k]), padding);
    return gradient / count.to(way.out.dtype).to(gradient.type());
  });
}

/// Where each result's window is as large.
template <size_t dimensions>
Fate adaptive_average_backward(Context& ctx, const OperatorRecord& op) {
  Way way = read_way(ctx, op, dimensions);
  if (way.dims.empty()) return Fate::external(kUnusualGradient);
  if (!make_equal(way.windows)) return Fate::external(kUnequalWindows);
  return average_backward(ctx, way, [&](StatementBuilder& s, Value gradient) {
    for (const Windows& w : way.windows) {
      const Value count = s.scalar(converted(w.size, way.out.dtype), gradient.type());
      gradient = (gradient / count).to(way.out.dtype).to(gradient.type());
    }
    return gradient;
  });
}

/// Are these the places that max pooling found in the same run, each within its window?
bool are_places(const Context& ctx, const OperatorRecord& op, std::string_view pooling) {
  const int k = argument_index(op, "indices");
  if (k < 0) return false;
  const int places = op.inputs[static_cast<size_t>(k)].tensors.at(0);
  const record::TensorInfo& info = ctx.tensor(op, static_cast<size_t>(k));
  bool found = false;
  for (int r = 0; r < ctx.record; ++r) {
    const OperatorRecord& other = ctx.trace.ops[static_cast<size_t>(r)];
    if (base_name(other) == pooling && other.outputs.size() == 2 &&
        other.outputs[1].tensors.at(0) == places) {
      found = ctx.tensor(other, 0).sizes == ctx.tensor(op, 1).sizes;
      for (const char* name : {"kernel_size", "stride", "padding", "dilation"})
        found = found && integers(other, name) == integers(op, name);
    } else if (std::find(other.mutated.begin(), other.mutated.end(), info.storage) !=
               other.mutated.end()) {
      return false;
    }
  }
  return found;
}

/// `pooling`: the operator that found the places.
Fate largest_backward(Context& ctx, const OperatorRecord& op, Way way, std::string_view pooling) {
  if (is_empty(way)) return Fate::external("there are no elements");
  if (!are_places(ctx, op, pooling))
    return Fate::external("places from outside, perhaps of other windows");
  if (std::string why = way.cover(); !why.empty()) return Fate::external(why);
  const View indices = ctx.tensor(op, static_cast<size_t>(argument_index(op, "indices")));
  if (indices.sizes != way.gradient.sizes || overlaps(indices, {way.out}))
    return Fate::external(kUnusualGradient);
  const View each = bordered_windows(ctx, way, way.gradient, 0,
                                     [&](StatementBuilder& s) { return s.load(way.gradient); });
  const View places =
      bordered_windows(ctx, way, indices, -1, [&](StatementBuilder& s) { return s.load(indices); });
  add_up(ctx, way, each,
         [&](StatementBuilder& s, const Patch& patch, int64_t term, Value gradient) {
           auto number = [&](int64_t value) { return s.integer(value, ScalarType::Long); };
           Value here = number(0);
           for (size_t k = 0; k < way.dims.size(); ++k) {
             const Windows& w = way.windows[k];
             Value at = s.axis(patch.group[k]) * number(w.step) + number(patch.covers[k].begin);
             if (patch.neighbour[k] >= 0) at = at + s.axis(patch.neighbour[k]);
             here = here * number(w.in) + at;
           }
           const Value place = s.load(seen(way, patch, places, term));
           return ir::select(ir::eq(place, here), gradient, gradient.like(0));
         });
  return Fate::fused();
}

template <size_t dimensions>
Fate max_pool_backward(Context& ctx, const OperatorRecord& op) {
  const Way way = read_way(ctx, op, dimensions);
  if (way.dims.empty()) return Fate::external(kUnusualGradient);
  return largest_backward(
      ctx, op, way,
      dimensions == 2 ? "aten::max_pool2d_with_indices" : "aten::max_pool3d_with_indices");
}

template <size_t dimensions>
Fate adaptive_max_backward(Context& ctx, const OperatorRecord& op) {
  Way way = read_way(ctx, op, dimensions);
  if (way.dims.empty()) return Fate::external(kUnusualGradient);
  if (!make_equal(way.windows)) return Fate::external(kUnequalWindows);
  return largest_backward(
      ctx, op, way, dimensions == 2 ? "aten::adaptive_max_pool2d" : "aten::adaptive_max_pool3d");
}

/// The gradient has its windows' elements along a last dimension of its own.
Fate unfold_backward(Context& ctx, const OperatorRecord& op) {
  Way way{ctx.tensor(op, 0), ctx.output(op), {}, {}, {}};
  const size_t rank = way.out.sizes.size();
  if (way.gradient.storage < 0 || rank == 0 || way.gradient.sizes.size() != rank + 1 ||
      !is_float(way.out.dtype) || way.gradient.dtype != way.out.dtype ||
      overlaps(way.gradient, {way.out}))
    return Fate::external(kUnusualGradient);
  if (is_empty(way)) return Fate::external("there are no elements");
  const size_t dim = wrapped(integer(op, "dim", 0), rank);
  way.dims = {dim};
  way.windows = {{way.out.sizes[dim], way.gradient.sizes[dim], integer(op, "size", 1),
                  integer(op, "step", 1), 0, 1}};
  if (std::string why = way.cover(); !why.empty()) return Fate::external(why);
  View each = bordered_windows(ctx, way, way.gradient, 0,
                               [&](StatementBuilder& s) { return s.load(way.gradient); });
  way.within = {each.strides.back()};
  each.sizes.pop_back(), each.strides.pop_back();
  add_up(
      ctx, way, each,
      [](StatementBuilder&, const Patch&, int64_t, Value gradient) { return gradient; },
      way.windows[0].step >= way.windows[0].size);
  return Fate::fused();
}

}  // namespace

std::vector<Row> pool_backward_rows() {
  return {
      {"aten::avg_pool2d_backward", average_pool_backward<2>,
       "each element sums up the gradients of the windows over it"},
      {"aten::avg_pool3d_backward", average_pool_backward<3>, "likewise"},
      {"aten::_adaptive_avg_pool2d_backward", adaptive_average_backward<2>,
       "likewise, of parts that are equal"},
      {"aten::_adaptive_avg_pool3d_backward", adaptive_average_backward<3>, "likewise"},
      {"aten::max_pool2d_with_indices_backward", max_pool_backward<2>,
       "likewise, of windows whose largest element it was"},
      {"aten::max_pool3d_with_indices_backward", max_pool_backward<3>, "likewise"},
      {"aten::adaptive_max_pool2d_backward", adaptive_max_backward<2>, "likewise, of equal parts"},
      {"aten::adaptive_max_pool3d_backward", adaptive_max_backward<3>, "likewise"},
      {"aten::unfold_backward", unfold_backward, "likewise, of the windows' own copies"},
  };
}

}  // namespace graft::ops
