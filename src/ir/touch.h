// Which storages an item of a program, or a step of a schedule, reads and writes, and which lie in
// a kernel's scratch block.
#pragma once

#include <algorithm>
#include <variant>

#include "ir/kernel.h"
#include "ir/program.h"

namespace graft::ir {

inline bool is_scratch(const Kernel& kernel, int storage) {
  return std::any_of(kernel.scratch.begin(), kernel.scratch.end(),
                     [&](const Scratch& own) { return own.storage == storage; });
}

/// Calls fn(storage, writes) for each read and each write, some storages more than once.
template <class Fn>
void each_touch(const Statement& s, Fn fn) {
  for (const Access& load : s.loads) fn(load.storage, false);
  fn(s.store.storage, true);
}
template <class Fn>
void each_touch(const Repeat& r, Fn fn) {
  for (const Statement& s : r.body) each_touch(s, fn);
}
template <class Fn>
void each_touch(const Kernel& kernel, Fn fn) {
  for (const Placed& p : kernel.placed) each_touch(p.statement, fn);
}
template <class Fn>
void each_touch(const Extern& e, Fn fn) {
  for (const View& v : e.inputs)
    if (v.storage >= 0) fn(v.storage, false);
  for (int storage : e.written)
    if (storage >= 0) fn(storage, true);
}
template <class Fn>
void each_touch(const Abort& a, Fn fn) {
  if (a.flag >= 0) fn(a.flag, false);
}
template <class... Kinds, class Fn>
void each_touch(const std::variant<Kinds...>& item, Fn fn) {
  std::visit([&](const auto& kind) { each_touch(kind, fn); }, item);
}

/// Calls fn(storage) for each.
template <class Kind, class Fn>
void each_storage(const Kind& kind, Fn fn) {
  each_touch(kind, [&](int storage, bool) { fn(storage); });
}

/// Calls fn(index into Kernel::placed) in the order in which statements run.
template <class Fn>
void each_placed(const std::vector<TreeNode>& body, Fn fn) {
  for (const TreeNode& node : body) {
    if (node.loop)
      each_placed(node.loop->body, fn);
    else
      fn(static_cast<size_t>(node.placed));
  }
}

}  // namespace graft::ir
