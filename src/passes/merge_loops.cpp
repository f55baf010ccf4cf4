#include "passes/merge_loops.h"

#include <algorithm>

#include "passes/kernel_loops.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Access;
using ir::Kernel;
using ir::LoopKind;
using ir::Placed;
using ir::Schedule;
using ir::Statement;
using ir::TreeNode;

namespace {

template <class Fn>
bool all_accesses(const Statement& s, Fn fn) {
  return fn(s.store) && std::all_of(s.loads.begin(), s.loads.end(), fn);
}

/// The two axes' indices as split_axis wrote them: high * extent + low.
class Split {
 public:
  Split(int high, int low, int64_t extent) : high_(high), low_(low), extent_(extent) {}

  bool is_used(const Statement& s) const {
    return std::any_of(s.expr.nodes.begin(), s.expr.nodes.end(),
                       [&](const ir::Node& n) { return is_sum(s.expr, n); });
  }
  bool is_sum(const ir::Expr& e, const ir::Node& n) const {
    return n.op == ir::Op::Add && is_scaled(e, n.in[0]) && is_axis(e, n.in[1], low_);
  }
  /// Does the statement use the indices so alone?
  bool fits(const Statement& s) const {
    const auto is_part = [&](ir::NodeId id) {
      return id >= 0 &&
             (is_axis(s.expr, id, high_) || is_axis(s.expr, id, low_) || is_scaled(s.expr, id));
    };
    if (is_part(s.value) || (s.reduction && is_part(s.reduction->input))) return false;
    const auto is_indexed = [&](const Access& x) {
      return std::any_of(x.indirect.begin(), x.indirect.end(),
                         [&](const ir::Indirect& i) { return is_part(i.index); });
    };
    if (is_indexed(s.store) || std::any_of(s.loads.begin(), s.loads.end(), is_indexed))
      return false;
    return std::all_of(s.expr.nodes.begin(), s.expr.nodes.end(), [&](const ir::Node& n) {
      return std::none_of(n.in.begin(), n.in.end(), is_part) || is_sum(s.expr, n) ||
             is_scaled(s.expr, n);
    });
  }

 private:
  static const ir::Node& at(const ir::Expr& e, ir::NodeId id) {
    return e.nodes[static_cast<size_t>(id)];
  }
  static bool is_axis(const ir::Expr& e, ir::NodeId id, int axis) {
    return at(e, id).op == ir::Op::Axis && at(e, id).payload == axis;
  }
  bool is_scaled(const ir::Expr& e, ir::NodeId id) const { return is_scaled(e, at(e, id)); }
  bool is_scaled(const ir::Expr& e, const ir::Node& n) const {
    return n.op == ir::Op::Mul && is_axis(e, n.in[0], high_) &&
           at(e, n.in[1]).op == ir::Op::Const && at(e, n.in[1]).payload == extent_;
  }

  int high_, low_;
  int64_t extent_;
};

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
    const Split split(a, b, extent);
    // Nodes and loads that the placed statement names keep their numbers.
    if (!split.fits(s) ||
        (split.is_used(s) && (p.quiet || p.needed >= 0 || p.outside || !p.ahead.empty())))
      return false;
    if (s.reduction) {
      if (s.reduction->axes[ua] != s.reduction->axes[ub] || s.reduction->scan) return false;
      if (ir::finds_place(s.reduction->op) && s.reduction->axes[ua] && b != a + 1) return false;
    }
    return all_accesses(s,
                        [&](const Access& x) { return x.strides[ua] == x.strides[ub] * extent; });
  });
}

void merge(Kernel& kernel, int u, int v) {
  const int64_t inner = kernel.vars[static_cast<size_t>(v)].extent;
  kernel.vars[static_cast<size_t>(v)].extent *= kernel.vars[static_cast<size_t>(u)].extent;
  kernel.vars[static_cast<size_t>(u)].extent = 1;
  for (Placed& p : kernel.placed) {
    int a = axis_of(p, u), b = axis_of(p, v);
    if (a < 0) continue;
    const Split split(a, b, inner);
    const bool is_used = split.is_used(p.statement);
    if (is_used)
      rebuild(p.statement, [&](ir::Expr& out, const ir::Node& node) {
        return split.is_sum(out, node) ? node.in[1] : out.add(node);
      });
    p.statement.axes[static_cast<size_t>(b)] = kernel.vars[static_cast<size_t>(v)].extent;
    drop_axis(p.statement, static_cast<size_t>(a));
    p.axis_var.erase(p.axis_var.begin() + a);
    if (is_used) compact(p.statement);
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

}  // namespace

void merge_serial_loops(Kernel& kernel) {
  coalesce_tree(kernel, kernel.body);
}

void merge_loops(Schedule& schedule) {
  each_kernel(schedule, [](Kernel& kernel) {
    coalesce_range(kernel);
    coalesce_tree(kernel, kernel.body);
  });
}

}  // namespace graft::passes
