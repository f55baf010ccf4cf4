#include "passes/scratch.h"

#include <algorithm>
#include <functional>
#include <set>
#include <stdexcept>

#include "passes/kernel_loops.h"
#include "passes/touch.h"

namespace graft::passes {

using ir::Access;
using ir::Kernel;
using ir::LoopKind;
using ir::Placed;
using ir::Schedule;
using ir::TreeNode;

namespace {

/// Drops variables that no loop uses any more.
void compact_vars(Kernel& kernel) {
  std::set<int> used(kernel.range.begin(), kernel.range.end());
  std::function<void(const std::vector<TreeNode>&)> walk = [&](const std::vector<TreeNode>& body) {
    for (const TreeNode& node : body)
      if (node.loop) used.insert(node.loop->var), walk(node.loop->body);
  };
  walk(kernel.body);
  std::vector<int> to(kernel.vars.size(), -1);
  std::vector<ir::Variable> vars;
  for (int v : used) {
    to[static_cast<size_t>(v)] = static_cast<int>(vars.size());
    vars.push_back(kernel.vars[static_cast<size_t>(v)]);
  }
  kernel.vars = std::move(vars);
  for (ir::Variable& v : kernel.vars)
    if (v.step >= 0) v.step = to[static_cast<size_t>(v.step)];
  for (int& v : kernel.range) v = to[static_cast<size_t>(v)];
  for (Placed& p : kernel.placed)
    for (int& v : p.axis_var) v = to[static_cast<size_t>(v)];
  std::function<void(std::vector<TreeNode>&)> rename = [&](std::vector<TreeNode>& body) {
    for (TreeNode& node : body)
      if (node.loop)
        node.loop->var = to[static_cast<size_t>(node.loop->var)], rename(node.loop->body);
  };
  rename(kernel.body);
}

/// What every tile makes for itself must lie in its own scratch.
void check_tiles_apart(const Kernel& kernel) {
  std::vector<int> tiles = kernel.range;
  if (kernel.body.size() == 1 && kernel.body[0].loop &&
      kernel.vars[static_cast<size_t>(kernel.body[0].loop->var)].kind == LoopKind::Vector)
    tiles.push_back(kernel.body[0].loop->var);
  for (const Placed& p : kernel.placed) {
    bool scratch =
        std::any_of(kernel.scratch.begin(), kernel.scratch.end(),
                    [&](const ir::Scratch& s) { return s.storage == p.statement.store.storage; });
    for (int v : tiles)
      if (!scratch && kernel.vars[static_cast<size_t>(v)].extent > 1 && axis_of(p, v) < 0)
        throw std::logic_error("scratch: all tiles store to the same memory");
  }
}

}  // namespace

void to_scratch(Kernel& kernel, const std::vector<bool>& local, int64_t budget) {
  std::set<int> candidates;
  for (const Placed& p : kernel.placed)
    if (local[static_cast<size_t>(p.statement.store.storage)])
      candidates.insert(p.statement.store.storage);
  for (int storage : candidates) {
    std::vector<std::pair<Access*, const Placed*>> accesses;
    for (Placed& p : kernel.placed) {
      if (p.statement.store.storage == storage) accesses.emplace_back(&p.statement.store, &p);
      for (Access& x : p.statement.loads)
        if (x.storage == storage) accesses.emplace_back(&x, &p);
    }
    int64_t first = INT64_MAX, last = INT64_MIN;
    bool fits = true;
    std::vector<int64_t> common;
    for (auto [x, p] : accesses) {
      std::vector<int64_t> strides = tile_strides(kernel, *p, *x);
      Access within = *x;
      for (size_t a = 0; a < p->axis_var.size(); ++a)
        if (is_range(kernel, p->axis_var[a])) within.strides[a] = 0;
      auto [low, high] = span(within, p->statement);
      if (common.empty()) common = strides;
      fits = fits && strides == common && is_bounded(*x) && x->dtype == accesses[0].first->dtype;
      first = std::min(first, low);
      last = std::max(last, high);
    }
    int64_t bytes =
        (last - first + 1) * static_cast<int64_t>(c10::elementSize(accesses[0].first->dtype));
    int64_t aligned = (bytes + 63) / 64 * 64;
    if (!fits || kernel.scratch_bytes + aligned > budget) continue;
    for (auto [x, p] : accesses) {
      x->offset -= first;
      for (size_t a = 0; a < p->axis_var.size(); ++a)
        if (is_range(kernel, p->axis_var[a])) x->strides[a] = 0;
    }
    kernel.scratch.push_back({storage, kernel.scratch_bytes, bytes});
    kernel.scratch_bytes += aligned;
  }
}

void tile_scratch(Schedule& schedule, const Settings& settings) {
  std::vector<int> owner = local_temporaries(schedule);
  each_kernel(schedule, [&](Kernel& kernel, int step) {
    compact_vars(kernel);
    to_scratch(kernel, owned_by(owner, step), settings.target.second_cache_bytes / 2);
    check_tiles_apart(kernel);
  });
}

}  // namespace graft::passes
