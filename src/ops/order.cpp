// Sorting of short rows, and the few largest elements of long ones.
#include <algorithm>
#include <limits>

#include "ops/reduce.h"
#include "ops/schema.h"
#include "ops/thresholds.h"

namespace graft::ops {

namespace {

using c10::ScalarType;
using ir::ReduceOp;
using ir::StatementBuilder;
using ir::Value;
using ir::View;
using record::OperatorRecord;

/// Each element is compared with each: the work grows with the square of the row.
constexpr int64_t kMostSorted = 32;
/// Each of the largest elements is another walk over the row.
constexpr int64_t kMostPicked = 8;
constexpr const char* kTies =
    "equal elements, whose order is ATen's own, could no longer be left to eager";

/// Does `a` come before `b`? NaN is larger than all numbers.
Value before(Value a, Value b, bool descending) {
  if (descending) std::swap(a, b);
  return is_float(a.type()) ? lt(a, b) | (~isnan(a) & isnan(b)) : lt(a, b);
}

struct Order {
  View in, values, places;
  size_t along = 0;
  int64_t count = 0;  ///< the row's elements
  ScalarType compute = ScalarType::Undefined;

  std::vector<int64_t> rows() const {
    std::vector<int64_t> sizes = in.sizes;
    sizes[along] = 1;
    return sizes;
  }
  /// The element at `place`, a Long, of the row.
  Value element(StatementBuilder& s, const std::vector<int64_t>& axes, Value place) const {
    View row = in;
    row.sizes = axes;
    row.strides[along] = 0;
    ir::Access load = ir::access_of(row, axes);
    load.indirect.push_back({place.id, in.strides[along], count});
    return s.load(std::move(load)).to(compute);
  }
};

/// Reads what both operators begin with; storage -1: they have to stay ATen's.
Order read_order(Context& ctx, const OperatorRecord& op) {
  Order o{at_least_1d(ctx.tensor(op, 0)), at_least_1d(ctx.output(op, 0)),
          at_least_1d(ctx.output(op, 1))};
  if (o.in.storage < 0 || o.in.dtype == ScalarType::Bool || o.values.dtype != o.in.dtype ||
      !ctx.settings.target.loops(o.in.dtype) || o.places.dtype != ScalarType::Long) {
    o.in.storage = -1;
    return o;
  }
  o.along = wrapped(integer(op, "dim", -1), o.in.sizes.size());
  o.count = o.in.sizes[o.along];
  o.compute = opmath(o.in.dtype);
  return o;
}

/// How many elements of its row come before each: its place in the sorted row.
View ranks_of(Context& ctx, const Order& o, bool descending) {
  std::vector<int64_t> axes = o.in.sizes;
  axes.push_back(o.count);
  View here = o.in, other = o.in;
  here.sizes = other.sizes = axes;
  here.strides.push_back(0);
  other.strides.push_back(o.in.strides[o.along]);
  other.strides[o.along] = 0;
  StatementBuilder s(axes);
  const Value x = s.load(here).to(o.compute), y = s.load(other).to(o.compute);
  const Value earlier =
      lt(s.axis(static_cast<int>(axes.size()) - 1), s.axis(static_cast<int>(o.along)));
  const Value first = select(earlier, ~before(x, y, descending), before(y, x, descending));
  std::vector<bool> reduced(axes.size(), false);
  reduced.back() = true;
  const View ranks = ctx.temporary(o.in.sizes, ScalarType::Long);
  View to = ranks;
  to.sizes.push_back(1), to.strides.push_back(0);
  ctx.emit(
      s.store(to, s.reduce(ReduceOp::Sum, first.to(ScalarType::Long), reduced, ScalarType::Long)));
  return ranks;
}

Fate sort(Context& ctx, const OperatorRecord& op) {
  const Order o = read_order(ctx, op);
  if (o.in.storage < 0) return Fate::external("truth values");
  if (overlaps(o.in, {o.values, o.places})) return Fate::external(kOverlap);
  if (ir::numel(o.in.sizes) == 0) return Fate::fused();
  if (o.count > kMostSorted) return Fate::external("a long row");
  if (o.count > kInsertionSorted && !boolean(op, "stable", false))
    return Fate::external("equal elements of such a row come in an order of ATen's own");

  const View ranks = ranks_of(ctx, o, boolean(op, "descending", false));
  // The place of the element whose rank is k: the sum over the one that has it.
  std::vector<int64_t> axes = o.in.sizes;
  axes.push_back(o.count);
  std::vector<bool> reduced(axes.size(), false);
  reduced.back() = true;
  const View places = ctx.temporary(o.in.sizes, ScalarType::Long),
             values = ctx.temporary(o.in.sizes, o.compute);
  {
    View of_others = ranks;
    of_others.sizes = axes;
    of_others.strides.push_back(ranks.strides[o.along]);
    of_others.strides[o.along] = 0;
    StatementBuilder s(axes);
    const Value place = s.axis(static_cast<int>(axes.size()) - 1);
    const Value found = eq(s.load(of_others), s.axis(static_cast<int>(o.along)));
    View to = places;
    to.sizes.push_back(1), to.strides.push_back(0);
    ctx.emit(s.store(to, s.reduce(ReduceOp::Sum, select(found, place, place.like(0)), reduced,
                                  ScalarType::Long)));
  }
  StatementBuilder s(o.in.sizes);
  ctx.emit(s.store(values, o.element(s, o.in.sizes, s.load(places))));
  ctx.copy(values, o.values);
  ctx.copy(places, o.places);
  return Fate::fused();
}

/// What loses against every element.
Value least(StatementBuilder& s, ScalarType type, bool most) {
  if (is_float(type)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return s.constant(most ? -infinity : infinity, type);
  }
  const ir::Range range = ir::range_of(type);
  return s.integer(most ? range.low : range.high, type);
}

/// The k largest in descending order, one walk over the row for each: a walk sees what is smaller
/// than what the one before found. Where elements that matter are equal, or NaN, the run ends.
Fate top(Context& ctx, const OperatorRecord& op) {
  const Order o = read_order(ctx, op);
  if (o.in.storage < 0) return Fate::external("truth values");
  const int64_t k = integer(op, "k", 0);
  const bool most = boolean(op, "largest", true);
  if (overlaps(o.in, {o.values, o.places})) return Fate::external(kOverlap);
  if (ir::numel(o.in.sizes) == 0 || k < 1 || k > kMostPicked || k > o.count)
    return Fate::external("more than a few elements");
  if (!boolean(op, "sorted", true)) return Fate::external("elements in no order");
  if (!ctx.can_check()) return Fate::external(kTies);

  const std::vector<int64_t> rows = o.rows();
  std::vector<bool> reduced(rows.size(), false);
  reduced[o.along] = true;
  std::vector<View> places, values;
  for (int64_t p = 0; p < k; ++p) {
    StatementBuilder walk(o.in.sizes);
    Value x = walk.load(o.in).to(o.compute);
    if (p > 0) {
      const Value last = walk.load(values.back());
      x = select(most ? lt(x, last) : gt(x, last), x, least(walk, o.compute, most));
    }
    places.push_back(ctx.temporary(rows, ScalarType::Long));
    ctx.emit(walk.store(places.back(), walk.reduce(most ? ReduceOp::ArgMax : ReduceOp::ArgMin, x,
                                                   reduced, ScalarType::Long)));
    StatementBuilder s(rows);
    values.push_back(ctx.temporary(rows, o.compute));
    ctx.emit(s.store(values.back(), o.element(s, rows, s.load(places.back()))));
  }
  // All that reach the last value must have been found.
  const View reached = ctx.temporary(rows, ScalarType::Long);
  StatementBuilder s(o.in.sizes);
  const Value x = s.load(o.in).to(o.compute), last = s.load(values.back());
  ctx.emit(s.store(reached,
                   s.reduce(ReduceOp::Sum, (most ? ge(x, last) : le(x, last)).to(ScalarType::Long),
                            reduced, ScalarType::Long)));
  const bool checked = ctx.check(rows, [&](StatementBuilder& c) {
    const Value first = c.load(values[0]);
    Value bad = ne(c.load(reached), c.integer(k, ScalarType::Long));
    if (is_float(o.compute)) bad = bad | isnan(first);
    for (size_t p = 1; p < values.size(); ++p) {
      const Value a = c.load(values[p - 1]), b = c.load(values[p]);
      bad = bad | ~(most ? gt(a, b) : lt(a, b));
    }
    return bad;
  });
  if (!checked) return Fate::external(kTies);
  ctx.gives_up =
      "among the largest elements (topk) some are equal or NaN, and their order is eager's own";
  for (int64_t p = 0; p < k; ++p) {
    View value = o.values, place = o.places;
    value.sizes[o.along] = place.sizes[o.along] = 1;
    advance(value, o.along, p), advance(place, o.along, p);
    ctx.copy(values[static_cast<size_t>(p)], value);
    ctx.copy(places[static_cast<size_t>(p)], place);
  }
  return Fate::fused();
}

}  // namespace

std::vector<Row> order_rows() {
  return {
      {"aten::sort", sort,
       "rows of up to 16 elements, of up to 32 where stable: equal ones keep their order"},
      {"aten::topk", top,
       "up to 8 elements, in order; where equal ones could be taken, the call runs eagerly"},
  };
}

}  // namespace graft::ops
