// Sorting of short rows, medians and other elements by their rank, and the few largest elements.
#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "ops/reduce.h"
#include "ops/schema.h"
#include "ops/thresholds.h"
#include "tensor/sorting.h"

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
/// Elements of a row of which one is selected by exchanges that are written out.
constexpr int64_t kMostExchanged = 64;
/// Each of the largest elements is another walk over the row: so many of any row, and more of rows
/// that are so short, and so many, that all walks are shorter than what the routine does before.
constexpr int64_t kMostPicked = 8, kMostOfShort = 16, kShortWalks = 4096, kManyRows = 256;
/// Rows so long are looked through at once for more than so many (sorting/scan.h).
constexpr int64_t kLongRow = 2048, kPickedOfLongRow = 2;

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

/// By a routine for long rows, and for those whose equal elements come in an order of ATen's own.
Fate by_routine(const Context& ctx, const OperatorRecord& op, const Order& o,
                std::string_view routine, std::string_view of_values) {
  for (const View* view : {&o.in, &o.values, &o.places})
    if (view->strides != ir::contiguous_strides(view->sizes))
      return Fate::external("not contiguous");
  if (!op.mutated.empty()) return Fate::external("into given memory");
  return Fate::by(ctx.is_read_later(o.places.storage) ? routine : of_values);
}

/// The run ends where sorted elements are equal and their order shows: that of their places, or of
/// zeros, which may have two signs, and NaN. Checks must be possible (Context::can_check).
void demand_unlike(Context& ctx, const Order& o, const View& sorted) {
  const bool shows = ctx.is_read_later(o.places.storage);
  if (!shows && !is_float(o.compute)) return;
  const View first = graft::narrow(sorted, o.along, 0, o.count - 1),
             second = graft::narrow(sorted, o.along, 1, o.count - 1);
  ctx.check(first.sizes, [&](StatementBuilder& s) {
    const Value x = s.load(first), y = s.load(second);
    Value equal = eq(x, y);
    if (!shows) equal = equal & eq(x, x.like(0));
    return is_float(o.compute) ? equal | (isnan(x) & isnan(y)) : equal;
  });
  ctx.gives_up = "among sorted elements some are equal, and their order is eager's own";
}

Fate sort(Context& ctx, const OperatorRecord& op) {
  const Order o = read_order(ctx, op);
  if (o.in.storage < 0) return Fate::external("truth values");
  if (overlaps(o.in, {o.values, o.places})) return Fate::external(kOverlap);
  if (ir::numel(o.in.sizes) == 0) return Fate::fused();
  // Of longer rows, the order of equal elements is that of std::sort's swaps. Integers, and numbers
  // of 16 bits, have some nearly always.
  const bool unlike = o.count > kInsertionSorted && !boolean(op, "stable", false);
  const bool by_swaps =
      ctx.settings.ties || !ctx.can_check() ||
      ((!is_float(o.in.dtype) || is_reduced(o.in.dtype)) && ctx.is_read_later(o.places.storage));
  if (o.count > kMostSorted || (unlike && by_swaps))
    return by_routine(ctx, op, o, kSorts, kSortsValues);

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
  if (unlike) demand_unlike(ctx, o, values);
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

/// The few largest elements of each row (or smallest), in order: one walk over the row for each.
class Top {
 public:
  Top(Context& ctx, const Order& o, bool most, int64_t k) : ctx_(ctx), o_(o), most_(most), k_(k) {
    reduced_[o.along] = true;
  }

  /// A walk sees what is smaller than what the one before found. Where elements that matter are
  /// equal, or NaN, the run ends. False: it could not.
  bool with_places() {
    for (int64_t p = 0; p < k_; ++p) {
      walk([&](StatementBuilder& s, Value x, Value) { return beyond(x, s.load(values_.back())); });
      StatementBuilder s(rows_);
      store(s, found(s));
    }
    // All that reach the last value must have been found.
    const View reached = ctx_.temporary(rows_, ScalarType::Long);
    StatementBuilder s(o_.in.sizes);
    const Value x = s.load(o_.in).to(o_.compute), last = s.load(values_.back());
    ctx_.emit(s.store(
        reached, s.reduce(ReduceOp::Sum, (most_ ? ge(x, last) : le(x, last)).to(ScalarType::Long),
                          reduced_, ScalarType::Long)));
    return gives_up("equal or NaN", [&](StatementBuilder& c) {
      const Value first = c.load(values_[0]);
      Value bad = ne(c.load(reached), c.integer(k_, ScalarType::Long));
      if (is_float(o_.compute)) bad = bad | isnan(first);
      for (size_t p = 1; p < values_.size(); ++p)
        bad = bad | ~beyond(c.load(values_[p]), c.load(values_[p - 1]));
      return bad;
    });
  }

  /// When nobody asks where they were, any of equal ones does: a walk sees what is smaller than
  /// what the one before found, and what equals that and lies behind it. Equal zeros may have
  /// two signs: where they matter, and where there is a NaN, the run ends.
  bool without_places() {
    // `before`: where the last one was.
    auto goes_on = [&](StatementBuilder& s, Value x, Value place, const View& before) {
      const Value last = s.load(values_.back());
      return beyond(x, last) | (eq(x, last) & gt(place, s.load(before)));
    };
    for (int64_t p = 0; p < k_; ++p) {
      walk([&](StatementBuilder& s, Value x, Value place) {
        return goes_on(s, x, place, places_.back());
      });
      StatementBuilder s(rows_);
      Value x = found(s);
      // Among what loses against all, the walk may have taken what it was not to see.
      if (p > 0) {
        const Value seen = goes_on(s, x, s.load(places_.back()), places_[places_.size() - 2]);
        x = select(seen, x, least(s, o_.compute, most_));
      }
      store(s, x);
    }
    if (!is_float(o_.compute)) return true;
    return gives_up("NaN or zeros", [&](StatementBuilder& c) {
      Value bad = isnan(c.load(values_[0]));
      for (size_t p = 0; p < values_.size(); ++p) {
        Value zero = eq(c.load(values_[p]), c.constant(0, o_.compute));
        if (p + 1 < values_.size())
          zero = zero & eq(c.load(values_[p + 1]), c.constant(0, o_.compute));
        bad = bad | zero;
      }
      return bad;
    });
  }

  void copy_values() { copy(values_, o_.values); }
  void copy_places() { copy(places_, o_.places); }

 private:
  /// The run ends where `bad` is true of a row. False: no check can come any more.
  bool gives_up(const std::string& what, const std::function<Value(StatementBuilder&)>& bad) {
    if (!ctx_.check(rows_, bad)) return false;
    ctx_.gives_up =
        "among the largest elements (topk) some are " + what + ", and their order is eager's own";
    return true;
  }
  Value beyond(Value x, Value last) const { return most_ ? lt(x, last) : gt(x, last); }

  /// Finds the place of the largest of what is `seen`.
  template <class Seen>
  void walk(const Seen& seen) {
    StatementBuilder s(o_.in.sizes);
    Value x = s.load(o_.in).to(o_.compute);
    if (!values_.empty())
      x = select(seen(s, x, s.axis(static_cast<int>(o_.along))), x, least(s, o_.compute, most_));
    places_.push_back(ctx_.temporary(rows_, ScalarType::Long));
    ctx_.emit(s.store(places_.back(), s.reduce(most_ ? ReduceOp::ArgMax : ReduceOp::ArgMin, x,
                                               reduced_, ScalarType::Long)));
  }
  Value found(StatementBuilder& s) const { return o_.element(s, rows_, s.load(places_.back())); }
  void store(StatementBuilder& s, Value x) {
    values_.push_back(ctx_.temporary(rows_, o_.compute));
    ctx_.emit(s.store(values_.back(), x));
  }
  void copy(const std::vector<View>& from, View to) {
    to.sizes[o_.along] = 1;
    for (const View& view : from) {
      ctx_.copy(view, to);
      advance(to, o_.along, 1);
    }
  }

  Context& ctx_;
  const Order& o_;
  const bool most_;
  const int64_t k_;
  const std::vector<int64_t> rows_ = o_.rows();
  std::vector<bool> reduced_ = std::vector<bool>(rows_.size(), false);
  std::vector<View> places_, values_;  ///< of each walk
};

Fate top(Context& ctx, const OperatorRecord& op) {
  const Order o = read_order(ctx, op);
  if (o.in.storage < 0) return Fate::external("truth values");
  const int64_t k = integer(op, "k", 0);
  if (overlaps(o.in, {o.values, o.places})) return Fate::external(kOverlap);
  if (ir::numel(o.in.sizes) == 0 || k < 1 || k > o.count) return Fate::external("no elements");
  if (!boolean(op, "sorted", true)) return Fate::external("elements in no order");
  const bool walks_are_short =
      k * o.count <= kShortWalks && ir::numel(o.in.sizes) >= kManyRows * o.count;
  const bool many =
      k > (walks_are_short ? kMostOfShort : kMostPicked) || ctx.settings.ties || !ctx.can_check();
  const bool scans = is_float(o.in.dtype) && !is_reduced(o.in.dtype) && ctx.settings.target.avx2();
  if (many || (scans && k > kPickedOfLongRow && o.count >= kLongRow)) {
    const Fate fate = by_routine(ctx, op, o, kTops, kTopValues);
    if (many || !fate.routine.empty()) return fate;
  }

  const bool needs_places = ctx.is_read_later(o.places.storage);
  Top top(ctx, o, boolean(op, "largest", true), k);
  if (!(needs_places ? top.with_places() : top.without_places()))
    return by_routine(ctx, op, o, kTops, kTopValues);
  top.copy_values();
  if (needs_places) top.copy_places();
  return Fate::fused();
}

/// Which element of each row is selected, by how many come before it.
struct Ranked {
  int64_t rank;
  enum class Nan : uint8_t { IsLargest, IsTaken, IsSkipped } nan;  ///< where there is one
  std::string_view routine, of_values;                             ///< for long rows
};

/// Is it the middle element of those of its row that are no NaN?
Value is_middle_of_numbers(Context& ctx, StatementBuilder& s, const Order& o, Value rank) {
  std::vector<bool> reduced(o.in.sizes.size(), false);
  reduced[o.along] = true;
  const View counts = ctx.temporary(o.rows(), ScalarType::Long);
  StatementBuilder count(o.in.sizes);
  const Value is_number = ~isnan(count.load(o.in).to(o.compute));
  ctx.emit(count.store(counts, count.reduce(ReduceOp::Sum, is_number.to(ScalarType::Long), reduced,
                                            ScalarType::Long)));
  const Value last = ir::max(s.load(counts), s.integer(1, ScalarType::Long)) - 1.0;
  return le(rank + rank, last) & lt(last, rank + rank + 2.0);
}

/// Two places of a row: the lesser element comes to the first one, the other to the second.
struct Exchange {
  size_t first, second;
  bool keeps_first = false, keeps_second = false;  ///< is what comes there asked for?
};

/// Batcher's merge exchange of `count` elements, as much of it as brings one to its place `rank`.
std::vector<Exchange> exchanges_for(size_t count, size_t rank) {
  std::vector<Exchange> all;
  const size_t top = std::bit_ceil(count) / 2;
  for (size_t p = top; p > 0; p /= 2) {
    size_t apart = p, which = 0;
    for (size_t q = top;; q /= 2) {
      for (size_t i = 0; i + apart < count; ++i)
        if ((i & p) == which) all.push_back({i, i + apart});
      if (q == p) break;
      apart = q - p, which = p;
    }
  }
  std::vector<bool> needed(count, false);
  needed[rank] = true;
  std::vector<Exchange> kept;
  for (size_t k = all.size(); k-- > 0;) {
    Exchange e = all[k];
    e.keeps_first = needed[e.first], e.keeps_second = needed[e.second];
    if (!e.keeps_first && !e.keeps_second) continue;
    needed[e.first] = needed[e.second] = true;
    kept.push_back(e);
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

/// The element of rank `by.rank` of each row. A NaN, which is larger than all, is infinity first.
void select_by_exchanges(Context& ctx, const Order& o, const Ranked& by, const View& values) {
  StatementBuilder s(o.rows());
  std::vector<Value> row;
  std::optional<Value> nans;  // how many
  View element = o.in;
  element.sizes[o.along] = 1;
  for (int64_t k = 0; k < o.count; ++k) {
    Value x = s.load(element).to(o.compute);
    advance(element, o.along, 1);
    if (is_float(o.compute)) {
      const Value is_nan = isnan(x), one = select(is_nan, x.like(1), x.like(0));
      nans = nans ? *nans + one : one;
      x = select(is_nan, x.like(std::numeric_limits<double>::infinity()), x);
    }
    row.push_back(x);
  }
  const auto rank = static_cast<size_t>(by.rank);
  for (const Exchange& e : exchanges_for(row.size(), rank)) {
    const Value a = row[e.first], b = row[e.second], in_order = lt(a, b);
    if (e.keeps_first) row[e.first] = select(in_order, a, b);
    if (e.keeps_second) row[e.second] = select(in_order, b, a);
  }
  Value found = row[rank];
  if (nans) {
    const auto numbers = static_cast<double>(
        by.nan == Ranked::Nan::IsTaken ? 1 : o.count - by.rank);  // so many are too many
    found = select(ge(*nans, found.like(numbers)),
                   found.like(std::numeric_limits<double>::quiet_NaN()), found);
  }
  ctx.emit(s.store(values, found));
}

/// (Of zeros of both signs ATen's selection takes one or the other.)
Fate select_element(Context& ctx, const OperatorRecord& op, const Order& o, const Ranked& by) {
  using Nan = Ranked::Nan;
  if (o.in.storage < 0) return Fate::external("truth values");
  if (by.rank < 0 || by.rank >= o.count) return Fate::external("no such element");
  if (overlaps(o.in, {o.values, o.places})) return Fate::external(kOverlap);
  if (ir::numel(o.in.sizes) == 0) return Fate::fused();
  const bool exchanges = by.nan != Nan::IsSkipped || !is_float(o.compute);
  if (o.count > (exchanges ? kMostExchanged : kMostSorted) || ctx.is_read_later(o.places.storage))
    return by_routine(ctx, op, o, by.routine, by.of_values);
  ctx.either_zero |= is_float(o.compute);
  const bool keeps = o.values.sizes.size() == o.in.sizes.size();
  const View values = keeps ? o.values : with_unit_axis(o.values, o.along);
  if (exchanges) {
    select_by_exchanges(ctx, o, by, values);
    return Fate::fused();
  }
  const View ranks = ranks_of(ctx, o, /*descending=*/false);
  std::vector<bool> reduced(o.in.sizes.size(), false);
  reduced[o.along] = true;
  const View found = ctx.temporary(o.rows(), o.compute);
  StatementBuilder s(o.in.sizes);
  const Value x = s.load(o.in).to(o.compute);
  const Value taken = is_middle_of_numbers(ctx, s, o, s.load(ranks));
  ctx.emit(s.store(found, s.reduce(ReduceOp::Max, select(taken, x, least(s, o.compute, true)),
                                   reduced, o.compute)));
  ctx.copy(found, values);
  return Fate::fused();
}

Fate middle(Context& ctx, const OperatorRecord& op, Ranked by) {
  if (constant(op, "dim") == nullptr)
    return op.mutated.empty() ? Fate::by(by.routine) : Fate::external("into given memory");
  const Order o = read_order(ctx, op);
  by.rank = (o.count - 1) / 2;
  return select_element(ctx, op, o, by);
}
Fate median(Context& ctx, const OperatorRecord& op) {
  return middle(ctx, op, {0, Ranked::Nan::IsTaken, kMedians, kMedianValues});
}
Fate nan_median(Context& ctx, const OperatorRecord& op) {
  return middle(ctx, op, {0, Ranked::Nan::IsSkipped, kNanMedians, kNanMedianValues});
}
Fate kth_value(Context& ctx, const OperatorRecord& op) {
  return select_element(ctx, op, read_order(ctx, op),
                        {integer(op, "k", 0) - 1, Ranked::Nan::IsLargest, kRanks, kRankValues});
}

}  // namespace

std::vector<Row> order_rows() {
  return {
      {"aten::sort", sort,
       "rows of up to 32 elements; longer ones, and those of 17 and more with equal elements, by "
       "graft::sort, in the order that eager's come in"},
      {"aten::median", median,
       "rows of up to 64 elements, if the places are not used; of zeros of both signs either one; "
       "others by graft::median, in eager's order"},
      {"aten::nanmedian", nan_median, "as the median, of floating numbers rows of up to 32"},
      {"aten::kthvalue", kth_value, "as the median"},
      {"aten::topk", top,
       "up to 8 elements in order (16 of many short rows, 2 of long ones); where equal ones could "
       "be taken and their places are used, the call runs eagerly; more by graft::topk, in eager's "
       "order"},
  };
}

}  // namespace graft::ops
