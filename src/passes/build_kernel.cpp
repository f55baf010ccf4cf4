#include "passes/build_kernel.h"

#include <algorithm>
#include <map>

#include "ir/overlap.h"
#include "ir/product.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Access;
using ir::Kernel;
using ir::Loop;
using ir::LoopKind;
using ir::Placed;
using ir::PointMap;
using ir::Statement;
using ir::TreeNode;

namespace {

/// Statements that share all their inner loops, in order.
struct Run {
  int repeat = -1;        ///< that it is in the body of
  std::vector<int> vars;  ///< inner variables, outermost first
  std::vector<int> placed;
};

/// Where an access goes, as strides by variable: equal keys in one iteration, equal places.
std::map<int, int64_t> by_variable(const Access& access, const Placed& p) {
  std::map<int, int64_t> strides;
  for (size_t a = 0; a < p.axis_var.size(); ++a)
    if (access.strides[a] != 0) strides[p.axis_var[a]] += access.strides[a];
  return strides;
}
bool same_place(const Access& x, const Placed& px, const Access& y, const Placed& py) {
  return x.storage == y.storage && x.dtype == y.dtype && x.offset == y.offset &&
         x.indirect.empty() && y.indirect.empty() && by_variable(x, px) == by_variable(y, py);
}

class Builder {
 public:
  Builder(const Group& group, const std::vector<bool>& local) : group_(group), local_(local) {}

  Kernel build() {
    for (int64_t extent : group_.outer) {
      kernel_.range.push_back(static_cast<int>(kernel_.vars.size()));
      kernel_.vars.push_back({extent, LoopKind::Range});
    }
    for (size_t m = 0; m < group_.members.size(); ++m) place(m);
    for (Run& run : runs_) forward(run);
    drop_removed();
    int open = -1;
    std::vector<TreeNode>* body = &kernel_.body;
    for (Run& run : runs_) {
      if (run.repeat != open) {
        open = run.repeat;
        body = &kernel_.body;
        if (open >= 0) body = &nest(*body, step_var_[open]);
      }
      emit(run, *body);
    }
    return std::move(kernel_);
  }

 private:
  void place(size_t m) {
    const Statement& t = group_.members[m];
    Placed placed{t, std::vector<int>(t.axes.size(), -1)};
    placed.statement.after = -1;  // it has its place now
    for (size_t o = 0; o < group_.outer.size(); ++o)
      if (group_.outer_axis[m][o] != kNoAxis)
        placed.axis_var[group_.outer_axis[m][o]] = kernel_.range[o];
    int repeat = group_.repeat[m], step = repeat < 0 ? -1 : step_of(repeat, t);
    if (step >= 0) placed.axis_var[0] = step;
    std::vector<size_t> inner;
    for (size_t a = 0; a < t.axes.size(); ++a)
      if (placed.axis_var[a] < 0) inner.push_back(a);
    if (runs_.empty() || runs_.back().repeat != repeat || !match(runs_.back(), t, inner, placed)) {
      Run run;
      run.repeat = repeat;
      for (size_t a : inner) {
        placed.axis_var[a] = static_cast<int>(kernel_.vars.size());
        run.vars.push_back(placed.axis_var[a]);
        int64_t growth = step < 0 ? 0 : t.growth[a];
        kernel_.vars.push_back({t.axes[a], LoopKind::Serial, growth, growth == 0 ? -1 : step});
      }
      runs_.push_back(std::move(run));
    }
    runs_.back().placed.push_back(static_cast<int>(kernel_.placed.size()));
    kernel_.placed.push_back(std::move(placed));
  }

  int step_of(int repeat, const Statement& t) {
    auto [at, is_new] = step_var_.try_emplace(repeat, static_cast<int>(kernel_.vars.size()));
    if (is_new) kernel_.vars.push_back({t.axes[0], LoopKind::Step});
    return at->second;
  }

  /// Can `t` run in the run's loops, iteration by iteration? Then its inner axes get the run's
  /// variables.
  bool match(const Run& run, const Statement& t, const std::vector<size_t>& inner, Placed& placed) {
    if (run.vars.size() != inner.size()) return false;
    // A product is a routine's call.
    const auto& first = kernel_.placed[static_cast<size_t>(run.placed.front())].statement;
    if (ir::is_product(t) || ir::is_product(first)) return false;
    std::vector<int> axis_var = placed.axis_var;
    std::vector<bool> used(run.vars.size(), false);
    for (size_t a : inner) {
      size_t v = 0;
      while (v < run.vars.size() && (used[v] || !fits(run, run.vars[v], t, a))) ++v;
      if (v == run.vars.size()) return false;
      used[v] = true;
      axis_var[a] = run.vars[v];
    }
    if (!same_reduced(run, t, axis_var)) return false;
    placed.axis_var = std::move(axis_var);
    return true;
  }

  static std::vector<int> reduced_vars(const Statement& s, const std::vector<int>& axis_var) {
    std::vector<int> vars;
    for (size_t a = 0; s.reduction && a < axis_var.size(); ++a)
      if (s.reduction->axes[a]) vars.push_back(axis_var[a]);
    std::sort(vars.begin(), vars.end());
    return vars;
  }

  /// Reductions of one run reduce the same loops, so that all of them can be the innermost ones.
  bool same_reduced(const Run& run, const Statement& t, const std::vector<int>& axis_var) const {
    if (!t.reduction) return true;
    return std::all_of(run.placed.begin(), run.placed.end(), [&](int k) {
      const Placed& p = kernel_.placed[static_cast<size_t>(k)];
      return !p.statement.reduction ||
             reduced_vars(p.statement, p.axis_var) == reduced_vars(t, axis_var);
    });
  }

  bool fits(const Run& run, int var, const Statement& t, size_t axis) {
    const ir::Variable& v = kernel_.vars[static_cast<size_t>(var)];
    if (v.extent != t.axes[axis] || v.growth != (t.repeated() ? t.growth[axis] : 0)) return false;
    for (int k : run.placed) {
      const Placed& p = kernel_.placed[static_cast<size_t>(k)];
      const Statement& s = p.statement;
      size_t own = static_cast<size_t>(std::find(p.axis_var.begin(), p.axis_var.end(), var) -
                                       p.axis_var.begin());
      auto apart = [&](const Access& x, const Access& y) {
        return apart_in_step(x, s, own, y, t, axis);
      };
      // A scan's running store and a reduction both need the loop's order, which merging keeps;
      // what may not be merged is a reader of another iteration's result.
      if (meet_in_step(s.store, s, t.store, t) && !apart(s.store, t.store)) return false;
      for (const Access& load : t.loads)
        if (meet_in_step(s.store, s, load, t) && !apart(s.store, load)) return false;
      for (const Access& load : s.loads)
        if (meet_in_step(t.store, t, load, s) && !apart(load, t.store)) return false;
      bool s_reduces = s.reduction && s.reduction->axes[own],
           t_reduces = t.reduction && t.reduction->axes[axis];
      if ((s_reduces && s.reduction->scan) != (t_reduces && t.reduction->scan)) return false;
    }
    return true;
  }

  /// Lets later statements of the run compute with the value itself where a temporary only passed
  /// it on; code generation computes equal expressions of one loop once.
  void forward(Run& run) {
    for (size_t k = 0; k < run.placed.size(); ++k) {
      Placed& producer = kernel_.placed[static_cast<size_t>(run.placed[k])];
      const Access store = producer.statement.store;
      if (!local_[static_cast<size_t>(store.storage)] || producer.statement.reduction) continue;
      if (!only_readers_follow(run, k, store)) continue;
      for (size_t j = k + 1; j < run.placed.size(); ++j) {
        Placed& reader = kernel_.placed[static_cast<size_t>(run.placed[j])];
        for (bool again = true; again;) {
          again = false;
          for (size_t l = 0; l < reader.statement.loads.size() && !again; ++l)
            if (same_place(store, producer, reader.statement.loads[l], reader)) {
              substitute(reader.statement, l, producer.statement, identity(producer, reader));
              again = true;
            }
        }
      }
      removed_.push_back(run.placed[k]);
    }
  }

  /// Every other access of the storage in the kernel is a load at the same place, later in this
  /// run, and nothing in between writes what the producer reads.
  bool only_readers_follow(const Run& run, size_t k, const Access& store) {
    const Placed& producer = kernel_.placed[static_cast<size_t>(run.placed[k])];
    for (size_t q = 0; q < kernel_.placed.size(); ++q) {
      if (static_cast<int>(q) == run.placed[k] || is_removed(static_cast<int>(q))) continue;
      const Placed& other = kernel_.placed[q];
      if (other.statement.store.storage == store.storage) return false;
      auto position = std::find(run.placed.begin(), run.placed.end(), static_cast<int>(q));
      bool later = position != run.placed.end() &&
                   position - run.placed.begin() > static_cast<std::ptrdiff_t>(k);
      for (const Access& load : other.statement.loads)
        if (load.storage == store.storage && (!later || !same_place(store, producer, load, other)))
          return false;
      if (later)
        for (const Access& input : producer.statement.loads)
          if (may_touch(other.statement.store, other.statement, input, producer.statement))
            return false;
      if (later && other.statement.expr.nodes.size() + producer.statement.expr.nodes.size() > 400)
        return false;
    }
    for (const Access& input : producer.statement.loads)
      if (input.storage == store.storage) return false;
    return true;
  }

  static PointMap identity(const Placed& producer, const Placed& reader) {
    PointMap map;
    map.constant.assign(producer.axis_var.size(), 0);
    for (int p : producer.axis_var)
      for (int a : reader.axis_var) map.coefficients.push_back(p == a);
    return map;
  }

  bool is_removed(int placed) const {
    return std::find(removed_.begin(), removed_.end(), placed) != removed_.end();
  }

  void drop_removed() {
    std::vector<int> to(kernel_.placed.size(), -1);
    std::vector<Placed> kept;
    for (size_t k = 0; k < kernel_.placed.size(); ++k)
      if (!is_removed(static_cast<int>(k))) {
        to[k] = static_cast<int>(kept.size());
        kept.push_back(std::move(kernel_.placed[k]));
      }
    kernel_.placed = std::move(kept);
    for (Run& run : runs_) {
      std::vector<int> now;
      for (int k : run.placed)
        if (to[static_cast<size_t>(k)] >= 0) now.push_back(to[static_cast<size_t>(k)]);
      run.placed = std::move(now);
    }
    std::erase_if(runs_, [](const Run& run) { return run.placed.empty(); });
  }

  /// Kept variables outside, reduced ones inside: a reduction is then finished where its outermost
  /// reduced loop ends.
  void emit(const Run& run, std::vector<TreeNode>& where) {
    auto reduced = [&](int var) {
      return std::any_of(run.placed.begin(), run.placed.end(), [&](int k) {
        const Placed& p = kernel_.placed[static_cast<size_t>(k)];
        std::vector<int> vars = reduced_vars(p.statement, p.axis_var);
        return std::find(vars.begin(), vars.end(), var) != vars.end();
      });
    };
    std::vector<int> order;
    for (int v : run.vars)
      if (!reduced(v)) order.push_back(v);
    for (int v : run.vars)
      if (reduced(v)) order.push_back(v);
    std::vector<TreeNode>* body = &where;
    for (int v : order) body = &nest(*body, v);
    for (int k : run.placed) body->push_back({nullptr, k});
  }

  static std::vector<TreeNode>& nest(std::vector<TreeNode>& body, int var) {
    body.push_back({std::make_unique<Loop>(Loop{var, {}}), -1});
    return body.back().loop->body;
  }

  const Group& group_;
  const std::vector<bool>& local_;
  Kernel kernel_;
  std::vector<Run> runs_;
  std::vector<int> removed_;
  std::map<int, int> step_var_;  ///< per repeat: its variable
};

}  // namespace

Kernel build_kernel(const Group& group, const std::vector<bool>& local_temporary) {
  return Builder(group, local_temporary).build();
}

}  // namespace graft::passes
