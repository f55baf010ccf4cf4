#include "passes/memory.h"

#include <algorithm>

#include "passes/touch.h"

namespace graft::passes {

namespace {

/// First and last step that touch a storage in memory; -1: none.
struct Lifetime {
  int first = -1, last = -1;
};

bool is_scratch(const ir::Kernel& kernel, int storage) {
  return std::any_of(kernel.scratch.begin(), kernel.scratch.end(),
                     [&](const ir::Scratch& s) { return s.storage == storage; });
}

std::vector<Lifetime> lifetimes(const ir::Schedule& schedule) {
  std::vector<Lifetime> life(schedule.storages.size());
  for (size_t k = 0; k < schedule.steps.size(); ++k) {
    const auto* kernel = std::get_if<ir::Kernel>(&schedule.steps[k]);
    each_storage(schedule.steps[k], [&](int storage) {
      if (kernel != nullptr && is_scratch(*kernel, storage)) return;
      Lifetime& l = life[static_cast<size_t>(storage)];
      if (l.first < 0) l.first = static_cast<int>(k);
      l.last = static_cast<int>(k);
    });
  }
  return life;
}

void find_own(ir::Schedule& schedule) {
  const std::vector<int> owner = private_to(schedule.steps, schedule.storages);
  for (size_t s = 0; s < owner.size(); ++s) {
    auto* kernel = owner[s] < 0
                       ? nullptr
                       : std::get_if<ir::Kernel>(&schedule.steps[static_cast<size_t>(owner[s])]);
    if (kernel != nullptr && !is_scratch(*kernel, static_cast<int>(s)))
      kernel->own.push_back(static_cast<int>(s));
  }
}

}  // namespace

void plan_memory(ir::Schedule& schedule) {
  find_own(schedule);
  size_t count = schedule.storages.size();
  std::vector<Lifetime> life = lifetimes(schedule);
  schedule.arena_offset.assign(count, -1);
  std::vector<size_t> order;
  for (size_t s = 0; s < count; ++s)
    if (schedule.storages[s].role == ir::Role::Temporary && !schedule.storages[s].made_by_extern &&
        life[s].first >= 0)
      order.push_back(s);
  // Large ones first, each at the lowest place that no storage alive at the same time holds.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return schedule.storages[a].bytes > schedule.storages[b].bytes;
  });
  auto aligned = [](int64_t bytes) { return (std::max<int64_t>(bytes, 1) + 63) / 64 * 64; };
  std::vector<size_t> placed;
  for (size_t s : order) {
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (size_t other : placed)
      if (life[other].first <= life[s].last && life[s].first <= life[other].last)
        taken.emplace_back(schedule.arena_offset[other],
                           schedule.arena_offset[other] + aligned(schedule.storages[other].bytes));
    std::sort(taken.begin(), taken.end());
    int64_t offset = 0;
    for (auto [from, to] : taken) {
      if (offset + aligned(schedule.storages[s].bytes) <= from) break;
      offset = std::max(offset, to);
    }
    schedule.arena_offset[s] = offset;
    schedule.arena_bytes =
        std::max(schedule.arena_bytes, offset + aligned(schedule.storages[s].bytes));
    placed.push_back(s);
  }
}

}  // namespace graft::passes
