#include "passes/vectors.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "ir/facts.h"
#include "passes/cost.h"
#include "passes/kernel_loops.h"
#include "passes/rewrite.h"
#include "passes/turn.h"

namespace graft::passes {

using ir::Kernel;
using ir::Loop;
using ir::LoopKind;
using ir::Placed;
using ir::Schedule;
using ir::TreeNode;

namespace {

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

/// The variables of the nest at `loop` that can be its vector loop: a scan runs in order.
std::vector<int> candidates_of(const Kernel& kernel, const Loop& loop) {
  std::vector<int> out;
  for (int v : nest_of(loop))
    if (!is_reduced_over(kernel, v, true)) out.push_back(v);
  return out;
}

/// The best of a nest's candidates; none where numbers one by one are faster than its vectors,
/// which have lanes to spare.
Choice best_inside(const Kernel& kernel, const std::vector<size_t>& placed,
                   const std::vector<int>& candidates, const ir::Target& target) {
  const Choice best = best_of(kernel, placed, candidates, target);
  if (best.at < 0) return best;
  const Placed& p = kernel.placed[placed.front()];
  const auto axis = static_cast<size_t>(axis_of(p, candidates[static_cast<size_t>(best.at)]));
  const bool is_slower = mean_extent(p.statement, axis) < target.lanes &&
                         cost_with(kernel, placed, -1, target) < best.cost;
  return is_slower ? Choice{} : best;
}

void vectorize_nests(Kernel& kernel, std::vector<TreeNode>& body, const ir::Target& target,
                     Decider& decider) {
  for (TreeNode& node : body) {
    if (!node.loop) continue;
    if (is_step(kernel, *node.loop)) {
      vectorize_nests(kernel, node.loop->body, target, decider);
      continue;
    }
    if (is_product_nest(kernel, *node.loop)) continue;
    std::vector<int> vars = nest_of(*node.loop), order,
                     candidates = candidates_of(kernel, *node.loop);
    std::vector<size_t> placed = placed_in(node.loop->body);
    Choice best = best_inside(kernel, placed, candidates, target);
    if (best.at < 0) continue;
    const int chosen = candidates[decider.choose(static_cast<size_t>(best.at), [&] {
      Decision decision = decision_of(kernel, placed, candidates, target);
      decision.about += " inside";
      return decision;
    })];
    kernel.vars[static_cast<size_t>(chosen)].kind = LoopKind::Vector;
    bool reduced = is_reduced_over(kernel, chosen);
    for (int v : vars)
      if (!is_reduced_over(kernel, v) && v != chosen) order.push_back(v);
    if (!reduced) order.push_back(chosen);
    for (int v : vars)
      if (is_reduced_over(kernel, v) && v != chosen) order.push_back(v);
    if (reduced) order.push_back(chosen);
    reorder(*node.loop, order);
  }
}

/// What starting the vector loop over `var` of a nest costs, each time that it is entered.
double starts(const Kernel& kernel, const std::vector<size_t>& placed, int var,
              const ir::Target& target) {
  const Placed& p = kernel.placed[placed.front()];
  const int axis = axis_of(p, var);
  const double entered = static_cast<double>(points(p.statement)) /
                         mean_extent(p.statement, static_cast<size_t>(axis));
  return entered * target.times.inner_loop / target.times.instruction;
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
      const std::vector<int> candidates = candidates_of(kernel, *node.loop);
      Choice best = best_inside(kernel, placed, candidates, target);
      sum += best.at >= 0 ? best.cost + starts(kernel, placed, candidates[best.at], target)
                          : cost_with(kernel, placed, -1, target);
    }
  }
  return sum;
}

/// Turns a tile of loops inside the vector loop where that gains. Accumulators have to stay in the
/// first cache, and what one nest leaves to the next in the second.
void rows_outside(Kernel& kernel, const Settings& settings) {
  const ir::Target& target = settings.target;
  // Without other tiles the vector loop itself is what threads share.
  if (kernel.range.empty()) return;
  const Turning made = turning(kernel);
  if (!made.possible || made.accumulators == 0 || (!made.far && !made.calls_arrays)) return;
  const int columns = kernel.body.front().loop->var;
  int64_t most = target.first_cache_bytes / 2 / made.accumulators,
          extent = kernel.vars[static_cast<size_t>(columns)].extent;
  if (made.nests > 1)
    most = std::min(most, target.second_cache_bytes / 2 / std::max<int64_t>(made.passed, 1));
  const int64_t chunk = even_part(extent, std::min(most, extent), settings);
  if (chunk < 4 * target.lanes) return;
  if (chunk < extent) kernel.range.push_back(split_variable(kernel, columns, chunk));
  turn(kernel);
}

/// A copy whose two sides lie side by side along different variables.
struct Transposition {
  int loaded = -1, stored = -1;  ///< the variable along which that side does
  bool operator==(const Transposition&) const = default;
};
std::optional<Transposition> transposition_of(const Kernel& kernel, const Placed& p,
                                              const ir::Target& target) {
  const ir::Statement& s = p.statement;
  if (!is_copy(s) || s.store.dtype != s.loads[0].dtype || !s.loads[0].indirect.empty()) return {};
  Transposition found;
  for (size_t a = 0; a < s.axes.size(); ++a) {
    const int64_t load = s.loads[0].strides[a], store = s.store.strides[a];
    if (s.axes[a] < target.lanes || !is_range(kernel, p.axis_var[a])) continue;
    if (load == 1 && store > ir::kInterleaved) found.loaded = p.axis_var[a];
    if (store == 1 && load > ir::kInterleaved) found.stored = p.axis_var[a];
  }
  return found.loaded >= 0 && found.stored >= 0 ? std::optional(found) : std::nullopt;
}

/// Rows of a transposed copy that a tile walks at a time: what it stores stays in reach of the TLB.
constexpr int64_t kTransposedRows = 256;

/// Copies whose sides lie along different variables walk one of them by lanes and the other inside,
/// for squares to be transposed.
bool transpose(Kernel& kernel, const Settings& settings) {
  const ir::Target& target = settings.target;
  std::optional<Transposition> found;
  for (size_t k = 0; k < kernel.placed.size(); ++k) {
    const std::optional<Transposition> one = transposition_of(kernel, kernel.placed[k], target);
    if (!one || (found && *found != *one)) return false;
    found = one;
  }
  if (!found || !std::all_of(kernel.body.begin(), kernel.body.end(),
                             [](const TreeNode& node) { return node.loop == nullptr; }))
    return false;
  const int inner = found->loaded;
  const auto size = [&](int v) -> int64_t& { return kernel.vars[static_cast<size_t>(v)].extent; };
  if (const int64_t rows = even_part(size(inner), kTransposedRows, settings);
      rows < size(inner) && rows >= target.lanes)
    kernel.range.push_back(split_variable(kernel, inner, rows));
  std::erase(kernel.range, inner);
  kernel.vars[static_cast<size_t>(inner)].kind = LoopKind::Serial;
  bool first = true;
  for (TreeNode& node : kernel.body) {
    Placed& p = kernel.placed[static_cast<size_t>(node.placed)];
    const int own = first ? inner : static_cast<int>(kernel.vars.size());
    if (!first) kernel.vars.push_back({size(inner), LoopKind::Serial});
    std::replace(p.axis_var.begin(), p.axis_var.end(), inner, own);
    first = false, p.transposed = true;
    auto loop = std::make_unique<Loop>(Loop{own, {}});
    loop->body.push_back(std::move(node));
    node = {std::move(loop), -1};
  }
  wrap(kernel, found->stored, settings);
  return true;
}

void choose_vector(Kernel& kernel, const Settings& settings, Decider& decider) {
  const ir::Target& target = settings.target;
  if (transpose(kernel, settings)) return;
  if (has_product(kernel)) return vectorize_nests(kernel, kernel.body, target, decider);
  const std::vector<size_t> placed = placed_in(kernel.body);
  Choice outer = best_of(kernel, placed, kernel.range, target);
  const double inner = inner_cost(kernel, kernel.body, target);
  bool tiles = outer.at >= 0 && outer.cost < inner;
  const size_t way = decider.choose(tiles ? static_cast<size_t>(outer.at) + 1 : 0, [&] {
    return decision_of(kernel, placed, kernel.range, target,
                       {{"inside", inner * target.times.instruction}});
  });
  if (way > 0) {
    wrap(kernel, kernel.range[way - 1], settings);
    rows_outside(kernel, settings);
  } else {
    vectorize_nests(kernel, kernel.body, target, decider);
  }
}

}  // namespace

double cost_with(const Kernel& kernel, const std::vector<size_t>& placed, int var,
                 const ir::Target& target, const std::vector<StagedRow>& staged) {
  double sum = 0;
  for (size_t k : placed) {
    const Placed& p = kernel.placed[k];
    sum += vector_cost(p.statement, axis_of(p, var), target, staged) / target.lanes *
           static_cast<double>(points(p.statement));
  }
  return sum;
}

double best_cost(const Kernel& kernel, const ir::Target& target) {
  const Choice outer = best_of(kernel, placed_in(kernel.body), kernel.range, target);
  const double inner = inner_cost(kernel, kernel.body, target);
  return outer.at >= 0 ? std::min(outer.cost, inner) : inner;
}

void choose_vectors(Schedule& schedule, const Settings& settings, Decider& decider) {
  each_kernel(schedule, [&](Kernel& kernel) {
    if (!has_vector(kernel)) choose_vector(kernel, settings, decider);
  });
}

}  // namespace graft::passes
