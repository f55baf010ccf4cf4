#include "passes/one_hot.h"

#include <algorithm>
#include <optional>

#include "ir/overlap.h"
#include "passes/rewrite.h"
#include "passes/touch.h"

namespace graft::passes {

using ir::Access;
using ir::Item;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Program;
using ir::Repeat;
using ir::Statement;

namespace {

/// The axis that takes the index's place goes before the first one of a smaller stride.
size_t place_of(const Access& store, int64_t stride) {
  size_t a = 0;
  while (a < store.strides.size() && std::abs(store.strides[a]) >= std::abs(stride)) ++a;
  return a;
}

/// What may store one element per row: an operator of one step, or a statement.
const Statement* one_per_row(const Item& item) {
  const auto* s = std::get_if<Statement>(&item);
  if (const auto* r = std::get_if<Repeat>(&item);
      r != nullptr && r->count == 1 && !r->origin && r->body.size() == 1)
    s = r->body.data();
  const bool fits = s != nullptr && !s->reduction && s->store.indirect.size() == 1 &&
                    s->store.indirect[0].extent != 0;
  return fits ? s : nullptr;
}

/// It over whole rows; nothing where it reads what it stores to elsewhere than where it stores, or
/// stores to several places of a row.
std::optional<Statement> over_rows(const Item& item) {
  const Statement* one = one_per_row(item);
  if (one == nullptr) return std::nullopt;
  Statement s = one->repeated() ? at_step(*one, 0) : *one;
  const ir::Indirect index = s.store.indirect[0];
  const Access before = s.store;
  for (const Access& load : s.loads)
    if (load.storage == before.storage && load != before) return std::nullopt;
  const size_t axis = place_of(before, index.stride);
  const auto at = static_cast<std::ptrdiff_t>(axis);
  s.axes.insert(s.axes.begin() + at, index.extent);
  each_access(s, [&](Access& access) {
    const bool held = access == before;
    access.strides.insert(access.strides.begin() + at, held ? index.stride : 0);
    if (held) access.indirect.clear();
  });
  ir::View stored;
  stored.sizes = s.axes, stored.strides = s.store.strides;
  if (!ir::is_non_overlapping(stored)) return std::nullopt;
  for (Node& node : s.expr.nodes)
    if (node.op == Op::Axis && node.payload >= static_cast<int64_t>(axis)) ++node.payload;
  auto add = [&](Node node) {
    s.expr.nodes.push_back(node);
    return static_cast<NodeId>(s.expr.nodes.size() - 1);
  };
  // What stood in the row stays where the index does not point.
  auto held = std::find(s.loads.begin(), s.loads.end(), s.store);
  if (held == s.loads.end()) held = s.loads.insert(s.loads.end(), s.store);
  const NodeId old = add({Op::Load, s.store.dtype, {-1, -1, -1}, held - s.loads.begin()}),
               here = add({Op::Axis, ScalarType::Long, {-1, -1, -1}, static_cast<int64_t>(axis)}),
               is = add({Op::Eq, ScalarType::Bool, {here, index.index, -1}, 0});
  s.value = add({Op::Select, s.store.dtype, {is, s.value, old}, 0});
  return may_read_own_stores(s) ? std::nullopt : std::optional(std::move(s));
}

/// What a call stands between cannot become one loop: the rows would be walked once more.
bool call_between(const Program& program, size_t first, size_t last) {
  return std::any_of(program.items.begin() + static_cast<std::ptrdiff_t>(first),
                     program.items.begin() + static_cast<std::ptrdiff_t>(last),
                     [](const Item& item) { return std::holds_alternative<ir::Extern>(item); });
}

}  // namespace

Program one_hot(Program program) {
  const std::vector<std::vector<size_t>> touching = touching_items(program);
  std::vector<bool> widened(program.items.size());  // a chain would walk the rows for each
  for (size_t i = 0; i < program.items.size(); ++i) {
    std::optional<Statement> rows = over_rows(program.items[i]);
    if (!rows) continue;
    const std::vector<size_t>& list = touching[static_cast<size_t>(rows->store.storage)];
    const auto own = std::lower_bound(list.begin(), list.end(), i);
    if (own == list.begin() || widened[*(own - 1)]) continue;
    const auto* stored = std::get_if<Statement>(&program.items[*(own - 1)]);
    if (stored == nullptr || !overwrites(*stored, *rows) || call_between(program, *(own - 1), i))
      continue;
    program.items[i] = std::move(*rows);
    widened[i] = true;
  }
  return program;
}

}  // namespace graft::passes
