// Which items of a program, or steps of a schedule, touch which storage.
#pragma once

#include <vector>

#include "ir/touch.h"

namespace graft::passes {

using ir::each_storage;

/// For each storage the items that read or write it, in order. A Repeat is one item.
std::vector<std::vector<size_t>> touching_items(const ir::Program& program);

/// In how many statements and other items each storage occurs.
std::vector<int> count_touching(const ir::Program& program);

/// For each storage the one of `steps` (items, groups or steps) that alone touches it, if it is a
/// temporary of the plan; otherwise -1.
template <class Steps>
std::vector<int> private_to(const Steps& steps, const std::vector<ir::Storage>& storages) {
  constexpr int kNobody = -1, kSeveral = -2;
  std::vector<int> owner(storages.size(), kNobody);
  for (size_t k = 0; k < steps.size(); ++k)
    each_storage(steps[k], [&, step = static_cast<int>(k)](int storage) {
      int& one = owner[static_cast<size_t>(storage)];
      one = one == kNobody || one == step ? step : kSeveral;
    });
  for (size_t s = 0; s < storages.size(); ++s)
    if (owner[s] == kSeveral || storages[s].role != ir::Role::Temporary ||
        storages[s].made_by_extern)
      owner[s] = -1;
  return owner;
}

/// Per storage: is it a temporary of the plan's own memory that only one item touches?
std::vector<bool> private_storages(const ir::Program& program);

/// For each storage the kernel, as a step, that alone touches it, if it is a temporary of the plan
/// that does not lie in that kernel's scratch yet; otherwise -1.
std::vector<int> local_temporaries(const ir::Schedule& schedule);

bool lies_in_scratch(const ir::Kernel& kernel, int storage);

/// First and last step that touch a storage in memory; -1: none.
struct Lifetime {
  int first = -1, last = -1;
};
/// Per storage.
std::vector<Lifetime> lifetimes(const ir::Schedule& schedule);

/// The storages whose owner is `step`.
std::vector<bool> owned_by(const std::vector<int>& owner, int step);

}  // namespace graft::passes
