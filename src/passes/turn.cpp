#include "passes/turn.h"

#include <algorithm>
#include <memory>

#include "ir/facts.h"
#include "passes/cost.h"
#include "passes/kernel_loops.h"

namespace graft::passes {

using ir::Kernel;
using ir::Loop;
using ir::Placed;
using ir::Statement;
using ir::TreeNode;

namespace {

constexpr int64_t kPlainSum = 1024;  ///< terms that may be added one by one

/// Rows far apart that a vector loop may read side by side: what fetches ahead follows each.
constexpr int64_t kStreams = 16;

int64_t bytes_of(const ir::Access& access) {
  return static_cast<int64_t>(c10::elementSize(access.dtype));
}

/// The loops of the nest, those that are reduced last.
std::vector<int> rows_of(const Kernel& kernel, const Loop& nest) {
  std::vector<int> rows = nest_of(nest);
  std::stable_partition(rows.begin(), rows.end(),
                        [&](int v) { return !is_reduced_over(kernel, v); });
  return rows;
}

/// Do the statement's extents stay the same from step to step?
bool keeps_extents(const Statement& s) {
  return std::all_of(s.growth.begin(), s.growth.end(), [](int64_t growth) { return growth == 0; });
}

class Look {
 public:
  Look(const Kernel& kernel, int columns) : kernel_(kernel), columns_(columns) {}

  Turning made;

  void body(const std::vector<TreeNode>& nodes) {
    for (const TreeNode& node : nodes) {
      if (node.loop && is_step(kernel_, *node.loop))
        body(node.loop->body);
      else if (node.loop)
        nest(*node.loop);
      else
        statement(node.placed, {});
    }
  }

 private:
  void nest(const Loop& loop) {
    ++made.nests;
    const std::vector<int> rows = rows_of(kernel_, loop);
    accumulators_ = 0;
    ir::each_placed(loop.body, [&](int k) { statement(k, rows); });
    made.accumulators = std::max(made.accumulators, accumulators_);
  }

  void statement(int k, const std::vector<int>& rows) {
    const Placed& p = kernel_.placed[static_cast<size_t>(k)];
    const Statement& s = p.statement;
    int64_t points = 1;
    for (int row : rows) points *= kernel_.vars[static_cast<size_t>(row)].extent;
    if (!keeps_extents(s) || axis_of(p, columns_) < 0) made.possible = false;
    if (s.reduction) {
      accumulators_ += static_cast<int64_t>(c10::elementSize(s.reduction->type));
      if (s.reduction->scan || ir::finds_place(s.reduction->op) ||
          (ir::needs_levels(s) && points > kPlainSum))
        made.possible = false;
    } else {
      made.passed += points * bytes_of(s.store);
    }
    if (rows.empty()) return;
    made.calls_arrays = made.calls_arrays || calls_arrays(s);
    for (int row : rows) {
      const int a = axis_of(p, row);
      if (a < 0) made.possible = false;
      if (kernel_.vars[static_cast<size_t>(row)].extent <= kStreams) continue;
      for (const ir::Access& load : s.loads)
        made.far = made.far ||
                   (a >= 0 &&
                    std::abs(load.strides[static_cast<size_t>(a)]) * bytes_of(load) >= kApartBytes);
    }
  }

  const Kernel& kernel_;
  const int columns_;
  int64_t accumulators_ = 0;  ///< of the nest that is looked at
};

class Turn {
 public:
  Turn(Kernel& kernel, int columns) : kernel_(kernel), columns_(columns) {}

  std::vector<TreeNode> body(std::vector<TreeNode> nodes) {
    std::vector<TreeNode> out;
    for (TreeNode& node : nodes) {
      if (node.loop && is_step(kernel_, *node.loop)) {
        node.loop->body = body(std::move(node.loop->body));
        out.push_back(std::move(node));
        continue;
      }
      std::vector<int> order;
      if (node.loop) order = rows_of(kernel_, *node.loop);
      auto loop = std::make_unique<Loop>();
      loop->body.push_back(std::move(node));
      loop->var = columns_of(loop->body);
      order.push_back(loop->var);
      reorder(*loop, order);
      out.push_back({std::move(loop), -1});
    }
    return out;
  }

 private:
  /// The vector loop's variable for another loop: itself for the first, a copy for others.
  int columns_of(const std::vector<TreeNode>& nodes) {
    if (!taken_) {
      taken_ = true;
      return columns_;
    }
    const int copy = static_cast<int>(kernel_.vars.size());
    kernel_.vars.push_back(kernel_.vars[static_cast<size_t>(columns_)]);
    ir::each_placed(nodes, [&](int k) {
      std::vector<int>& axes = kernel_.placed[static_cast<size_t>(k)].axis_var;
      std::replace(axes.begin(), axes.end(), columns_, copy);
    });
    return copy;
  }

  Kernel& kernel_;
  const int columns_;
  bool taken_ = false;
};

}  // namespace

bool calls_arrays(const Statement& s) {
  return std::any_of(s.expr.nodes.begin(), s.expr.nodes.end(), [](const ir::Node& node) {
    return node.op == ir::Op::Call &&
           info(static_cast<ir::Routine>(node.payload)).form == ir::RoutineForm::Array;
  });
}

Turning turning(const Kernel& kernel) {
  const Loop& outer = *kernel.body.front().loop;
  Look look(kernel, outer.var);
  look.body(outer.body);
  return look.made;
}

void turn(Kernel& kernel) {
  Loop& outer = *kernel.body.front().loop;
  const int columns = outer.var;
  std::vector<TreeNode> body = std::move(outer.body);
  kernel.body = Turn(kernel, columns).body(std::move(body));
}

}  // namespace graft::passes
