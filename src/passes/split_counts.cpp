#include "passes/split_counts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/range.h"
#include "passes/rewrite.h"
#include "tensor/dtype.h"

namespace graft::passes {

using c10::ScalarType;
using ir::Access;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Program;
using ir::Range;
using ir::Repeat;
using ir::Statement;

namespace {

constexpr int64_t kTables = 4;  ///< of a tile: the latency of a store that is read back
constexpr int64_t kMostTiles = 16;
constexpr int64_t kLeast = 4096;        ///< terms of a tile
constexpr int64_t kTermsPerPlace = 16;  ///< of a table: else making it would be much of the work

/// Whole numbers of a floating type up to this are exact.
int64_t largest_exact(ScalarType type) {
  return int64_t{1} << (type == ScalarType::Double ? 53 : 24);
}

/// The whole numbers that a floating node can be, -0 not among them; nothing: others, too.
std::optional<Range> whole(const Statement& s, NodeId id) {
  const Node& n = s.expr.nodes[static_cast<size_t>(id)];
  auto exactly = [](double x) -> std::optional<Range> {
    const bool is = std::trunc(x) == x && std::abs(x) < 0x1p24 && !(x == 0 && std::signbit(x));
    if (!is) return std::nullopt;
    return Range{static_cast<int64_t>(x), static_cast<int64_t>(x)};
  };
  switch (n.op) {
    case Op::Const:
      return exactly(ir::constant_value(n));
    case Op::Scalar:
      return exactly(std::bit_cast<double>(s.scalars[static_cast<size_t>(n.payload)]));
    case Op::Cast: {
      const ScalarType from = s.expr.type(n.in[0]);
      if (is_float(from)) return whole(s, n.in[0]);
      const Range range =
          ir::range_of(s, n.in[0], [](const Access& a) { return ir::range_of(a.dtype); });
      const int64_t most = largest_exact(n.type);
      if (range.low < -most || range.high > most) return std::nullopt;
      return range;
    }
    case Op::Select: {
      const auto a = whole(s, n.in[1]), b = whole(s, n.in[2]);
      if (!a || !b) return std::nullopt;
      return Range{std::min(a->low, b->low), std::max(a->high, b->high)};
    }
    default:
      return std::nullopt;
  }
}

/// Steps that add a term to one of many places, in a list of them.
struct Counts {
  NodeId term = -1;
  int64_t terms = 0, places = 0;
};

std::optional<Counts> counts_of(const Repeat& repeat) {
  if (repeat.body.size() != 1) return std::nullopt;
  const Statement& s = repeat.body[0];
  const auto is_zero = [](int64_t x) { return x == 0; };
  if (s.reduction || s.axes.size() != 1 || s.growth[0] != 0 || s.store.indirect.size() != 1 ||
      s.store.indirect[0].stride == 0 || s.store.indirect[0].extent == 0 ||
      !std::all_of(s.store.strides.begin(), s.store.strides.end(), is_zero))
    return std::nullopt;
  const Node& sum = s.expr.nodes[static_cast<size_t>(s.value)];
  if (sum.op != Op::Add) return std::nullopt;
  auto is_place = [&](NodeId id) {
    const Node& n = s.expr.nodes[static_cast<size_t>(id)];
    return n.op == Op::Load && s.loads[static_cast<size_t>(n.payload)] == s.store;
  };
  const bool first = is_place(sum.in[0]);
  if (first == is_place(sum.in[1])) return std::nullopt;
  for (const Access& load : s.loads)
    if (load.storage == s.store.storage && load != s.store) return std::nullopt;
  // Nothing but the sum looks at what was there.
  const NodeId term = first ? sum.in[1] : sum.in[0], place = first ? sum.in[0] : sum.in[1];
  int64_t looks = 0;
  for (const Node& n : s.expr.nodes) looks += std::count(n.in.begin(), n.in.end(), place);
  auto indices = [&](const Access& access) {
    for (const ir::Indirect& index : access.indirect) looks += index.index == place;
  };
  indices(s.store);
  std::for_each(s.loads.begin(), s.loads.end(), indices);
  if (looks != 1) return std::nullopt;
  return Counts{term, s.axes[0], s.store.indirect[0].extent};
}

/// Does the last statement that wrote the storage fill it with one whole number? Which one.
std::optional<Range> filled_with(const std::vector<ir::Item>& items, const Program& program,
                                 const Access& target) {
  const int storage = target.storage;
  for (auto item = items.rbegin(); item != items.rend(); ++item) {
    if (const auto* repeat = std::get_if<Repeat>(&*item)) {
      for (const Statement& s : repeat->body)
        if (s.store.storage == storage) return std::nullopt;
    } else if (std::holds_alternative<ir::Extern>(*item)) {
      return std::nullopt;
    } else if (const auto* s = std::get_if<Statement>(&*item)) {
      if (s->store.storage != storage) continue;
      const auto bytes = static_cast<int64_t>(c10::elementSize(s->store.dtype));
      const bool all =
          s->store.dtype == target.dtype && s->store.indirect.empty() && s->store.offset == 0 &&
          !s->reduction && s->store.strides == ir::contiguous_strides(s->axes) &&
          ir::numel(s->axes) * bytes == program.storages[static_cast<size_t>(storage)].bytes;
      return all ? whole(*s, s->value) : std::nullopt;
    }
  }
  return std::nullopt;
}

/// Can the terms be added up in any order?
bool commute(const Statement& s, const Counts& counts, const std::vector<ir::Item>& items,
             const Program& program) {
  if (c10::isIntegralType(s.store.dtype, /*includeBool=*/false)) return true;
  if (s.store.dtype != ScalarType::Float && s.store.dtype != ScalarType::Double) return false;
  const auto term = whole(s, counts.term), start = filled_with(items, program, s.store);
  if (!term || !start) return false;
  auto size = [](Range r) { return std::max(std::abs(r.low), std::abs(r.high)); };
  const int64_t most = largest_exact(s.store.dtype);
  return size(*term) <= most / counts.terms && size(*start) <= most - counts.terms * size(*term);
}

/// The first terms, `length` of them for each table of each tile; the rest stays behind them.
struct Split {
  int64_t tiles, tables, length;
};

std::optional<Split> split_of(const Statement& s, const Counts& counts, const Settings& settings) {
  const int64_t table = counts.places * static_cast<int64_t>(c10::elementSize(s.store.dtype));
  Split split{kMostTiles, kTables, 0};
  if (kTables * table > settings.target.first_cache_bytes / 2) split.tables = 1;
  auto fits = [&] {
    const int64_t parts = split.tiles * split.tables;
    return counts.terms / split.tiles >= kLeast &&
           counts.terms / parts >= kTermsPerPlace * counts.places &&
           split.tables * table <= settings.target.second_cache_bytes / 2;
  };
  while (split.tiles > 1 && !fits()) split.tiles /= 2;
  if (!fits() || split.tiles * split.tables == 1) return std::nullopt;
  split.length = counts.terms / (split.tiles * split.tables);
  return split;
}

void split(const Repeat& original, const Counts& counts, const Split& by, Program& out) {
  const Statement& s = original.body[0];
  const ScalarType type = s.store.dtype;
  const int64_t parts = by.tiles * by.tables, whole_terms = parts * by.length;
  const int storage = static_cast<int>(out.storages.size());
  const ir::Access target = s.store;
  out.storages.push_back({ir::Role::Temporary,
                          parts * counts.places * static_cast<int64_t>(c10::elementSize(type)), -1,
                          false});
  ir::StatementBuilder fill({parts * counts.places});
  out.items.emplace_back(fill.store(Access{storage, type, 0, {1}, {}}, fill.constant(0, type)));
  Repeat steps;
  steps.count = by.length;
  for (int64_t k = 0; k < by.tables; ++k) {
    Statement one = s;
    take_range(one, 0, 0, whole_terms);
    split_axis(one, 0, by.length);
    split_axis(one, 0, by.tables);  // tiles, tables, steps
    take_range(one, 1, k, k + 1);
    drop_axis(one, 1);
    // The step is the first axis.
    std::swap(one.axes[0], one.axes[1]);
    each_access(one, [](Access& a) { std::swap(a.strides[0], a.strides[1]); });
    for (Node& n : one.expr.nodes)
      if (n.op == Op::Axis) n.payload = 1 - n.payload;
    each_access(one, [&](Access& a) {
      if (a.storage != target.storage) return;
      a.storage = storage;
      a.offset = k * counts.places;
      a.strides = {0, by.tables * counts.places};
      a.indirect[0].stride = 1;
    });
    steps.body.push_back(std::move(one));
  }
  out.items.emplace_back(std::move(steps));

  ir::StatementBuilder sum({parts, counts.places});
  Access from = ir::Access{storage, type, 0, {counts.places, 1}, {}},
         to = ir::Access{target.storage, type, target.offset, {0, target.indirect[0].stride}, {}};
  const ScalarType wide = is_float(type) ? ScalarType::Double : ScalarType::Long;
  const ir::Value all =
      sum.reduce(ir::ReduceOp::Sum, sum.load(std::move(from)), {true, false}, wide);
  Statement merged = sum.store(to, sum.load(to) + all.to(type));
  merged.record = s.record;
  out.items.emplace_back(std::move(merged));

  if (whole_terms == counts.terms) return;
  Repeat rest = original;
  rest.count = counts.terms - whole_terms;
  take_range(rest.body[0], 0, whole_terms, counts.terms);
  out.items.emplace_back(std::move(rest));
}

}  // namespace

Program split_counts(Program program, const Settings& settings) {
  if (settings.any_size) return program;
  Program out;
  out.storages = program.storages;
  out.signature = program.signature;
  for (ir::Item& item : program.items) {
    const auto* repeat = std::get_if<Repeat>(&item);
    std::optional<Split> by;
    std::optional<Counts> counts;
    if (repeat != nullptr) counts = counts_of(*repeat);
    if (counts && commute(repeat->body[0], *counts, out.items, program))
      by = split_of(repeat->body[0], *counts, settings);
    if (by)
      split(*repeat, *counts, *by, out);
    else
      out.items.push_back(std::move(item));
  }
  return out;
}

}  // namespace graft::passes
