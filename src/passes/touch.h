// Which items of a program touch which storage.
#pragma once

#include <vector>

#include "ir/program.h"

namespace graft::passes {

/// Calls fn(storage) for each storage that the item reads or writes, some more than once.
template <class Fn>
void each_storage(const ir::Item& item, Fn fn) {
  auto statement = [&](const ir::Statement& s) {
    for (const ir::Access& load : s.loads) fn(load.storage);
    fn(s.store.storage);
  };
  if (const auto* s = std::get_if<ir::Statement>(&item)) statement(*s);
  if (const auto* r = std::get_if<ir::Repeat>(&item))
    for (const ir::Statement& s : r->body) statement(s);
  if (const auto* e = std::get_if<ir::Extern>(&item)) {
    for (const ir::View& v : e->inputs)
      if (v.storage >= 0) fn(v.storage);
    for (int storage : e->written)
      if (storage >= 0) fn(storage);
  }
  if (const auto* a = std::get_if<ir::Abort>(&item))
    if (a->flag >= 0) fn(a->flag);
}

/// For each storage the items that read or write it, in order. A Repeat is one item.
std::vector<std::vector<size_t>> touching_items(const ir::Program& program);

/// Per storage: is it a temporary of the plan's own memory that only one item touches?
std::vector<bool> private_storages(const ir::Program& program);

}  // namespace graft::passes
