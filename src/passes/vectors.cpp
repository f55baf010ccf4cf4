#include "passes/vectors.h"

#include <algorithm>

#include "passes/kernel_loops.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Access;
using ir::Kernel;
using ir::Loop;
using ir::LoopKind;
using ir::Placed;
using ir::Schedule;
using ir::TreeNode;

namespace {

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

}  // namespace

void choose_vectors(Schedule& schedule, const Settings& settings) {
  each_kernel(schedule, [&](Kernel& kernel) {
    if (!has_vector(kernel)) choose_vector(kernel, settings.target.lanes);
  });
}

}  // namespace graft::passes
