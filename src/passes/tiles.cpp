#include "passes/tiles.h"

#include <algorithm>
#include <map>

#include "ir/product.h"
#include "passes/kernel_loops.h"
#include "passes/touch.h"

namespace graft::passes {

using ir::Access;
using ir::Kernel;
using ir::Placed;
using ir::Schedule;

namespace {

void sort_range(Kernel& kernel) {
  const Placed& last = kernel.placed.back();
  std::stable_sort(kernel.range.begin(), kernel.range.end(), [&](int u, int v) {
    auto stride = [&](int var) {
      int a = axis_of(last, var);
      return a < 0 ? 0 : std::abs(last.statement.store.strides[static_cast<size_t>(a)]);
    };
    return stride(u) > stride(v);
  });
}

/// Blocks of rows that follow each other multiply with the same right operand, which is in the
/// cache then.
void rows_last(Kernel& kernel) {
  const auto is_rows = [&](int var) {
    return std::any_of(kernel.placed.begin(), kernel.placed.end(), [&](const Placed& p) {
      if (!p.product) return false;
      const int a = axis_of(p, var);
      const ir::ProductAxes axes = *ir::product_axes(p.statement);
      return std::count(axes.rows.begin(), axes.rows.end(), static_cast<size_t>(a)) > 0;
    });
  };
  std::stable_partition(kernel.range.begin(), kernel.range.end(),
                        [&](int var) { return !is_rows(var); });
}

/// Bytes that one iteration of the tile variable `u` reads and writes in memory (not in temporaries
/// of the tile), and those of them that every iteration reads.
struct Traffic {
  int64_t all = 0, shared = 0;
};
Traffic traffic_of(const Kernel& kernel, int u, const std::vector<bool>& local) {
  std::map<std::pair<int, int64_t>, int64_t> all, shared;  // by storage and offset
  for (const Placed& p : kernel.placed) {
    int a = axis_of(p, u);
    auto count = [&](const Access& x, bool stored) {
      if (!x.indirect.empty() || local[static_cast<size_t>(x.storage)]) return;
      auto bytes = static_cast<int64_t>(c10::elementSize(x.dtype));
      for (size_t k = 0; k < p.statement.axes.size(); ++k)
        if (x.strides[k] != 0 && static_cast<int>(k) != a) bytes *= p.statement.axes[k];
      std::pair key(x.storage, x.offset);
      all[key] = std::max(all[key], bytes);
      bool same = a < 0 || x.strides[static_cast<size_t>(a)] == 0;
      if (same && !stored) shared[key] = std::max(shared[key], bytes);
    };
    count(p.statement.store, true);
    for (const Access& x : p.statement.loads) count(x, false);
  }
  Traffic traffic;
  for (const auto& [key, bytes] : all) traffic.all += bytes;
  for (const auto& [key, bytes] : shared) traffic.shared += bytes;
  return traffic;
}

/// Where each iteration of the outermost tile variable reads again what the cache does not hold so
/// long (a table broadcast along the heads), runs two of them side by side, so that it is read half
/// as often. Not more: they usually lie a power of two apart, and push each other out of the cache.
void pair_range(Kernel& kernel, const std::vector<bool>& local, const Settings& settings) {
  if (kernel.range.size() < 2) return;
  int u = kernel.range.front();
  Traffic traffic = traffic_of(kernel, u, local);
  const int64_t extent = kernel.vars[static_cast<size_t>(u)].extent;
  if (extent % 2 != 0 || settings.may_vary(extent) ||
      traffic.shared <= settings.target.second_cache_bytes / 2 || traffic.shared * 5 < traffic.all)
    return;
  kernel.range.front() = split_variable(kernel, u, 2);
  kernel.range.push_back(u);
}

}  // namespace

void order_tiles(Schedule& schedule, const Settings& settings) {
  std::vector<int> owner = local_temporaries(schedule);
  each_kernel(schedule, [&](Kernel& kernel, int step) {
    if (!kernel.range.empty()) sort_range(kernel);
    rows_last(kernel);
    if (!has_product(kernel)) pair_range(kernel, owned_by(owner, step), settings);
  });
}

}  // namespace graft::passes
