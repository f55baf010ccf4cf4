#include "passes/copies_early.h"

#include <algorithm>

#include "passes/digits.h"
#include "passes/rewrite.h"
#include "passes/touch.h"

namespace graft::passes {

using ir::Access;
using ir::Program;
using ir::Role;
using ir::Statement;

namespace {

constexpr size_t kFewest = 4;   ///< copies, below which there is no loop to find
constexpr int kLooks = 200000;  ///< questions asked for one program

/// Of a copy of a temporary: the last item that it must stay behind.
std::optional<size_t> earliest(const Program& program, size_t i, const Statement& s,
                               const std::vector<std::vector<size_t>>& stores,
                               const std::vector<std::vector<size_t>>& uses, int& looks) {
  auto role = [&](const Access& access) {
    return program.storages[static_cast<size_t>(access.storage)].role;
  };
  if (!is_copy(s) || !s.loads[0].indirect.empty() || role(s.loads[0]) != Role::Temporary ||
      role(s.store) == Role::Argument || role(s.store) == Role::Captured ||
      s.loads[0].storage == s.store.storage)
    return std::nullopt;
  const auto& makers = stores[static_cast<size_t>(s.loads[0].storage)];
  if (makers.empty()) return std::nullopt;
  size_t last = makers.back();
  const auto& others = uses[static_cast<size_t>(s.store.storage)];
  for (size_t k = others.size(); k-- > 0 && others[k] > last;) {
    const auto* t = std::get_if<Statement>(&program.items[others[k]]);
    bool clash = !t || ++looks > kLooks || meet(t->store, *t, s.store, s);
    for (size_t l = 0; t && l < t->loads.size() && !clash; ++l)
      clash = meet(s.store, s, t->loads[l], *t);
    if (clash) last = others[k];
  }
  return last < i ? std::optional(last) : std::nullopt;
}

}  // namespace

std::optional<Program> copies_early(const Program& program) {
  size_t count = program.items.size(), moved = 0;
  int looks = 0;
  std::vector<std::vector<size_t>> stores(program.storages.size()), uses(stores);
  std::vector<std::vector<size_t>> behind(count);  // what moves behind an item
  std::vector<bool> leaves(count, false);
  for (size_t i = 0; i < count; ++i) {
    const auto* s = std::get_if<Statement>(&program.items[i]);
    auto note = [i](auto& lists, int storage) { lists[static_cast<size_t>(storage)].push_back(i); };
    if (const auto* e = std::get_if<ir::Extern>(&program.items[i]))
      for (int storage : e->written)
        if (storage >= 0) note(stores, storage);
    if (auto at = s ? earliest(program, i, *s, stores, uses, looks) : std::nullopt;
        at && *at + 1 < i) {
      behind[*at].push_back(i);
      leaves[i] = true;
      ++moved;
    }
    if (s) note(stores, s->store.storage);
    each_storage(program.items[i], [&](int storage) { note(uses, storage); });
  }
  if (moved < kFewest) return std::nullopt;
  Program out;
  out.storages = program.storages;
  out.results = program.results;
  for (size_t i = 0; i < count; ++i) {
    if (!leaves[i]) out.items.push_back(program.items[i]);
    for (size_t k : behind[i]) out.items.push_back(program.items[k]);
  }
  return out;
}

}  // namespace graft::passes
