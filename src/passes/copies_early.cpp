#include "passes/copies_early.h"

#include <algorithm>

#include "ir/overlap.h"
#include "passes/reroll.h"
#include "passes/rewrite.h"
#include "passes/touch.h"

namespace graft::passes {

using ir::Access;
using ir::Program;
using ir::Role;
using ir::Statement;

namespace {

constexpr size_t kFewest = 4;   ///< statements, below which there is no loop to find
constexpr int kLooks = 200000;  ///< questions asked for one program

/// Is it a copy, or what inlining made of one: a part of a storage that the program makes?
bool may_move(const Program& program, const Statement& s, const std::vector<size_t>& parts) {
  auto storage = static_cast<size_t>(s.store.storage);
  Role role = program.storages[storage].role;
  return !ir::is_callers(role) && s.after < 0 && s.store.indirect.empty() &&
         (is_copy(s) || parts[storage] >= kFewest) &&
         std::all_of(
             s.loads.begin(), s.loads.end(),
             [&](const Access& load) {
               return load.indirect.empty() && load.storage != s.store.storage;
             });
}

/// The last place that statement i must stay behind, if it reads a temporary that is made there or
/// before. `place`: where the items before i are by now.
std::optional<size_t> earliest(const Program& program, size_t i, const Statement& s,
                               const std::vector<std::vector<size_t>>& stores,
                               const std::vector<std::vector<size_t>>& uses,
                               const std::vector<size_t>& place, int& looks) {
  std::optional<size_t> made;
  size_t last = 0;
  for (const Access& load : s.loads) {
    const auto& makers = stores[static_cast<size_t>(load.storage)];
    if (makers.empty()) continue;
    last = std::max(last, makers.back());
    if (program.storages[static_cast<size_t>(load.storage)].role == Role::Temporary) made = last;
  }
  if (!made) return std::nullopt;
  const auto& others = uses[static_cast<size_t>(s.store.storage)];
  for (size_t k = others.size(); k-- > 0 && others[k] > last;) {
    if (place[others[k]] <= last) continue;  // moved as well: it stays before this one
    const auto* t = std::get_if<Statement>(&program.items[others[k]]);
    bool clash = !t || ++looks > kLooks || meet(t->store, *t, s.store, s);
    for (size_t l = 0; t && l < t->loads.size() && !clash; ++l)
      clash = meet(s.store, s, t->loads[l], *t);
    if (clash) last = place[others[k]];
  }
  return last < i ? std::optional(last) : std::nullopt;
}

/// Nothing if too few parts can move.
std::optional<Program> moved_early(const Program& program) {
  size_t count = program.items.size(), moved = 0;
  int looks = 0;
  std::vector<std::vector<size_t>> stores(program.storages.size()), uses(stores);
  std::vector<size_t> parts(program.storages.size(), 0);  // statements that store to a storage
  for (const ir::Item& item : program.items)
    if (const auto* s = std::get_if<Statement>(&item))
      ++parts[static_cast<size_t>(s->store.storage)];
  std::vector<std::vector<size_t>> behind(count);  // what moves behind an item
  std::vector<size_t> place(count);
  for (size_t i = 0; i < count; ++i) {
    place[i] = i;
    const auto* s = std::get_if<Statement>(&program.items[i]);
    auto note = [i](auto& lists, int storage) { lists[static_cast<size_t>(storage)].push_back(i); };
    bool moves = s && may_move(program, *s, parts);
    if (auto at = moves ? earliest(program, i, *s, stores, uses, place, looks) : std::nullopt;
        at && *at + 1 < i) {
      behind[*at].push_back(i);
      place[i] = *at;
      ++moved;
    }
    ir::each_touch(program.items[i], [&](int storage, bool writes) {
      if (writes) note(stores, storage);
      note(uses, storage);
    });
  }
  if (moved < kFewest) return std::nullopt;
  Program out;
  out.storages = program.storages;
  out.signature = program.signature;
  for (size_t i = 0; i < count; ++i) {
    if (place[i] == i) out.items.push_back(program.items[i]);
    for (size_t k : behind[i]) out.items.push_back(program.items[k]);
  }
  return out;
}

}  // namespace

Program copies_early(Program program, const Settings& settings) {
  std::optional<Program> early = moved_early(program);
  return early && items_after_reroll(*early, settings) < items_after_reroll(program, settings)
             ? std::move(*early)
             : program;
}

}  // namespace graft::passes
