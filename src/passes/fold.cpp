#include "passes/fold.h"

#include <algorithm>
#include <set>

#include "passes/touch.h"

namespace graft::passes {

namespace {

/// What a kernel stores in memory, if it computes that of constants alone; otherwise nothing.
std::set<int> computed_once(const ir::Schedule& schedule, const ir::Kernel& kernel,
                            const std::vector<bool>& constant, const std::vector<int>& writers) {
  std::set<int> stored;
  bool all = true;
  const auto is_plain = [](const ir::Access& access) { return access.indirect.empty(); };
  for (const ir::Placed& placed : kernel.placed) {
    // (Indices may be checked by an earlier step, which a folded kernel does not wait for.)
    const ir::Statement& s = placed.statement;
    all = all && is_plain(s.store) && std::all_of(s.loads.begin(), s.loads.end(), is_plain);
    const int storage = s.store.storage;
    if (lies_in_scratch(kernel, storage)) continue;
    const ir::Storage& to = schedule.storages[static_cast<size_t>(storage)];
    all = all && to.role == ir::Role::Temporary && !to.made_by_extern &&
          writers[static_cast<size_t>(storage)] == 1;
    stored.insert(storage);
  }
  for (const ir::Placed& placed : kernel.placed)
    for (const ir::Access& load : placed.statement.loads)
      all = all && (constant[static_cast<size_t>(load.storage)] || stored.contains(load.storage) ||
                    lies_in_scratch(kernel, load.storage));
  return all ? stored : std::set<int>();
}

}  // namespace

void fold(ir::Schedule& schedule, const Settings& settings) {
  for (ir::Storage& storage : schedule.storages) storage.folded = false;  // were hopes
  if (settings.most_folded_bytes <= 0) return;
  std::vector<bool> constant = constant_storages(schedule.steps, schedule.storages);
  std::vector<int> writers(schedule.storages.size());
  for (const ir::Step& step : schedule.steps) {
    std::set<int> written;
    each_touch(step, [&](int storage, bool writes) {
      if (writes) written.insert(storage);
    });
    for (int s : written) ++writers[static_cast<size_t>(s)];
  }
  int64_t left = settings.most_folded_bytes;
  for (const ir::Step& step : schedule.steps) {
    const auto* kernel = std::get_if<ir::Kernel>(&step);
    if (kernel == nullptr) continue;
    const std::set<int> stored = computed_once(schedule, *kernel, constant, writers);
    int64_t bytes = 0;
    for (int s : stored) bytes += schedule.storages[static_cast<size_t>(s)].bytes;
    if (bytes > left) continue;
    left -= bytes;
    for (int s : stored) {
      schedule.storages[static_cast<size_t>(s)].folded = true;
      constant[static_cast<size_t>(s)] = true;
    }
  }
}

}  // namespace graft::passes
