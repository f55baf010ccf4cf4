#include "passes/stream.h"

#include "ir/touch.h"
#include "passes/kernel_loops.h"
#include "passes/scratch.h"

namespace graft::passes {

using ir::Access;
using ir::Kernel;
using ir::LoopKind;
using ir::Placed;

namespace {

constexpr int64_t kSmallest = 1 << 20;  ///< bytes of a result, below which it is not worth it
constexpr int64_t kCopyShare = 16;      ///< of the second cache, a tile's part kept for its readers

/// Do whole vectors of the vector loop fill whole, aligned lines? Results begin at one.
bool fills_lines(const Kernel& kernel, const Placed& p, int64_t line) {
  const ir::Statement& s = p.statement;
  const auto size = static_cast<int64_t>(c10::elementSize(s.store.dtype));
  if (s.reduction || !s.store.indirect.empty() || s.store.offset * size % line != 0) return false;
  bool along = false;
  for (size_t a = 0; a < p.axis_var.size(); ++a) {
    bool vector = kernel.vars[static_cast<size_t>(p.axis_var[a])].kind == LoopKind::Vector;
    if (vector ? s.store.strides[a] != 1 : s.store.strides[a] * size % line != 0) return false;
    along = along || vector;
  }
  return along;
}

/// Does each tile read nothing of what `p` stores but its own part, a small one, in its own dtype?
bool reads_own_part(const Kernel& kernel, const Placed& p, int64_t largest) {
  const Access& store = p.statement.store;
  auto bytes = static_cast<int64_t>(c10::elementSize(store.dtype));
  for (size_t a = 0; a < p.axis_var.size(); ++a)
    if (kernel.vars[static_cast<size_t>(p.axis_var[a])].kind != LoopKind::Range)
      bytes *= p.statement.axes[a];
  if (bytes > largest) return false;
  auto strides = tile_strides(kernel, p, store);
  for (const Placed& other : kernel.placed) {
    if (&other != &p && other.statement.store.storage == store.storage) return false;
    for (const Access& load : other.statement.loads)
      if (load.storage == store.storage &&
          (&other == &p || load.dtype != store.dtype || !load.indirect.empty() ||
           tile_strides(kernel, other, load) != strides))
        return false;
  }
  return true;
}

/// The loop body that a statement stands in.
const std::vector<ir::TreeNode>* body_of(const std::vector<ir::TreeNode>& body, int placed) {
  for (const ir::TreeNode& node : body) {
    if (!node.loop && node.placed == placed) return &body;
    if (!node.loop) continue;
    if (const auto* found = body_of(node.loop->body, placed)) return found;
  }
  return nullptr;
}

/// Strides by variable: equal for two accesses that touch the same place in every iteration.
std::vector<int64_t> by_variable(const Kernel& kernel, const Placed& p, const Access& x) {
  std::vector<int64_t> strides(kernel.vars.size(), 0);
  for (size_t a = 0; a < p.axis_var.size(); ++a)
    strides[static_cast<size_t>(p.axis_var[a])] += x.strides[a];
  return strides;
}

/// Is `k` the last that stores to its place in an iteration, and does each iteration read nothing
/// of the storage but what it has just stored there? Such a load is never made: the value is at
/// hand. Nor are the stores before the last one.
bool reads_own_value(const Kernel& kernel, size_t k) {
  const Placed& p = kernel.placed[k];
  const Access& store = p.statement.store;
  const auto* body = body_of(kernel.body, static_cast<int>(k));
  auto strides = by_variable(kernel, p, store);
  size_t touching = 0, here = 0;
  auto is_place = [&](const Placed& other, const Access& x) {
    return x.storage == store.storage && x.dtype == store.dtype && x.indirect.empty() &&
           x.offset == store.offset && by_variable(kernel, other, x) == strides;
  };
  for (const Placed& other : kernel.placed) {
    touching += other.statement.store.storage == store.storage;
    for (const Access& load : other.statement.loads) touching += load.storage == store.storage;
  }
  bool stored = false, last = false;
  for (const ir::TreeNode& node : *body) {
    if (node.loop) continue;
    const Placed& other = kernel.placed[static_cast<size_t>(node.placed)];
    if (other.statement.reduction) continue;
    if (stored)
      for (const Access& load : other.statement.loads) here += is_place(other, load);
    if (!is_place(other, other.statement.store)) continue;
    stored = true;
    last = node.placed == static_cast<int>(k);
    ++here;
  }
  return last && touching == here;
}

bool insert_after(std::vector<ir::TreeNode>& body, int placed, int added) {
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i].loop && insert_after(body[i].loop->body, placed, added)) return true;
    if (body[i].loop || body[i].placed != placed) continue;
    body.insert(body.begin() + static_cast<std::ptrdiff_t>(i) + 1, ir::TreeNode{nullptr, added});
    return true;
  }
  return false;
}

/// Stores what statement `k` stores in scratch as well, and lets its readers read that.
void copy_for_readers(ir::Schedule& schedule, Kernel& kernel, size_t k, int64_t budget) {
  int from = kernel.placed[k].statement.store.storage;
  int to = static_cast<int>(schedule.storages.size());
  schedule.storages.push_back(schedule.storages[static_cast<size_t>(from)]);
  schedule.storages.back().role = ir::Role::Temporary;
  for (Placed& p : kernel.placed)
    for (Access& load : p.statement.loads)
      if (load.storage == from) load.storage = to;
  Placed copy = kernel.placed[k];
  copy.statement.store.storage = to;
  insert_after(kernel.body, static_cast<int>(k), static_cast<int>(kernel.placed.size()));
  kernel.placed.push_back(std::move(copy));
  std::vector<bool> local(schedule.storages.size(), false);
  local[static_cast<size_t>(to)] = true;
  to_scratch(kernel, local, budget);
}

}  // namespace

void stream_results(ir::Schedule& schedule, const Settings& settings) {
  constexpr int kNobody = -1, kSeveral = -2;
  std::vector<int> reader(schedule.storages.size(), kNobody), writer(reader);  // which step
  for (size_t k = 0; k < schedule.steps.size(); ++k) {
    int step = static_cast<int>(k);
    bool external = std::holds_alternative<ir::Extern>(schedule.steps[k]);
    ir::each_touch(schedule.steps[k], [&](int storage, bool writes) {
      int& who = (writes ? writer : reader)[static_cast<size_t>(storage)];
      who = external || (who != kNobody && who != step) ? kSeveral : step;
    });
  }
  int64_t total = 0;
  for (size_t s = 0; s < schedule.storages.size(); ++s)
    if (schedule.storages[s].role == ir::Role::Output && writer[s] != kNobody)
      total += schedule.storages[s].bytes;
  if (total < settings.target.last_cache_bytes) return;
  for (size_t k = 0; k < schedule.steps.size(); ++k) {
    auto* kernel = std::get_if<Kernel>(&schedule.steps[k]);
    for (size_t i = 0; kernel && i < kernel->placed.size(); ++i) {
      auto s = static_cast<size_t>(kernel->placed[i].statement.store.storage);
      const ir::Storage& storage = schedule.storages[s];
      if (storage.role != ir::Role::Output || storage.made_by_extern || storage.bytes < kSmallest ||
          writer[s] == kSeveral ||
          !fills_lines(*kernel, kernel->placed[i], settings.target.line_bytes))
        continue;
      if (reader[s] == static_cast<int>(k) && reads_own_value(*kernel, i)) {
        reader[s] = kNobody;
      } else if (reader[s] == static_cast<int>(k) &&
                 reads_own_part(*kernel, kernel->placed[i],
                                settings.target.second_cache_bytes / kCopyShare)) {
        copy_for_readers(schedule, *kernel, i, settings.target.second_cache_bytes / 2);
        reader.push_back(kSeveral);
        writer.push_back(kSeveral);
        reader[s] = kNobody;
      }
      kernel->placed[i].streamed = reader[s] == kNobody;
    }
  }
}

}  // namespace graft::passes
