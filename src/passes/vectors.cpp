#include "passes/vectors.h"

#include <algorithm>
#include <memory>

#include "ir/facts.h"
#include "passes/cost.h"
#include "passes/kernel_loops.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Kernel;
using ir::Loop;
using ir::LoopKind;
using ir::Placed;
using ir::Schedule;
using ir::TreeNode;

namespace {

constexpr int64_t kPlainSum = 1024;  ///< terms that may be added one by one

/// What the statements cost with the variable as their vector loop.
double cost_with(const Kernel& kernel, const std::vector<size_t>& placed, int var,
                 const ir::Target& target) {
  double sum = 0;
  for (size_t k : placed) {
    const Placed& p = kernel.placed[k];
    sum += vector_cost(p.statement, axis_of(p, var), target) / target.lanes *
           static_cast<double>(points(p.statement));
  }
  return sum;
}

struct Choice {
  int at = -1;  ///< into the variables
  double cost = 0;
};
Choice best_of(const Kernel& kernel, const std::vector<size_t>& placed,
               const std::vector<int>& vars, const ir::Target& target) {
  Choice best;
  for (size_t k = 0; k < vars.size(); ++k) {
    double cost = cost_with(kernel, placed, vars[k], target);
    if (best.at < 0 || cost < best.cost) best = {static_cast<int>(k), cost};
  }
  return best;
}

/// The choice as others see it: `ways`, and behind them each variable as the vector loop.
Decision decision_of(const Kernel& kernel, const std::vector<size_t>& placed,
                     const std::vector<int>& vars, const ir::Target& target,
                     std::vector<Decision::Way> ways = {}) {
  std::vector<const ir::Statement*> statements;
  for (size_t k : placed) statements.push_back(&kernel.placed[k].statement);
  for (int v : vars)
    ways.push_back(
        {"v" + std::to_string(v), cost_with(kernel, placed, v, target) * target.times.instruction});
  return {.about = stored_by(statements), .ways = std::move(ways)};
}

std::vector<size_t> placed_in(const std::vector<TreeNode>& body) {
  std::vector<size_t> placed;
  ir::each_placed(body, [&](size_t k) { placed.push_back(k); });
  return placed;
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

/// The variables of the nest at `loop` that can be its vector loop: a scan runs in order.
std::vector<int> candidates_of(const Kernel& kernel, const Loop& loop) {
  std::vector<int> out;
  for (int v : nest_of(loop))
    if (!is_reduced(kernel, v, true)) out.push_back(v);
  return out;
}

void vectorize_nests(Kernel& kernel, std::vector<TreeNode>& body, const ir::Target& target,
                     Decider& decider) {
  for (TreeNode& node : body) {
    if (!node.loop) continue;
    if (is_step(kernel, *node.loop)) {
      vectorize_nests(kernel, node.loop->body, target, decider);
      continue;
    }
    std::vector<int> vars = nest_of(*node.loop), order,
                     candidates = candidates_of(kernel, *node.loop);
    std::vector<size_t> placed = placed_in(node.loop->body);
    Choice best = best_of(kernel, placed, candidates, target);
    if (best.at < 0) continue;
    const int chosen = candidates[decider.choose(static_cast<size_t>(best.at), [&] {
      Decision decision = decision_of(kernel, placed, candidates, target);
      decision.about += " inside";
      return decision;
    })];
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

/// What the statements inside cost with the best vector loop of each nest.
double inner_cost(const Kernel& kernel, const std::vector<TreeNode>& body,
                  const ir::Target& target) {
  double sum = 0;
  for (const TreeNode& node : body) {
    if (!node.loop) {
      sum += cost_with(kernel, {static_cast<size_t>(node.placed)}, -1, target);
    } else if (is_step(kernel, *node.loop)) {
      sum += inner_cost(kernel, node.loop->body, target);
    } else {
      std::vector<size_t> placed = placed_in(node.loop->body);
      Choice best = best_of(kernel, placed, candidates_of(kernel, *node.loop), target);
      sum += best.at >= 0 ? best.cost : cost_with(kernel, placed, -1, target);
    }
  }
  return sum;
}

bool calls_arrays(const ir::Statement& s) {
  return std::any_of(s.expr.nodes.begin(), s.expr.nodes.end(), [](const ir::Node& node) {
    return node.op == ir::Op::Call &&
           info(static_cast<ir::Routine>(node.payload)).form == ir::RoutineForm::Array;
  });
}

int64_t points_of(const Kernel& kernel, const std::vector<int>& vars) {
  int64_t points = 1;
  for (int v : vars) points *= kernel.vars[static_cast<size_t>(v)].extent;
  return points;
}

/// What it takes to run a nest row by row, with the vector loop over columns inside of all others:
/// it walks along memory then rather than down, and routines are called on whole rows, but each
/// column has accumulators in memory.
struct Turned {
  bool possible = true;
  bool gains = false;        ///< rows that lie far apart are read, or routines want whole rows
  int64_t accumulators = 0;  ///< bytes for each column
  std::vector<int> rows;     ///< all other loops, those that are reduced last
};

Turned turned(const Kernel& kernel, const Loop& nest, int columns) {
  Turned made{.rows = nest_of(nest)};
  std::stable_partition(made.rows.begin(), made.rows.end(),
                        [&](int v) { return !is_reduced(kernel, v); });
  for (size_t k : placed_in(nest.body)) {
    const Placed& p = kernel.placed[k];
    const ir::Statement& s = p.statement;
    const bool too_long =
        s.reduction && ir::needs_levels(s) && points_of(kernel, made.rows) > kPlainSum;
    if (s.repeated() || axis_of(p, columns) < 0 || too_long ||
        (s.reduction && (s.reduction->scan || ir::finds_place(s.reduction->op))))
      made.possible = false;
    if (s.reduction) made.accumulators += static_cast<int64_t>(c10::elementSize(s.reduction->type));
    made.gains = made.gains || calls_arrays(s);
    for (int row : made.rows) {
      const int a = axis_of(p, row);
      if (a < 0) made.possible = false;
      for (const ir::Access& load : s.loads)
        made.gains =
            made.gains || (a >= 0 && std::abs(load.strides[static_cast<size_t>(a)]) *
                                             static_cast<int64_t>(c10::elementSize(load.dtype)) >=
                                         kApartBytes);
    }
  }
  return made;
}

/// Of tiles that are nests of loops inside the vector loop: turns each of them. Accumulators have
/// to stay in the first cache, and what one nest leaves to the next in the second.
void rows_outside(Kernel& kernel, const ir::Target& target) {
  Loop& outer = *kernel.body.front().loop;
  // Without other tiles the vector loop itself is what threads share.
  if (kernel.range.empty()) return;
  const int columns = outer.var;
  std::vector<Turned> nests;
  bool gains = false;
  int64_t accumulators = 0, passed = 0;
  for (const TreeNode& node : outer.body) {
    if (!node.loop || is_step(kernel, *node.loop)) return;
    const Turned& nest = nests.emplace_back(turned(kernel, *node.loop, columns));
    if (!nest.possible) return;
    gains = gains || nest.gains;
    accumulators = std::max(accumulators, nest.accumulators);
    for (size_t k : placed_in(node.loop->body))
      if (const ir::Statement& t = kernel.placed[k].statement; !t.reduction)
        passed +=
            points_of(kernel, nest.rows) * static_cast<int64_t>(c10::elementSize(t.store.dtype));
  }
  if (accumulators == 0 || !gains) return;
  int64_t most = target.first_cache_bytes / 2 / accumulators,
          extent = kernel.vars[static_cast<size_t>(columns)].extent;
  if (nests.size() > 1)
    most = std::min(most, target.second_cache_bytes / 2 / std::max<int64_t>(passed, 1));
  const int64_t chunk = largest_divisor(extent, std::min(most, extent));
  if (chunk < 4 * target.lanes) return;
  if (chunk < extent) kernel.range.push_back(split_variable(kernel, columns, chunk));
  std::vector<TreeNode> bodies = std::move(outer.body);
  kernel.body.clear();
  for (size_t n = 0; n < nests.size(); ++n) {
    int inner = columns;
    if (n > 0) {
      inner = static_cast<int>(kernel.vars.size());
      kernel.vars.push_back(kernel.vars[static_cast<size_t>(columns)]);
      for (size_t k : placed_in(bodies[n].loop->body))
        std::replace(kernel.placed[k].axis_var.begin(), kernel.placed[k].axis_var.end(), columns,
                     inner);
    }
    auto loop = std::make_unique<Loop>(Loop{inner, {}});
    loop->body.push_back(std::move(bodies[n]));
    nests[n].rows.push_back(inner);
    reorder(*loop, nests[n].rows);
    kernel.body.push_back({std::move(loop), -1});
  }
}

void choose_vector(Kernel& kernel, const ir::Target& target, Decider& decider) {
  const std::vector<size_t> placed = placed_in(kernel.body);
  Choice outer = best_of(kernel, placed, kernel.range, target);
  const double inner = inner_cost(kernel, kernel.body, target);
  bool tiles = outer.at >= 0 && outer.cost < inner;
  const size_t way = decider.choose(tiles ? static_cast<size_t>(outer.at) + 1 : 0, [&] {
    return decision_of(kernel, placed, kernel.range, target,
                       {{"inside", inner * target.times.instruction}});
  });
  if (way > 0) {
    wrap(kernel, kernel.range[way - 1]);
    rows_outside(kernel, target);
  } else {
    vectorize_nests(kernel, kernel.body, target, decider);
  }
}

}  // namespace

void choose_vectors(Schedule& schedule, const Settings& settings, Decider& decider) {
  each_kernel(schedule, [&](Kernel& kernel) {
    if (!has_vector(kernel)) choose_vector(kernel, settings.target, decider);
  });
}

}  // namespace graft::passes
