#include "passes/arrange.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>

#include "ir/builder.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Access;
using ir::Kernel;
using ir::Loop;
using ir::LoopKind;
using ir::Placed;
using ir::Statement;
using ir::TreeNode;

namespace {

/// Tiles below which a wrapped vector loop is cut into more of them.
constexpr int64_t kFewTiles = 8;
constexpr double kTaskNanoseconds = 20000;

bool is_range(const Kernel& kernel, int var) {
  return kernel.vars[static_cast<size_t>(var)].kind == LoopKind::Range;
}

template <class Fn>
bool all_accesses(const Statement& s, Fn fn) {
  return fn(s.store) && std::all_of(s.loads.begin(), s.loads.end(), fn);
}

bool uses_axis(const Statement& s, int axis) {
  return std::any_of(s.expr.nodes.begin(), s.expr.nodes.end(), [&](const ir::Node& node) {
    return node.op == ir::Op::Axis && node.payload == axis;
  });
}

/// May variable u (outer) and v (inner) become one loop?
bool mergeable(const Kernel& kernel, int u, int v) {
  const ir::Variable &outer = kernel.vars[static_cast<size_t>(u)],
                     &inner = kernel.vars[static_cast<size_t>(v)];
  if (outer.kind == LoopKind::Step || inner.kind == LoopKind::Step || outer.growth != 0 ||
      inner.growth != 0)
    return false;
  int64_t extent = inner.extent;
  return std::all_of(kernel.placed.begin(), kernel.placed.end(), [&](const Placed& p) {
    int a = axis_of(p, u), b = axis_of(p, v);
    if (a < 0 && b < 0) return true;
    if (a < 0 || b < 0) return false;
    const Statement& s = p.statement;
    auto ua = static_cast<size_t>(a), ub = static_cast<size_t>(b);
    if (uses_axis(s, a) || uses_axis(s, b)) return false;
    if (s.reduction) {
      if (s.reduction->axes[ua] != s.reduction->axes[ub] || s.reduction->scan) return false;
      bool index =
          s.reduction->op == ir::ReduceOp::ArgMax || s.reduction->op == ir::ReduceOp::ArgMin;
      if (index && s.reduction->axes[ua] && b != a + 1) return false;
    }
    return all_accesses(s,
                        [&](const Access& x) { return x.strides[ua] == x.strides[ub] * extent; });
  });
}

void merge(Kernel& kernel, int u, int v) {
  kernel.vars[static_cast<size_t>(v)].extent *= kernel.vars[static_cast<size_t>(u)].extent;
  kernel.vars[static_cast<size_t>(u)].extent = 1;
  for (Placed& p : kernel.placed) {
    int a = axis_of(p, u), b = axis_of(p, v);
    if (a < 0) continue;
    p.statement.axes[static_cast<size_t>(b)] = kernel.vars[static_cast<size_t>(v)].extent;
    p.statement.axes[static_cast<size_t>(a)] = 1;  // dropped below; strides there no longer matter
    for (Access& x : p.statement.loads) x.strides[static_cast<size_t>(a)] = 0;
    p.statement.store.strides[static_cast<size_t>(a)] = 0;
    drop_unit_axes(p.statement);
    p.axis_var.erase(p.axis_var.begin() + a);
  }
}

void coalesce_range(Kernel& kernel) {
  for (bool again = true; again;) {
    again = false;
    for (size_t i = 0; i < kernel.range.size() && !again; ++i)
      for (size_t j = 0; j < kernel.range.size() && !again; ++j)
        if (i != j && mergeable(kernel, kernel.range[i], kernel.range[j])) {
          merge(kernel, kernel.range[i], kernel.range[j]);
          kernel.range.erase(kernel.range.begin() + static_cast<std::ptrdiff_t>(i));
          again = true;
        }
  }
}

/// Merges a loop with the one loop in it.
void coalesce_tree(Kernel& kernel, std::vector<TreeNode>& body) {
  for (TreeNode& node : body) {
    if (!node.loop) continue;
    while (node.loop->body.size() == 1 && node.loop->body[0].loop) {
      int u = node.loop->var, v = node.loop->body[0].loop->var;
      if (mergeable(kernel, u, v)) {
        merge(kernel, u, v);
      } else if (mergeable(kernel, v, u)) {
        merge(kernel, v, u);
        node.loop->body[0].loop->var = u;
      } else {
        break;
      }
      node.loop = std::move(node.loop->body[0].loop);
    }
    coalesce_tree(kernel, node.loop->body);
  }
}

/// How well the variable suits as the vector loop: unit strides count for it, larger ones (gathers)
/// against it.
double vector_score(const Kernel& kernel, int var, int lanes) {
  double score = 0;
  for (const Placed& p : kernel.placed) {
    int a = axis_of(p, var);
    if (a < 0) continue;
    auto weight = static_cast<double>(points(p.statement));
    auto count = [&](const Access& x, double factor) {
      int64_t stride = x.strides[static_cast<size_t>(a)];
      score += weight * factor * (stride == 1 ? 1.0 : stride == 0 ? 0.1 : -0.5);
    };
    count(p.statement.store, 1.5);
    for (const Access& x : p.statement.loads) count(x, 1.0);
  }
  // A vector loop shorter than a vector wastes lanes.
  const ir::Variable& v = kernel.vars[static_cast<size_t>(var)];
  auto extent = static_cast<double>(v.extent);
  if (v.step >= 0)
    extent += 0.5 * static_cast<double>(v.growth * kernel.vars[static_cast<size_t>(v.step)].extent);
  return score > 0 ? score * std::min(1.0, extent / lanes) : score;
}

int best_of(const Kernel& kernel, const std::vector<int>& vars, int lanes, double& best) {
  int chosen = -1;
  for (int v : vars) {
    double score = vector_score(kernel, v, lanes);
    if (chosen < 0 || score > best) chosen = v, best = score;
  }
  return chosen;
}

/// The nest of single loops that starts at `loop`: its variables, outermost first.
std::vector<int> nest_of(const Loop& loop) {
  std::vector<int> vars{loop.var};
  const Loop* at = &loop;
  while (at->body.size() == 1 && at->body[0].loop)
    vars.push_back((at = at->body[0].loop.get())->var);
  return vars;
}

bool is_reduced(const Kernel& kernel, int var, bool scan_only = false) {
  return std::any_of(kernel.placed.begin(), kernel.placed.end(), [&](const Placed& p) {
    int a = axis_of(p, var);
    return a >= 0 && p.statement.reduction && p.statement.reduction->axes[static_cast<size_t>(a)] &&
           (!scan_only || p.statement.reduction->scan);
  });
}

/// Reorders a nest of single loops to `order`.
void reorder(Loop& loop, const std::vector<int>& order) {
  Loop* at = &loop;
  for (int v : order) {
    at->var = v;
    if (at->body.size() == 1 && at->body[0].loop) at = at->body[0].loop.get();
  }
}

bool is_step(const Kernel& kernel, const Loop& loop) {
  return kernel.vars[static_cast<size_t>(loop.var)].kind == LoopKind::Step;
}

void vectorize_nests(Kernel& kernel, std::vector<TreeNode>& body, int lanes) {
  for (TreeNode& node : body) {
    if (!node.loop) continue;
    if (is_step(kernel, *node.loop)) {
      vectorize_nests(kernel, node.loop->body, lanes);
      continue;
    }
    std::vector<int> vars = nest_of(*node.loop), candidates, order;
    for (int v : vars)
      if (!is_reduced(kernel, v, true)) candidates.push_back(v);  // a scan runs in order
    if (candidates.empty()) continue;
    double score = 0;
    int chosen = best_of(kernel, candidates, lanes, score);
    kernel.vars[static_cast<size_t>(chosen)].kind = LoopKind::Vector;
    bool reduced = is_reduced(kernel, chosen);
    for (int v : vars)
      if (!is_reduced(kernel, v) && v != chosen) order.push_back(v);
    if (!reduced) order.push_back(chosen);
    for (int v : vars)
      if (is_reduced(kernel, v) && v != chosen) order.push_back(v);
    if (reduced) order.push_back(chosen);
    reorder(*node.loop, order);
  }
}

/// Splits a variable in two: a new one, of the outer part, and itself, with `inner` iterations.
int split_variable(Kernel& kernel, int var, int64_t inner) {
  int outer_var = static_cast<int>(kernel.vars.size());
  kernel.vars.push_back({kernel.vars[static_cast<size_t>(var)].extent / inner, LoopKind::Range});
  kernel.vars[static_cast<size_t>(var)].extent = inner;
  for (Placed& p : kernel.placed) {
    int a = axis_of(p, var);
    if (a < 0) continue;
    split_axis(p.statement, static_cast<size_t>(a), inner);
    p.axis_var.insert(p.axis_var.begin() + a, outer_var);
  }
  return outer_var;
}

/// Cuts the wrapped vector variable in two when the other tiles are too few to share between
/// threads.
void split_wrapped(Kernel& kernel, int var) {
  int64_t tiles = 1, extent = kernel.vars[static_cast<size_t>(var)].extent;
  for (int v : kernel.range) tiles *= kernel.vars[static_cast<size_t>(v)].extent;
  if (kernel.range.empty() || tiles >= kFewTiles) return;
  int64_t inner = 0;
  for (int64_t d = std::min<int64_t>(1024, extent / 2); d >= 64 && !inner; --d)
    if (extent % d == 0) inner = d;
  if (!inner) return;
  kernel.range.push_back(split_variable(kernel, var, inner));
}

/// Whether there are loops inside, and how well their best variables suit as vector loops.
bool inner_scores(const Kernel& kernel, const std::vector<TreeNode>& body, int lanes,
                  double& inner_score) {
  bool loops = false;
  for (const TreeNode& node : body) {
    if (!node.loop) continue;
    if (is_step(kernel, *node.loop)) {
      loops = inner_scores(kernel, node.loop->body, lanes, inner_score) || loops;
      continue;
    }
    loops = true;
    std::vector<int> candidates;
    for (int v : nest_of(*node.loop))
      if (!is_reduced(kernel, v, true)) candidates.push_back(v);
    double score = 0;
    if (best_of(kernel, candidates, lanes, score) >= 0) inner_score += score;
  }
  return loops;
}

void choose_vector(Kernel& kernel, int lanes) {
  double outer_score = 0, inner_score = 0;
  int outer = best_of(kernel, kernel.range, lanes, outer_score);
  bool loops = inner_scores(kernel, kernel.body, lanes, inner_score);
  if (outer >= 0 && (!loops || outer_score > inner_score))
    wrap(kernel, outer);
  else
    vectorize_nests(kernel, kernel.body, lanes);
}

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
void pair_range(Kernel& kernel, const std::vector<bool>& local, int64_t cache_bytes) {
  if (kernel.range.size() < 2) return;
  int u = kernel.range.front();
  Traffic traffic = traffic_of(kernel, u, local);
  if (kernel.vars[static_cast<size_t>(u)].extent % 2 != 0 || traffic.shared <= cache_bytes / 2 ||
      traffic.shared * 5 < traffic.all)
    return;
  kernel.range.front() = split_variable(kernel, u, 2);
  kernel.range.push_back(u);
}

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
        throw std::logic_error("arrange: all tiles store to the same memory");
  }
}

void set_grain(Kernel& kernel) {
  double iterations = 1;
  for (int v : kernel.range)
    iterations *= static_cast<double>(kernel.vars[static_cast<size_t>(v)].extent);
  if (kernel.range.empty() && kernel.body.size() == 1 && kernel.body[0].loop)
    iterations =
        static_cast<double>(kernel.vars[static_cast<size_t>(kernel.body[0].loop->var)].extent);
  double nanoseconds = 0;
  for (const Placed& p : kernel.placed)
    nanoseconds += static_cast<double>(points(p.statement)) *
                   (static_cast<double>(p.statement.loads.size()) + 1 + work(p.statement)) * 0.05;
  kernel.grain = std::max<int64_t>(
      1,
      static_cast<int64_t>(std::ceil(kTaskNanoseconds / std::max(nanoseconds / iterations, 0.01))));
}

void set_name(Kernel& kernel) {
  constexpr const char* kNames[] = {"sum", "prod", "max", "min", "and", "or", "argmax", "argmin"};
  std::string last;
  for (const Placed& p : kernel.placed) {
    std::string part =
        p.statement.reduction ? kNames[static_cast<size_t>(p.statement.reduction->op)] : "map";
    if (part != last) kernel.name += (kernel.name.empty() ? "" : "_") + part;
    last = part;
  }
}

}  // namespace

int axis_of(const Placed& p, int var) {
  for (size_t a = 0; a < p.axis_var.size(); ++a)
    if (p.axis_var[a] == var) return static_cast<int>(a);
  return -1;
}

void wrap(Kernel& kernel, int var) {
  kernel.range.erase(std::find(kernel.range.begin(), kernel.range.end(), var));
  kernel.vars[static_cast<size_t>(var)].kind = LoopKind::Vector;
  split_wrapped(kernel, var);
  std::vector<TreeNode> inner = std::move(kernel.body);
  kernel.body.clear();
  kernel.body.push_back({std::make_unique<Loop>(Loop{var, std::move(inner)}), -1});
}

std::vector<int64_t> tile_strides(const Kernel& kernel, const Placed& p, const Access& x) {
  std::vector<int64_t> strides(kernel.vars.size(), 0);
  for (size_t a = 0; a < p.axis_var.size(); ++a)
    if (is_range(kernel, p.axis_var[a]))
      strides[static_cast<size_t>(p.axis_var[a])] += x.strides[a];
  return strides;
}

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
      fits =
          fits && strides == common && x->indirect.empty() && x->dtype == accesses[0].first->dtype;
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

void arrange(Kernel& kernel, ir::Schedule& schedule, const std::vector<bool>& local_temporary,
             const Settings& settings) {
  coalesce_range(kernel);
  coalesce_tree(kernel, kernel.body);
  if (!to_lanes(kernel, schedule, local_temporary, settings))
    choose_vector(kernel, settings.target.lanes);
  std::vector<bool> local = local_temporary;
  local.resize(schedule.storages.size(), false);
  if (!kernel.range.empty()) sort_range(kernel);
  pair_range(kernel, local, settings.target.second_cache_bytes);
  compact_vars(kernel);
  to_scratch(kernel, local, settings.target.second_cache_bytes / 2);
  check_tiles_apart(kernel);
  set_grain(kernel);
  set_name(kernel);
}

}  // namespace graft::passes
