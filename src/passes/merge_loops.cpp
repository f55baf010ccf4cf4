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
      if (ir::finds_place(s.reduction->op) && s.reduction->axes[ua] && b != a + 1) return false;
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
    drop_axis(p.statement, static_cast<size_t>(a));
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

}  // namespace

void merge_loops(Schedule& schedule) {
  each_kernel(schedule, [](Kernel& kernel) {
    coalesce_range(kernel);
    coalesce_tree(kernel, kernel.body);
  });
}

}  // namespace graft::passes
