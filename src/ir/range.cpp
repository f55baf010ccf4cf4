#include "ir/range.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace graft::ir {

namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min(),
                  kHighest = std::numeric_limits<int64_t>::max();

class Ranges {
 public:
  Ranges(const Statement& s, const std::function<Range(const Access&)>& loaded)
      : s_(s), loaded_(loaded) {}

  /// Nodes stand behind their operands.
  Range of(NodeId id) {
    for (auto next = static_cast<NodeId>(known_.size()); next <= id; ++next) {
      const Node& n = s_.expr.nodes[static_cast<size_t>(next)];
      const Range all = range_of(n.type);
      const Range made = is_float(n.type) ? all : compute(n, all);
      // What leaves the type wraps.
      known_.push_back(made.low < all.low || made.high > all.high ? all : made);
    }
    return known_[static_cast<size_t>(id)];
  }

 private:
  Range in(const Node& n, size_t k) const { return known_[static_cast<size_t>(n.in[k])]; }

  Range compute(const Node& n, Range all) const {
    switch (n.op) {
      case Op::Const:
        return {n.payload, n.payload};
      case Op::Scalar: {
        auto value = static_cast<int64_t>(s_.scalars[static_cast<size_t>(n.payload)]);
        return {value, value};
      }
      case Op::Axis:
        return {0, s_.axes[static_cast<size_t>(n.payload)] - 1};
      case Op::Load:
        return loaded_(s_.loads[static_cast<size_t>(n.payload)]);
      case Op::Reduced:
        return reduced(all);
      case Op::Cast:
        return cast(n, all);
      case Op::Add: {
        Range a = in(n, 0), b = in(n, 1), sum{};
        bool wraps = __builtin_add_overflow(a.low, b.low, &sum.low) ||
                     __builtin_add_overflow(a.high, b.high, &sum.high);
        return wraps ? all : sum;
      }
      case Op::Sub: {
        Range a = in(n, 0), b = in(n, 1), difference{};
        bool wraps = __builtin_sub_overflow(a.low, b.high, &difference.low) ||
                     __builtin_sub_overflow(a.high, b.low, &difference.high);
        return wraps ? all : difference;
      }
      case Op::Mul:
        return product(in(n, 0), in(n, 1), all);
      case Op::Max: {
        Range a = in(n, 0), b = in(n, 1);
        return {std::max(a.low, b.low), std::max(a.high, b.high)};
      }
      case Op::Min: {
        Range a = in(n, 0), b = in(n, 1);
        return {std::min(a.low, b.low), std::min(a.high, b.high)};
      }
      case Op::IDiv:
        return quotient(in(n, 0), in(n, 1), all);
      case Op::IRem:
        return remainder(in(n, 0), in(n, 1), all);
      case Op::And: {
        Range a = in(n, 0), b = in(n, 1);
        if (a.low < 0 && b.low < 0) return all;
        return {0, a.low < 0 ? b.high : b.low < 0 ? a.high : std::min(a.high, b.high)};
      }
      case Op::Xor: {
        Range a = in(n, 0), b = in(n, 1);
        bool known = n.type == ScalarType::Bool && a.low == a.high && b.low == b.high;
        if (known) return {a.low ^ b.low, a.low ^ b.low};
        if (n.type == ScalarType::Bool || a.low < 0 || b.low < 0) return all;
        return {0, bits_of(std::max(a.high, b.high))};
      }
      case Op::Lt:
        return less(in(n, 0), in(n, 1), all);
      case Op::Gt:
        return less(in(n, 1), in(n, 0), all);
      case Op::Le:
        return negated(less(in(n, 1), in(n, 0), all), all);
      case Op::Ge:
        return negated(less(in(n, 0), in(n, 1), all), all);
      case Op::Select: {
        const Range which = in(n, 0), a = selected(n, 1), b = selected(n, 2);
        if (which.low == 1 || b.low > b.high) return a;
        if (which.high == 0 || a.low > a.high) return b;
        return {std::min(a.low, b.low), std::max(a.high, b.high)};
      }
      case Op::Neg: {
        const Range a = in(n, 0);
        return a.low == kLowest ? all : Range{-a.high, -a.low};
      }
      case Op::Abs: {
        const Range a = in(n, 0);
        if (a.low >= 0) return a;
        if (a.low == kLowest) return all;
        return {a.high < 0 ? -a.high : 0, std::max(-a.low, a.high)};
      }
      case Op::Shl: {
        const Range a = in(n, 0), by = in(n, 1);
        const bool known = by.low == by.high && by.low >= 0 && by.low < 62;
        return known ? product(a, {int64_t{1} << by.low, int64_t{1} << by.low}, all) : all;
      }
      case Op::Shr: {
        // By as many bits as the type has, or more, gives its sign.
        const Range a = in(n, 0), by = in(n, 1);
        if (by.low < 0 || (a.low < 0 && is_unsigned(n.type))) return all;
        return {a.low < 0 ? a.low >> std::min<int64_t>(by.low, 63) : 0,
                a.high < 0 ? 0 : a.high >> std::min<int64_t>(by.low, 63)};
      }
      case Op::Or: {
        const Range a = in(n, 0), b = in(n, 1);
        if (n.type == ScalarType::Bool || a.low < 0 || b.low < 0) return all;
        return {std::max(a.low, b.low), bits_of(std::max(a.high, b.high))};
      }
      case Op::Div:
      case Op::Fma:
      case Op::Sqrt:
      case Op::Floor:
      case Op::Ceil:
      case Op::Trunc:
      case Op::RoundEven:
      case Op::CopySign:
      case Op::Not:
      case Op::Eq:
      case Op::Ne:
      case Op::Bitcast:
      case Op::Call:
        return all;
    }
    return all;
  }

  /// The input's nodes may stand behind this one.
  Range reduced(Range all) const {
    const ReduceOp op = s_.reduction->op;
    int64_t places = 1;
    for (size_t a = 0; a < s_.axes.size(); ++a)
      if (s_.reduction->axes[a]) places *= s_.axes[a];
    if (finds_place(op)) return {0, places - 1};
    const auto input = static_cast<size_t>(s_.reduction->input);
    if (input >= known_.size() || s_.repeated()) return all;
    const Range term = known_[input];
    if (op == ReduceOp::Max || op == ReduceOp::Min) return term;
    if (op != ReduceOp::Sum) return all;
    // Of one term to all of them: a scan stores each sum on the way.
    return product(term, {1, places}, all);
  }

  Range cast(const Node& n, Range all) const {
    return is_float(s_.expr.type(n.in[0])) ? all : in(n, 0);
  }

  static Range product(Range a, Range b, Range all) {
    Range out{kHighest, kLowest};
    for (int64_t x : {a.low, a.high})
      for (int64_t y : {b.low, b.high}) {
        int64_t z = 0;
        if (__builtin_mul_overflow(x, y, &z)) return all;
        out = {std::min(out.low, z), std::max(out.high, z)};
      }
    return out;
  }

  static Range quotient(Range a, Range b, Range all) {
    if (b.low > 0)
      return {a.low / (a.low < 0 ? b.low : b.high), a.high / (a.high < 0 ? b.high : b.low)};
    if (a.low == kLowest) return all;
    const int64_t most = std::max(-a.low, a.high);
    return {-most, most};
  }

  /// The sign is the dividend's.
  static Range remainder(Range a, Range b, Range all) {
    if (b.low <= 0) return all;
    return {a.low >= 0 ? 0 : 1 - b.high, a.high < 0 ? 0 : std::min(a.high, b.high - 1)};
  }

  static Range less(Range a, Range b, Range all) {
    if (a.low == kLowest && a.high == kHighest) return all;  // of floats nothing is known
    if (a.high < b.low) return {1, 1};
    return a.low >= b.high ? Range{0, 0} : all;
  }

  static Range negated(Range truth, Range all) {
    return truth.low == truth.high ? Range{1 - truth.low, 1 - truth.low} : all;
  }

  /// All ones up to the highest bit of x.
  static int64_t bits_of(int64_t x) {
    return static_cast<int64_t>((uint64_t{1} << std::bit_width(static_cast<uint64_t>(x))) - 1);
  }

  /// Of operand `k` of a Select where that is what comes out: it may be one that the condition
  /// compares. Its low end lies above the high one where it never comes out.
  Range selected(const Node& select, size_t k) const {
    Range range = in(select, k);
    const Node& c = s_.expr.nodes[static_cast<size_t>(select.in[0])];
    if (!is_compared(c.op) || c.op == Op::Eq || c.op == Op::Ne || is_float(s_.expr.type(c.in[0])))
      return range;
    // As less < more, or less <= more.
    const bool turned = c.op == Op::Gt || c.op == Op::Ge, holds = k == 1;
    const bool strict = (c.op == Op::Lt || c.op == Op::Gt) == holds;
    const size_t less = (turned ? 1 : 0) ^ (holds ? 0 : 1), more = 1 - less;
    if (select.in[k] == c.in[less])
      range.high = std::min(range.high, before(in(c, more).high, strict));
    if (select.in[k] == c.in[more])
      range.low = std::max(range.low, behind(in(c, less).low, strict));
    return range;
  }
  static int64_t before(int64_t x, bool strict) { return strict && x > kLowest ? x - 1 : x; }
  static int64_t behind(int64_t x, bool strict) { return strict && x < kHighest ? x + 1 : x; }

  const Statement& s_;
  const std::function<Range(const Access&)>& loaded_;
  std::vector<Range> known_;  ///< per node, as far as it was asked for
};

}  // namespace

Range range_of(ScalarType type) {
  const DtypeInfo* row = find_dtype(type);
  if (row == nullptr || row->kind == DtypeKind::Real || row->digits >= 63)
    return {kLowest, kHighest};
  const int64_t end = int64_t{1} << row->digits;
  return {is_unsigned(type) ? 0 : -end, end - 1};
}

Range range_of(const Statement& s, NodeId id, const std::function<Range(const Access&)>& loaded) {
  return Ranges(s, loaded).of(id);
}

std::vector<Range> ranges_of(const Statement& s,
                             const std::function<Range(const Access&)>& loaded) {
  std::vector<Range> all;
  all.reserve(s.expr.nodes.size());
  Ranges ranges(s, loaded);
  for (size_t id = 0; id < s.expr.nodes.size(); ++id)
    all.push_back(ranges.of(static_cast<NodeId>(id)));
  return all;
}

}  // namespace graft::ir
