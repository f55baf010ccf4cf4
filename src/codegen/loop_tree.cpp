#include "codegen/loop_tree.h"

#include <algorithm>
#include <stdexcept>

namespace graft::codegen {

namespace {

class LoopTreeBuilder {
 public:
  LoopTreeBuilder(const ir::Kernel& kernel, const Layout& layout, KernelPlan& plan)
      : kernel_(kernel), layout_(layout), plan_(plan) {}

  void run() {
    plan_.loops.emplace_back();
    plan_.statements.resize(kernel_.placed.size());
    if (layout_.range == RangeKind::Flattened) plan_.root = add(-1, 0);
    body(kernel_.body, plan_.root, false);
    for (size_t p = 0; p < kernel_.placed.size(); ++p) statement(static_cast<int>(p));
  }

 private:
  LoopPlan& loop(int l) { return plan_.loops[static_cast<size_t>(l)]; }

  int add(int var, int parent) {
    LoopPlan made;
    made.var = var;
    made.parent = parent;
    made.depth = loop(parent).depth + 1;
    plan_.loops.push_back(made);
    int self = static_cast<int>(plan_.loops.size() - 1);
    loop(parent).items.push_back({self, -1});
    loop(parent).nested = true;
    return self;
  }

  void body(const std::vector<ir::TreeNode>& nodes, int parent, bool in_lanes) {
    for (const ir::TreeNode& node : nodes) {
      if (!node.loop) {
        loop(parent).items.push_back({-1, node.placed});
        plan_.statements[static_cast<size_t>(node.placed)].loop = parent;
        continue;
      }
      if (const int product = product_in(*node.loop); product >= 0) {
        loop(parent).items.push_back({-1, product});
        plan_.statements[static_cast<size_t>(product)].loop = parent;
        continue;
      }
      int var = node.loop->var;
      if (layout_.extent[static_cast<size_t>(var)] < 0) {
        body(node.loop->body, parent, in_lanes);
        continue;
      }
      int made = add(var, parent);
      bool vector = kernel_.vars[static_cast<size_t>(var)].kind == ir::LoopKind::Vector &&
                    !in_lanes && !scanned(node.loop->body, var);
      loop(made).vector = vector;
      body(node.loop->body, made, in_lanes || vector);
    }
  }

  /// The product whose nest begins there; -1: none does.
  int product_in(const ir::Loop& nest) const {
    const ir::Loop* at = &nest;
    while (at->body.size() == 1 && at->body[0].loop) at = at->body[0].loop.get();
    if (at->body.size() != 1) return -1;
    const int placed = at->body[0].placed;
    return kernel_.placed[static_cast<size_t>(placed)].product ? placed : -1;
  }

  bool scanned(const std::vector<ir::TreeNode>& nodes, int var) const {
    return std::any_of(nodes.begin(), nodes.end(), [&](const ir::TreeNode& node) {
      if (node.loop) return scanned(node.loop->body, var);
      const ir::Placed& placed = kernel_.placed[static_cast<size_t>(node.placed)];
      return placed.statement.reduction && placed.statement.reduction->scan &&
             reduces_over(placed, var);
    });
  }

  void statement(int p) {
    const ir::Placed& placed = kernel_.placed[static_cast<size_t>(p)];
    StatementPlan& plan = plan_.statements[static_cast<size_t>(p)];
    plan.finish_loop = plan.loop;
    if (placed.statement.reduction && !placed.product) reduction(p, placed, plan);
    int storage =
        layout_
            .accesses[static_cast<size_t>(layout_.statements[static_cast<size_t>(p)].store.access)]
            .storage;
    for (int l = plan.finish_loop; l >= 0; l = loop(l).parent)
      if (std::count(loop(l).stores.begin(), loop(l).stores.end(), storage) == 0)
        loop(l).stores.push_back(storage);
  }

  bool in_order(const ir::Placed& placed, int innermost) {
    int depth = 0;
    for (size_t a = 0; a < placed.axis_var.size(); ++a) {
      if (!placed.statement.reduction->axes[a]) continue;
      for (int l = innermost; loop(l).var >= 0; l = loop(l).parent) {
        if (loop(l).var != placed.axis_var[a]) continue;
        if (loop(l).depth < depth) return false;
        depth = loop(l).depth;
      }
    }
    return true;
  }

  void reduction(int p, const ir::Placed& placed, StatementPlan& plan) {
    plan.scan = placed.statement.reduction->scan;
    plan.in_order = in_order(placed, plan.loop);
    int vector = plan_.vector_loop(plan.loop), kept = -1;
    for (int l = plan.loop; loop(l).var >= 0; l = loop(l).parent) {
      if (reduces_over(placed, loop(l).var)) plan.reduce_loop = l;
    }
    for (int l = plan.loop; plan.reduce_loop >= 0 && l != plan.reduce_loop; l = loop(l).parent) {
      if (reduces_over(placed, loop(l).var)) continue;
      if (kept >= 0 || layout_.statements[static_cast<size_t>(p)].array < 0)
        throw std::runtime_error("graft: kernel " + kernel_.name +
                                 ": a loop that is not reduced runs inside a reduction's loops");
      kept = l;
    }
    if (kept >= 0 && vector >= 0 && vector != kept)
      throw std::runtime_error("graft: kernel " + kernel_.name +
                               ": a reduction keeps one vector loop inside of another");
    if (kept >= 0)
      plan.accumulate = Accumulate::Array;
    else if (vector < 0)
      plan.accumulate = Accumulate::Scalar;
    else if (plan.reduce_loop >= 0 && plan_.encloses(plan.reduce_loop, vector))
      plan.accumulate = Accumulate::Lanes;
    else
      plan.accumulate = Accumulate::PerLane;
    if (plan.reduce_loop < 0) return;
    int outside = loop(plan.reduce_loop).parent;
    if (kept >= 0) {
      // There is one accumulator per value of the kept variable: a loop of their own sets them up,
      // and another stores the results.
      LoopPlan array;
      array.var = loop(kept).var;
      array.parent = outside;
      array.depth = loop(outside).depth + 1;
      array.vector = loop(kept).vector;
      plan_.loops.push_back(array);
      plan.array_loop = static_cast<int>(plan_.loops.size() - 1);
    }
    if (plan.scan) return;
    loop(plan.reduce_loop).finishes.push_back(p);
    plan.finish_loop = kept >= 0 ? plan.array_loop : outside;
  }

  const ir::Kernel& kernel_;
  const Layout& layout_;
  KernelPlan& plan_;
};

}  // namespace

void build_loop_tree(const ir::Kernel& kernel, const Layout& layout, KernelPlan& plan) {
  LoopTreeBuilder(kernel, layout, plan).run();
}

}  // namespace graft::codegen
