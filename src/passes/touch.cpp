#include "passes/touch.h"

#include <algorithm>

#include "ir/visit.h"

namespace graft::passes {

std::vector<std::vector<size_t>> touching_items(const ir::Program& program) {
  std::vector<std::vector<size_t>> touching(program.storages.size());
  for (size_t i = 0; i < program.items.size(); ++i)
    each_storage(program.items[i], [&](int storage) {
      auto& list = touching[static_cast<size_t>(storage)];
      if (list.empty() || list.back() != i) list.push_back(i);
    });
  return touching;
}

std::vector<int> count_touching(const ir::Program& program) {
  std::vector<int> count(program.storages.size(), 0);
  auto once = [&](const auto& item) {
    std::vector<int> seen;
    ir::each_touch(item, [&](int storage, bool) {
      if (std::find(seen.begin(), seen.end(), storage) != seen.end()) return;
      seen.push_back(storage);
      ++count[static_cast<size_t>(storage)];
    });
  };
  for (const ir::Item& item : program.items)
    ir::match(
        item, [&](const ir::Statement& s) { once(s); },
        [&](const ir::Repeat& r) {
          for (const ir::Statement& s : r.body) once(s);
        },
        [&](const auto& other) { once(other); });
  return count;
}

std::vector<bool> private_storages(const ir::Program& program) {
  std::vector<int> owner = private_to(program.items, program.storages);
  std::vector<bool> alone;
  for (int item : owner) alone.push_back(item >= 0);
  return alone;
}

std::vector<int> local_temporaries(const ir::Schedule& schedule) {
  std::vector<int> owner = private_to(schedule.steps, schedule.storages);
  for (const ir::Step& step : schedule.steps)
    if (const auto* kernel = std::get_if<ir::Kernel>(&step))
      for (const ir::Scratch& s : kernel->scratch) owner[static_cast<size_t>(s.storage)] = -1;
  return owner;
}

bool lies_in_scratch(const ir::Kernel& kernel, int storage) {
  return std::any_of(kernel.scratch.begin(), kernel.scratch.end(),
                     [&](const ir::Scratch& s) { return s.storage == storage; });
}

std::vector<Lifetime> lifetimes(const ir::Schedule& schedule) {
  std::vector<Lifetime> life(schedule.storages.size());
  for (size_t k = 0; k < schedule.steps.size(); ++k) {
    const auto* kernel = std::get_if<ir::Kernel>(&schedule.steps[k]);
    each_storage(schedule.steps[k], [&](int storage) {
      if (kernel != nullptr && lies_in_scratch(*kernel, storage)) return;
      Lifetime& l = life[static_cast<size_t>(storage)];
      if (l.first < 0) l.first = static_cast<int>(k);
      l.last = static_cast<int>(k);
    });
  }
  return life;
}

std::vector<bool> owned_by(const std::vector<int>& owner, int step) {
  std::vector<bool> owned;
  for (int one : owner) owned.push_back(one == step);
  return owned;
}

}  // namespace graft::passes
