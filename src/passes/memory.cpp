#include "passes/memory.h"

#include <algorithm>

#include "passes/touch.h"

namespace graft::passes {

namespace {

void find_own(ir::Schedule& schedule) {
  const std::vector<int> owner = private_to(schedule.steps, schedule.storages);
  for (size_t s = 0; s < owner.size(); ++s) {
    auto* kernel = owner[s] < 0
                       ? nullptr
                       : std::get_if<ir::Kernel>(&schedule.steps[static_cast<size_t>(owner[s])]);
    if (kernel != nullptr && !lies_in_scratch(*kernel, static_cast<int>(s)))
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
        life[s].first >= 0) {
      if (schedule.storages[s].bytes >= ir::kLarge || schedule.storages[s].folded)
        schedule.arena_offset[s] = ir::kOwnBlock;
      else
        order.push_back(s);
    }
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
