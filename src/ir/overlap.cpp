#include "ir/overlap.h"

#include <algorithm>
#include <limits>

namespace graft::ir {

namespace {

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}

struct Digit {
  int axis;  ///< of the store; -1: what lies between its elements
  int64_t stride, extent, capacity;
};
// Asked for millions of pairs: nothing here allocates.
using Digits = c10::SmallVector<Digit, 8>;
using Numbers = c10::SmallVector<int64_t, 8>;

/// Gets the store's axes as digits, most significant first; false when a stride is not positive.
/// Axes of one point, whose strides say nothing of the store, are none.
bool digits_of(const Access& store, const std::vector<int64_t>& axes, Digits& digits) {
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a] == 1) continue;
    if (store.strides[a] <= 0) return false;
    digits.push_back({static_cast<int>(a), store.strides[a], axes[a], 0});
  }
  std::sort(digits.begin(), digits.end(),
            [](const Digit& x, const Digit& y) { return x.stride > y.stride; });
  return true;
}

/// Adds digits that the store has one of (a row of a matrix, a column): strides of the access that
/// the store's own digits leave room for.
void add_rows(const Access& access, const std::vector<int64_t>& axes, Digits& digits) {
  for (size_t a = 0; a < axes.size(); ++a) {
    const int64_t stride = std::abs(access.strides[a]);
    if (axes[a] == 1 || stride <= 1) continue;
    const auto below = std::find_if(digits.begin(), digits.end(),
                                    [&](const Digit& digit) { return digit.stride <= stride; });
    const bool fits = below == digits.end() ||
                      (below->stride != stride &&  // not its own
                       stride % below->stride == 0 && stride / below->stride >= below->extent);
    if (fits && (below == digits.begin() || (below - 1)->stride % stride == 0))
      digits.insert(below, {-1, stride, 1, 0});
  }
}

/// How many of each digit the next one holds; false when they do not nest.
bool find_capacities(Digits& digits) {
  for (size_t p = 0; p < digits.size(); ++p) {
    digits[p].capacity =
        p == 0 ? std::numeric_limits<int64_t>::max() : digits[p - 1].stride / digits[p].stride;
    if (p > 0 &&
        (digits[p - 1].stride % digits[p].stride != 0 || digits[p].capacity < digits[p].extent))
      return false;
  }
  return true;
}

template <class X, class Y>
bool ranges_meet(const Access& x, const X& over_x, const Access& y, const Y& over_y) {
  if (x.storage != y.storage) return false;
  if (!is_bounded(x) || !is_bounded(y)) return true;
  Span a = span(x, over_x), b = span(y, over_y);
  auto xs = static_cast<int64_t>(c10::elementSize(x.dtype)),
       ys = static_cast<int64_t>(c10::elementSize(y.dtype));
  return a.first * xs < (b.last + 1) * ys && b.first * ys < (a.last + 1) * xs;
}

/// The statement's axes, each as long as it ever gets.
std::vector<int64_t> longest_axes(const Statement& s) {
  std::vector<int64_t> axes = s.axes;
  for (size_t a = 1; s.repeated() && a < axes.size(); ++a)
    axes[a] += std::max<int64_t>(0, s.growth[a] * (s.axes[0] - 1));
  return axes;
}

/// Where in units of `stride` the access lies, axis `own` and higher digits left out; false when it
/// leaves that unit.
bool in_window(Access access, const Statement& s, size_t own, int64_t& place) {
  int64_t stride = access.strides[own], extent = s.axes[own];
  for (size_t k = 0; k < access.strides.size(); ++k)
    if (k == own || access.strides[k] % (stride * extent) == 0) access.strides[k] = 0;
  std::erase_if(access.indirect,
                [&](const Indirect& i) { return i.stride % (stride * extent) == 0; });
  if (!is_bounded(access)) return false;
  Span reach = span(access, s);
  place = floor_div(reach.first, stride);
  return reach.last - place * stride < stride;
}

}  // namespace

bool may_touch(const Access& x, const std::vector<int64_t>& x_axes, const Access& y,
               const std::vector<int64_t>& y_axes) {
  return ranges_meet(x, x_axes, y, y_axes);
}

bool may_touch(const Access& x, const Statement& s, const Access& y, const Statement& t) {
  return ranges_meet(x, s, y, t);
}

bool meet(const Access& x, const Statement& s, const Access& access, const Statement& t) {
  if (!may_touch(x, s, access, t)) return false;
  if (!s.repeated() && !t.repeated())
    return relate(x, s.axes, access, t.axes).relation != Relation::Disjoint;
  return relate(x, longest_axes(s), access, longest_axes(t)).relation != Relation::Disjoint;
}

namespace {

/// Their offsets and strides count elements of one size.
bool alike_wide(const Access& x, const Access& y) {
  return c10::elementSize(x.dtype) == c10::elementSize(y.dtype);
}

/// `rows`: add_rows().
Overlap relate(const Access& store, const std::vector<int64_t>& store_axes, const Access& access,
               const std::vector<int64_t>& axes, bool rows) {
  Overlap out;
  if (!may_touch(store, store_axes, access, axes)) {
    out.relation = Relation::Disjoint;
    return out;
  }
  Digits digits;
  if (!alike_wide(store, access) || !store.indirect.empty() || !access.indirect.empty() ||
      !digits_of(store, store_axes, digits))
    return out;
  if (rows) add_rows(access, axes, digits);
  if (digits.empty() || digits.back().stride > 1) digits.push_back({-1, 1, 1, 0});
  if (!find_capacities(digits)) return out;

  size_t count = digits.size();
  int64_t rest = access.offset, store_rest = store.offset;
  for (size_t a = 0; a < axes.size(); ++a)
    if (access.strides[a] < 0) rest += access.strides[a] * (axes[a] - 1);  // the lowest corner
  // Digits of both places counted from the storage's base; `first` is where the store's own range
  // of a digit begins.
  Numbers low(count), high(count), first(count);
  for (size_t p = 0; p < count; ++p) {
    low[p] = high[p] = floor_div(rest, digits[p].stride);
    rest -= low[p] * digits[p].stride;
    first[p] = floor_div(store_rest, digits[p].stride);
    store_rest -= first[p] * digits[p].stride;
    if (p > 0 && first[p] + digits[p].extent > digits[p].capacity)
      return out;  // the store itself carries
  }
  c10::SmallVector<int64_t, 32> coefficients(count * axes.size(), 0);
  auto coefficient = [&](size_t p, size_t a) -> int64_t& {
    return coefficients[p * axes.size() + a];
  };
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a] == 1) continue;
    int64_t stride = std::abs(access.strides[a]);
    for (size_t p = 0; p < count; ++p) {
      coefficient(p, a) = stride / digits[p].stride;
      stride %= digits[p].stride;
      high[p] += coefficient(p, a) * (axes[a] - 1);
    }
    if (stride != 0) return out;  // the store is of one element
  }
  if (rest != store_rest) {  // all strides are multiples of the lowest digit, the distance is not
    out.relation = Relation::Disjoint;
    return out;
  }
  for (size_t p = 1; p < count; ++p) {
    if (high[p] < digits[p].capacity) continue;
    for (size_t a = 0; a < axes.size(); ++a) {
      int64_t k = coefficient(p, a);
      if (k == 0 || digits[p].capacity % k != 0) continue;
      int64_t inner = digits[p].capacity / k;
      if (inner > 1 && inner < axes[a] && axes[a] % inner == 0) {
        out.relation = Relation::NeedSplit;
        out.axis = static_cast<int>(a);
        out.at = inner;
        return out;
      }
    }
    return out;
  }
  for (size_t p = 0; p < count; ++p) low[p] -= first[p], high[p] -= first[p];
  for (size_t p = 0; p < count; ++p)
    if (high[p] < 0 || low[p] >= digits[p].extent) {
      out.relation = Relation::Disjoint;
      return out;
    }
  for (size_t p = 0; p < count; ++p) {
    if (low[p] >= 0 && high[p] < digits[p].extent) continue;
    int mover = -1;
    for (size_t a = 0; a < axes.size(); ++a)
      if (coefficient(p, a) != 0) {
        if (mover >= 0) return out;
        mover = static_cast<int>(a);
      }
    if (mover < 0) return out;
    auto a = static_cast<size_t>(mover);
    int64_t k = coefficient(p, a), border;
    if (low[p] < 0) {
      border = (-low[p] + k - 1) / k;  // first step inside
    } else {
      border = (digits[p].extent - 1 - low[p]) / k + 1;  // first step outside
    }
    if (access.strides[a] < 0) border = axes[a] - border;
    if (border <= 0 || border >= axes[a]) return out;
    out.relation = Relation::Partial;
    out.axis = mover;
    out.at = border;
    return out;
  }
  out.relation = Relation::Covered;
  out.map.constant.assign(store_axes.size(), 0);
  out.map.coefficients.assign(store_axes.size() * axes.size(), 0);
  for (size_t p = 0; p < count; ++p) {
    if (digits[p].axis < 0) continue;
    auto axis = static_cast<size_t>(digits[p].axis);
    int64_t constant = low[p];
    for (size_t a = 0; a < axes.size(); ++a) {
      int64_t k = coefficient(p, a);
      if (access.strides[a] < 0) constant += k * (axes[a] - 1), k = -k;
      out.map.coefficients[axis * axes.size() + a] = k;
    }
    out.map.constant[axis] = constant;
  }
  return out;
}

}  // namespace

Overlap relate(const Access& store, const std::vector<int64_t>& store_axes, const Access& access,
               const std::vector<int64_t>& axes) {
  const Overlap plain = relate(store, store_axes, access, axes, /*rows=*/false);
  if (plain.relation != Relation::Unknown) return plain;
  // One row of many: alone it does not tell how far apart rows lie.
  return relate(store, store_axes, access, axes, /*rows=*/true);
}

bool same_digit(const Access& x, const Statement& s, size_t a, const Access& y, const Statement& t,
                size_t b) {
  if (!alike_wide(x, y)) return false;
  int64_t stride = x.strides[a], extent = s.axes[a];
  if (stride <= 0 || y.strides[b] != stride || t.axes[b] != extent) return false;
  int64_t px, py;
  if (!in_window(x, s, a, px) || !in_window(y, t, b, py)) return false;
  return (px - py) % extent == 0;
}

namespace {

/// Do two accesses move alike from step to step? Then they meet at every step if they do at one.
bool move_alike(const Access& x, const Statement& s, const Access& y, const Statement& t) {
  if (!s.repeated() || x.strides[0] != y.strides[0]) return false;
  auto steady = [](const Statement& each, const Access& access) {
    for (size_t a = 1; a < each.axes.size(); ++a)
      if (each.growth[a] > 0 && access.strides[a] != 0) return false;
    return true;
  };
  return steady(s, x) && steady(t, y);  // step 0 is the longest
}

}  // namespace

bool meet_in_step(const Access& x, const Statement& s, const Access& y, const Statement& t) {
  if (!move_alike(x, s, y, t)) return meet(x, s, y, t);
  auto without_step = [](const Statement& each, Access& access) {
    access.strides.erase(access.strides.begin());
    return std::vector<int64_t>(each.axes.begin() + 1, each.axes.end());
  };
  Access a = x, b = y;
  std::vector<int64_t> over_a = without_step(s, a), over_b = without_step(t, b);
  return relate(a, over_a, b, over_b).relation != Relation::Disjoint;
}

bool apart_in_step(const Access& x, const Statement& s, size_t a, const Access& y,
                   const Statement& t, size_t b) {
  if (s.repeated() && s.growth[a] != t.growth[b]) return false;
  if (!move_alike(x, s, y, t))
    return (!s.repeated() || s.growth[a] == 0) && same_digit(x, s, a, y, t, b);
  Statement u = s, v = t;
  Access at_x = x, at_y = y;
  auto fix = [](Statement& each, Access& access) {
    each.axes[0] = 1;
    each.growth.assign(each.axes.size(), 0);
    access.strides[0] = 0;
  };
  fix(u, at_x);
  fix(v, at_y);
  return same_digit(at_x, u, a, at_y, v, b);
}

namespace {

/// Is each point from `first` on, over so many of them, mapped to itself?
bool is_identity(const PointMap& map, const std::vector<int64_t>& first,
                 const std::vector<int64_t>& axes) {
  for (size_t p = 0; p < axes.size(); ++p) {
    if (map.constant[p] != first[p]) return false;
    if (axes[p] == 1) continue;
    for (size_t a = 0; a < axes.size(); ++a)
      if (axes[a] > 1 && map.coefficient(p, a) != (a == p)) return false;
  }
  return true;
}

/// Does the access, from the point `first` on and over `axes` points, surely touch what another
/// point of the statement stores?
bool surely_reads(const Statement& s, const Access& access, const std::vector<int64_t>& first,
                  const std::vector<int64_t>& axes) {
  Overlap met = relate(s.store, s.axes, access, axes);
  if (met.relation == Relation::Covered) return !is_identity(met.map, first, axes);
  if (met.relation != Relation::Partial) return false;
  // A border within the axis: the parts on both sides of it may still miss the store.
  auto a = static_cast<size_t>(met.axis);
  std::vector<int64_t> before = axes, behind = axes, border = first;
  before[a] = met.at;
  behind[a] -= met.at;
  border[a] += met.at;
  Access moved = access;
  moved.offset += met.at * access.strides[a];
  return surely_reads(s, access, first, before) || surely_reads(s, moved, border, behind);
}

}  // namespace

bool overwrites(const Statement& later, const Statement& s) {
  bool grows = std::any_of(later.growth.begin(), later.growth.end(),
                           [](int64_t growth) { return growth != 0; });
  return !grows && (!later.reduction || later.reduction->scan) &&
         relate(later.store, later.axes, s.store, s.axes).relation == Relation::Covered;
}

bool may_read_own_stores(const Statement& s) {
  return std::any_of(s.loads.begin(), s.loads.end(), [&](const Access& load) {
    return !(load == s.store) &&
           relate(s.store, s.axes, load, s.axes).relation != Relation::Disjoint;
  });
}

bool surely_reads_own_stores(const Statement& s) {
  return std::any_of(s.loads.begin(), s.loads.end(), [&](const Access& load) {
    if (load.storage != s.store.storage || load == s.store) return false;
    return surely_reads(s, load, std::vector<int64_t>(s.axes.size(), 0), s.axes);
  });
}

}  // namespace graft::ir
