#include "passes/in_place.h"

#include <algorithm>
#include <map>

#include "passes/kernel_loops.h"
#include "passes/plain_calls.h"
#include "passes/touch.h"

namespace graft::passes {

namespace {

using ir::Access;
using ir::Kernel;
using ir::Placed;

bool has(const std::vector<int>& vars, int var) {
  return std::find(vars.begin(), vars.end(), var) != vars.end();
}

/// How an access moves through memory: by the variables of tiles and of the loops that it shares
/// with the last statement, and by loops of its own inside of those.
struct Walk {
  int64_t offset;
  std::map<int, int64_t> shared;
  std::vector<std::pair<int64_t, int64_t>> own;  ///< extent and stride
  bool operator==(const Walk&) const = default;
};

/// `other`: the other statement's variables. Without range variables any loop may be divided among
/// threads.
Walk walk_of(const Kernel& kernel, const Placed& placed, const Access& access,
             const std::vector<int>& other) {
  Walk walk{access.offset, {}, {}};
  for (size_t a = 0; a < placed.axis_var.size(); ++a) {
    const int var = placed.axis_var[a];
    if (kernel.range.empty() || has(kernel.range, var) || has(other, var))
      walk.shared[var] = access.strides[a];
    else
      walk.own.emplace_back(kernel.vars[static_cast<size_t>(var)].extent, access.strides[a]);
  }
  std::sort(walk.own.begin(), walk.own.end());
  return walk;
}

/// Does it go to another element with every step of every variable?
bool is_everywhere_once(const Kernel& kernel, const Placed& placed, const Access& access) {
  for (size_t a = 0; a < placed.axis_var.size(); ++a)
    if (access.strides[a] == 0 && kernel.vars[static_cast<size_t>(placed.axis_var[a])].extent > 1)
      return false;
  return true;
}

/// The kernel's last statement, where its loops are plain ones: nothing reads anything behind it.
const Placed* last_of(const Kernel& kernel) {
  if (has_steps(kernel)) return nullptr;
  const Placed* last = nullptr;
  ir::each_placed(kernel.body, [&](size_t p) { last = &kernel.placed[p]; });
  return last == nullptr || last->statement.reduction ? nullptr : last;
}

/// Does each tile read of `storage` just those elements that it stores, by the last statement
/// alone, to another storage?
bool reads_as_it_stores(const Kernel& kernel, const Placed& last, int storage) {
  const Access& store = last.statement.store;
  for (const Placed& placed : kernel.placed) {
    if (&placed != &last && (placed.statement.store.storage == store.storage ||
                             placed.statement.store.storage == storage))
      return false;
    for (const Access& load : placed.statement.loads) {
      if (load.storage != storage) continue;
      if (load.dtype != store.dtype || !load.indirect.empty() ||
          walk_of(kernel, placed, load, last.axis_var) !=
              walk_of(kernel, last, store, placed.axis_var))
        return false;
    }
  }
  return store.indirect.empty() && is_everywhere_once(kernel, last, store);
}

}  // namespace

void reuse_in_place(ir::Schedule& schedule) {
  schedule.in_place_of.assign(schedule.storages.size(), -1);
  const std::vector<Lifetime> life = lifetimes(schedule);
  std::vector<bool> taken(schedule.storages.size()), made_plainly = taken;
  for (const ir::Step& step : schedule.steps)
    if (const auto* call = std::get_if<ir::Extern>(&step); call != nullptr && is_plain(*call))
      for (int s : call->written) made_plainly[static_cast<size_t>(s)] = true;
  auto is_block = [&](size_t s) {
    const ir::Storage& storage = schedule.storages[s];
    return storage.role == ir::Role::Temporary && !storage.folded && storage.bytes >= ir::kLarge &&
           (storage.made_by_extern ? made_plainly[s] : schedule.arena_offset[s] == ir::kOwnBlock);
  };
  for (size_t k = 0; k < schedule.steps.size(); ++k) {
    const auto* kernel = std::get_if<Kernel>(&schedule.steps[k]);
    const Placed* last = kernel == nullptr ? nullptr : last_of(*kernel);
    if (last == nullptr) continue;
    const int at = static_cast<int>(k);
    const auto made = static_cast<size_t>(last->statement.store.storage);
    if (schedule.arena_offset[made] != ir::kOwnBlock || schedule.storages[made].folded ||
        life[made].first != at)
      continue;
    for (const Access& load : last->statement.loads) {
      const auto from = static_cast<size_t>(load.storage);
      if (from == made || taken[from] || !is_block(from) || life[from].last != at ||
          life[from].first == at ||
          schedule.storages[from].bytes != schedule.storages[made].bytes ||
          !reads_as_it_stores(*kernel, *last, load.storage))
        continue;
      schedule.in_place_of[made] = load.storage;
      taken[from] = true;
      break;
    }
  }
}

}  // namespace graft::passes
