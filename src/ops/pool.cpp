// Pooling: reductions over windows that are affine in memory. Windows that the border cuts off have
// statements of their own, or where these would be many, a copy of the input gets a border. Wide
// windows are pooled along one dimension after the other.
#include <algorithm>
#include <limits>
#include <utility>

#include "ops/reduce.h"
#include "ops/schema.h"
#include "ops/windows.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::Op;
using ir::ReduceOp;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

/// Statements of one operator, at most.
constexpr size_t kMostParts = 9;

struct Pool {
  View in, out;
  std::vector<Windows> windows;  ///< of the last dimensions

  size_t others() const { return in.sizes.size() - windows.size(); }
};

/// Empty where the operands are not what loops can do.
std::optional<Pool> read_pool(Context& ctx, const OperatorRecord& op, size_t dimensions) {
  Pool pool{ctx.tensor(op, 0), ctx.output(op), {}};
  const View &in = pool.in, &out = pool.out;
  std::vector<View> outs{out};
  if (op.outputs.size() > 1) outs.push_back(ctx.output(op, 1));
  if (in.storage < 0 || !is_float(in.dtype) || out.dtype != in.dtype ||
      in.sizes.size() < dimensions || in.sizes.size() != out.sizes.size() || overlaps(in, outs) ||
      overlaps(outs.back(), {outs.begin(), outs.end() - 1}))
    return std::nullopt;
  pool.windows = read_windows(op, in, out, dimensions);
  return pool;
}

/// One part of the result: the same run along each dimension.
struct Part {
  View in;   ///< its windows: the result's axes, then one axis per dimension
  View out;  ///< without these
  std::vector<bool> axes;
  std::vector<Windows::Run> runs;
};

std::vector<Part> parts_of(const Pool& pool) {
  std::vector<Part> parts(1);
  parts.front() = {pool.in, pool.out, {}, {}};
  for (size_t k = 0; k < pool.windows.size(); ++k) {
    const size_t d = pool.others() + k;
    const Windows& w = pool.windows[k];
    std::vector<Part> cut;
    for (const Part& part : parts)
      for (const Windows::Run& run : w.runs()) {
        Part& made = cut.emplace_back(part);
        advance(made.in, d, run.first);
        advance(made.out, d, run.begin);
        made.in.sizes[d] = made.out.sizes[d] = run.count;
        made.in.strides[d] = pool.in.strides[d] * w.step;
        made.in.sizes.push_back(run.elements);
        made.in.strides.push_back(pool.in.strides[d] * w.apart);
        made.runs.push_back(run);
      }
    parts = std::move(cut);
  }
  for (Part& part : parts) {
    part.axes.assign(part.in.sizes.size(), false);
    std::fill(part.axes.end() - static_cast<std::ptrdiff_t>(pool.windows.size()), part.axes.end(),
              true);
  }
  return parts;
}

/// Does each window lie over some element?
bool has_elements(const std::vector<Part>& parts) {
  return std::all_of(parts.begin(), parts.end(), [](const Part& part) {
    return std::all_of(part.runs.begin(), part.runs.end(),
                       [](const Windows::Run& run) { return run.elements > 0; });
  });
}

/// With a copy of the input that has a border of `value`, so that no window is cut off.
Pool bordered(Context& ctx, const Pool& pool, double value) {
  Pool made = pool;
  std::vector<int64_t> sizes = pool.in.sizes, before;
  for (size_t k = 0; k < pool.windows.size(); ++k) {
    Windows& w = made.windows[k];
    before.push_back(w.padding);
    w.in = sizes[pool.others() + k] = std::max(w.reach(), w.in + w.padding);
    w.padding = 0;
  }
  made.in = with_border(ctx, pool.in, sizes, before, value);
  return made;
}

constexpr const char* kUnusualWindows =
    "an unusual input, overlapping operands, or windows beyond the border";

/// The element's coordinate along a dimension: of a window's elements the one that `digit` says.
/// `beyond`: elements that the border put before the plane. A border's element is the largest only
/// where all are −inf; eager then takes the first one inside, and so does this.
Value coordinate(StatementBuilder& s, const Windows& w, const Windows::Run& run, int axis,
                 Value digit, int64_t beyond) {
  auto number = [&](int64_t value) { return s.integer(value, ScalarType::Long); };
  const Value at =
      s.axis(axis) * number(w.step) + number(run.first - beyond) + digit * number(w.apart);
  if (beyond == 0) return at;
  const Value rest = at.op(Op::IRem, number(w.apart));
  const Value inside = ir::select(ir::lt(rest, number(0)), rest + number(w.apart), rest);
  return ir::select(ir::lt(at, number(0)), inside, at);
}

/// Which element of its plane is largest: the first of equal ones, of NaNs the last, as eager's
/// loop leaves it. `part` is one of `pool`, with or without a border.
void store_places(Context& ctx, const Pool& pool, const Part& part, View to, bool border) {
  to.sizes = part.out.sizes;
  for (size_t k = 0; k < part.runs.size(); ++k) advance(to, pool.others() + k, part.runs[k].begin);
  const View first = ctx.temporary(part.out.sizes, ScalarType::Long),
             last_nan = ctx.temporary(part.out.sizes, ScalarType::Long);
  const ScalarType compute = opmath(part.in.dtype);
  {
    StatementBuilder s(part.in.sizes);
    const Value x = s.load(part.in).to(compute);
    ctx.emit(s.store(first, s.reduce(ReduceOp::ArgMax, x, part.axes, ScalarType::Long)));
  }
  {
    StatementBuilder s(part.in.sizes);
    const Value x = s.load(part.in).to(compute);
    Value place = s.integer(0, ScalarType::Long);
    for (size_t k = 0; k < part.runs.size(); ++k)
      place = place * s.integer(part.runs[k].elements, ScalarType::Long) +
              s.axis(static_cast<int>(to.sizes.size() + k));
    const Value nan = ir::select(ir::ne(x, x), place, s.integer(-1, ScalarType::Long));
    ctx.emit(s.store(last_nan, s.reduce(ReduceOp::Max, nan, part.axes, ScalarType::Long)));
  }
  StatementBuilder s(to.sizes);
  const Value zero = s.integer(0, ScalarType::Long), nan = s.load(last_nan);
  Value place = ir::select(ir::lt(nan, zero), s.load(first), nan), plane = zero;
  // Digits of the place in the window, the last dimension first.
  std::vector<Value> digits(part.runs.size(), zero);
  for (size_t k = part.runs.size(); k-- > 0;) {
    const Value extent = s.integer(part.runs[k].elements, ScalarType::Long);
    digits[k] = k == 0 ? place : place.op(Op::IRem, extent);
    place = place.op(Op::IDiv, extent);
  }
  for (size_t k = 0; k < part.runs.size(); ++k) {
    const Windows& w = pool.windows[k];
    plane = plane * s.integer(w.in, ScalarType::Long) +
            coordinate(s, w, part.runs[k], static_cast<int>(pool.others() + k), digits[k],
                       border ? w.padding : 0);
  }
  ctx.emit(s.store(to, plane));
}

/// The largest elements of parts.
void store_largest(Context& ctx, const std::vector<Part>& parts, ScalarType compute) {
  for (const Part& part : parts) {
    StatementBuilder s(part.in.sizes);
    const Value x = s.load(part.in).to(compute);
    ctx.emit(s.store(part.out, s.reduce(ReduceOp::Max, x, part.axes, compute).to(part.out.dtype)));
  }
}

struct BorderedParts {
  std::vector<Part> parts;
  bool has_border;  ///< they are of a copy with one
};

/// The pool's `parts`, or where these are many those of a copy with a border of `value`.
BorderedParts few_parts(Context& ctx, const Pool& pool, std::vector<Part> parts, double value) {
  if (parts.size() <= kMostParts) return {std::move(parts), false};
  return {parts_of(bordered(ctx, pool, value)), true};
}

/// What part of the steps pooling along one dimension after the other may take, to pay: it stores
/// what is between, sums in fp64.
constexpr double kLargestPay = 0.6, kSumsPay = 0.2;

/// Does it take so small a part of them? Not where windows are small, or far apart.
bool one_by_one_pays(const Pool& pool, double part) {
  double at_once = static_cast<double>(ir::numel(pool.out.sizes)), apart = 0;
  std::vector<int64_t> sizes = pool.in.sizes;
  for (size_t k = pool.windows.size(); k-- > 0;) {
    const Windows& w = pool.windows[k];
    sizes[pool.others() + k] = w.out;
    at_once *= static_cast<double>(w.size);
    apart += static_cast<double>(ir::numel(sizes) * w.size);
  }
  return apart <= part * at_once;
}

/// Along one dimension after the other, the last one first: the pools, of temporaries (of dtype
/// `between`) but for the first and the last.
std::vector<Pool> one_by_one(Context& ctx, const Pool& pool, ScalarType between) {
  std::vector<Pool> pools;
  View from = pool.in;
  for (size_t k = pool.windows.size(); k-- > 0;) {
    std::vector<int64_t> sizes = from.sizes;
    sizes[pool.others() + k] = pool.windows[k].out;
    const View to = k == 0 ? pool.out : ctx.temporary(sizes, between);
    Pool& one = pools.emplace_back(Pool{from, to, {}});
    for (size_t d = 0; d < pool.windows.size(); ++d) {
      const int64_t extent = sizes[pool.others() + d];
      one.windows.push_back(d == k ? pool.windows[k] : Windows{.in = extent, .out = extent});
    }
    from = to;
  }
  return pools;
}

Fate largest(Context& ctx, const OperatorRecord& op, const Pool& pool) {
  if (ir::numel(pool.out.sizes) == 0) return Fate::fused();
  std::vector<Part> all = parts_of(pool);
  if (!has_elements(all)) return Fate::external(kUnusualWindows);
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  const ScalarType compute = opmath(pool.in.dtype);
  ctx.either_zero = true;  // eager takes the first of both
  const bool needs_places = op.outputs.size() > 1 && ctx.is_read_later(ctx.output(op, 1).storage);
  if (!needs_places && one_by_one_pays(pool, kLargestPay)) {
    for (const Pool& one : one_by_one(ctx, pool, pool.in.dtype))
      store_largest(ctx, few_parts(ctx, one, parts_of(one), kNone).parts, compute);
    return Fate::fused();
  }
  const auto [parts, has_border] = few_parts(ctx, pool, std::move(all), kNone);
  if (needs_places)
    for (const Part& part : parts) store_places(ctx, pool, part, ctx.output(op, 1), has_border);
  store_largest(ctx, parts, compute);
  return Fate::fused();
}

Fate largest(Context& ctx, const OperatorRecord& op, size_t dimensions) {
  const auto pool = read_pool(ctx, op, dimensions);
  return pool ? largest(ctx, op, *pool) : Fate::external(kUnusualWindows);
}

/// What the windows' sums are divided by, at each place of the result.
struct Divisor {
  bool padding;                  ///< elements in the padding count
  std::optional<int64_t> given;  ///< so many instead

  Value of_all(StatementBuilder& s, const Pool& pool, ScalarType compute) const {
    if (given) return s.scalar(static_cast<double>(*given), compute);
    Value count = s.integer(1, ScalarType::Long);
    for (size_t k = 0; k < pool.windows.size(); ++k)
      count =
          count * window_elements(s, pool.windows[k], static_cast<int>(pool.others() + k), padding);
    return count.to(compute);
  }
  Value of_part(StatementBuilder& s, const Part& part, ScalarType compute) const {
    int64_t count = given.value_or(1);
    for (const Windows::Run& run : part.runs)
      if (!given) count *= padding ? run.padded : run.elements;
    return s.scalar(static_cast<double>(count), compute);
  }
};

/// Along one dimension after the other, where that pays; else nothing is emitted. `all`: the pool's
/// parts, several where windows are cut off.
bool average_apart(Context& ctx, const Pool& pool, const std::vector<Part>& all,
                   const Divisor& divisor) {
  const bool is_cut = all.size() > 1;
  const ScalarType compute = opmath(pool.in.dtype), type = accumulate_type(compute);
  if (!one_by_one_pays(pool, kSumsPay)) return false;
  const Pool whole = is_cut ? bordered(ctx, pool, 0) : pool;
  const std::vector<Pool> pools = one_by_one(ctx, whole, type);
  for (const Pool& one : pools) {
    const std::vector<Part> parts = parts_of(one);
    for (const Part& part : parts) {
      StatementBuilder s(part.in.sizes);
      const Value sum = s.reduce(ReduceOp::Sum, s.load(part.in), part.axes, type);
      if (&one != &pools.back()) {
        ctx.emit(s.store(part.out, sum));
        continue;
      }
      const Value by =
          is_cut ? divisor.of_all(s, pool, compute) : divisor.of_part(s, all.front(), compute);
      ctx.emit(s.store(part.out, (sum.to(compute) / by).to(part.out.dtype)));
    }
  }
  return true;
}

/// The windows' sums, over as many elements as they have, or over what was given.
Fate average(Context& ctx, const Pool& pool, const Divisor& divisor) {
  if (ir::numel(pool.out.sizes) == 0) return Fate::fused();
  std::vector<Part> all = parts_of(pool);
  if (!has_elements(all)) return Fate::external(kUnusualWindows);
  const ScalarType compute = opmath(pool.in.dtype);
  ctx.approximate(compute);
  if (average_apart(ctx, pool, all, divisor)) return Fate::fused();
  const auto [parts, has_border] = few_parts(ctx, pool, std::move(all), 0);
  for (const Part& part : parts) {
    StatementBuilder s(part.in.sizes);
    const Value sum = s.reduce(ReduceOp::Sum, s.load(part.in), part.axes, accumulate_type(compute));
    const Value by =
        has_border ? divisor.of_all(s, pool, compute) : divisor.of_part(s, part, compute);
    ctx.emit(s.store(part.out, (sum.to(compute) / by).to(part.out.dtype)));
  }
  return Fate::fused();
}

Fate average(Context& ctx, const OperatorRecord& op, size_t dimensions) {
  auto pool = read_pool(ctx, op, dimensions);
  if (!pool) return Fate::external(kUnusualWindows);
  const std::optional<c10::Scalar> divisor = number(op, "divisor_override");
  return average(ctx, *pool,
                 {boolean(op, "count_include_pad", true),
                  divisor ? std::optional(divisor->toLong()) : std::nullopt});
}

template <bool takes_largest>
Fate adaptive(Context& ctx, const OperatorRecord& op, size_t dimensions) {
  auto pool = read_pool(ctx, op, dimensions);
  if (!pool) return Fate::external(kUnusualWindows);
  if (!make_equal(pool->windows)) return Fate::external(kUnequalWindows);
  return takes_largest ? largest(ctx, op, *pool) : average(ctx, *pool, {true, std::nullopt});
}

template <Fate (*pool)(Context&, const OperatorRecord&, size_t), size_t dimensions>
Fate over(Context& ctx, const OperatorRecord& op) {
  return pool(ctx, op, dimensions);
}

}  // namespace

std::vector<Row> pool_rows() {
  return {
      {"aten::max_pool1d", over<largest, 1>, "largest elements of windows"},
      {"aten::max_pool2d_with_indices", over<largest, 2>, "likewise, and their places"},
      {"aten::max_pool3d_with_indices", over<largest, 3>, "likewise"},
      {"aten::avg_pool2d", over<average, 2>, "means of windows"},
      {"aten::avg_pool3d", over<average, 3>, "likewise"},
      {"aten::_adaptive_avg_pool2d", over<adaptive<false>, 2>, "means of equal parts"},
      {"aten::_adaptive_avg_pool3d", over<adaptive<false>, 3>, "likewise"},
      {"aten::adaptive_max_pool2d", over<adaptive<true>, 2>,
       "largest elements of equal parts, and their places"},
      {"aten::adaptive_max_pool3d", over<adaptive<true>, 3>, "likewise"},
  };
}

}  // namespace graft::ops
