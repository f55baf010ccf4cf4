// Stream: results that together are larger than the last cache, and that nothing of the program
// reads, are stored past the cache. A plain store first reads the line that it will overwrite.
#include <algorithm>

#include "passes/arrange.h"

namespace graft::passes {

using ir::Access;
using ir::Kernel;
using ir::LoopKind;
using ir::Placed;

namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kSmallest = 1 << 20;  ///< bytes of a result, below which it is not worth it

/// Do whole vectors of the vector loop fill whole, aligned lines? Results begin at one.
bool fills_lines(const Kernel& kernel, const Placed& p) {
  const ir::Statement& s = p.statement;
  const auto size = static_cast<int64_t>(c10::elementSize(s.store.dtype));
  if (s.guard >= 0 || s.reduction || !s.store.indirect.empty() ||
      s.store.offset * size % kLine != 0)
    return false;
  bool along = false;
  for (size_t a = 0; a < p.axis_var.size(); ++a) {
    bool vector = kernel.vars[static_cast<size_t>(p.axis_var[a])].kind == LoopKind::Vector;
    if (vector ? s.store.strides[a] != 1 : s.store.strides[a] * size % kLine != 0) return false;
    along = along || vector;
  }
  return along;
}

}  // namespace

void stream_results(ir::Schedule& schedule, const Settings& settings) {
  std::vector<bool> read(schedule.storages.size(), false), stored(read);
  for (const ir::Step& step : schedule.steps) {
    if (const auto* kernel = std::get_if<Kernel>(&step)) {
      for (const Placed& p : kernel->placed) {
        stored[static_cast<size_t>(p.statement.store.storage)] = true;
        for (const Access& load : p.statement.loads) read[static_cast<size_t>(load.storage)] = true;
      }
    } else if (const auto* call = std::get_if<ir::Extern>(&step)) {
      for (const ir::View& v : call->inputs)
        if (v.storage >= 0) read[static_cast<size_t>(v.storage)] = true;
      for (int storage : call->written) read[static_cast<size_t>(storage)] = true;
    }
  }
  int64_t total = 0;
  std::vector<bool> large(schedule.storages.size(), false);
  for (size_t s = 0; s < large.size(); ++s) {
    const ir::Storage& storage = schedule.storages[s];
    if (storage.role != ir::Role::Output || storage.made_by_extern || !stored[s]) continue;
    total += storage.bytes;
    large[s] = !read[s] && storage.bytes >= kSmallest;
  }
  if (total < settings.last_cache_bytes) return;
  for (ir::Step& step : schedule.steps)
    if (auto* kernel = std::get_if<Kernel>(&step))
      for (Placed& p : kernel->placed)
        p.streamed =
            large[static_cast<size_t>(p.statement.store.storage)] && fills_lines(*kernel, p);
}

}  // namespace graft::passes
