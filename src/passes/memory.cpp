#include <algorithm>

#include "passes/arrange.h"

namespace graft::passes {

void plan_memory(ir::Schedule& schedule) {
  size_t count = schedule.storages.size();
  std::vector<int> first(count, -1), last(count, -1);
  auto use = [&](int storage, int step) {
    if (storage < 0) return;
    auto s = static_cast<size_t>(storage);
    if (first[s] < 0) first[s] = step;
    last[s] = step;
  };
  for (size_t k = 0; k < schedule.steps.size(); ++k) {
    int step = static_cast<int>(k);
    if (const auto* kernel = std::get_if<ir::Kernel>(&schedule.steps[k])) {
      auto in_scratch = [&](int storage) {
        return std::any_of(kernel->scratch.begin(), kernel->scratch.end(),
                           [&](const ir::Scratch& s) { return s.storage == storage; });
      };
      for (const ir::Placed& p : kernel->placed) {
        if (!in_scratch(p.statement.store.storage)) use(p.statement.store.storage, step);
        for (const ir::Access& load : p.statement.loads)
          if (!in_scratch(load.storage)) use(load.storage, step);
      }
    } else if (const auto* e = std::get_if<ir::Extern>(&schedule.steps[k])) {
      for (const ir::View& v : e->inputs) use(v.storage, step);
      for (int storage : e->written) use(storage, step);
    } else {
      use(std::get<ir::Abort>(schedule.steps[k]).flag, step);
    }
  }
  schedule.arena_offset.assign(count, -1);
  std::vector<size_t> order;
  for (size_t s = 0; s < count; ++s)
    if (schedule.storages[s].role == ir::Role::Temporary && !schedule.storages[s].made_by_extern &&
        first[s] >= 0)
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
      if (first[other] <= last[s] && first[s] <= last[other])
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
