#include "support/kernel_run.h"

#include "support/statement_run.h"

namespace graft::test {

namespace {

bool reduces(const ir::Placed& placed, int var) {
  if (!placed.statement.reduction) return false;
  for (size_t a = 0; a < placed.axis_var.size(); ++a)
    if (placed.axis_var[a] == var && placed.statement.reduction->axes[a]) return true;
  return false;
}

/// One range iteration.
class KernelRun {
 public:
  KernelRun(const ir::Kernel& kernel, const Memory& memory, std::vector<int64_t> vars)
      : kernel_(kernel), vars_(std::move(vars)) {
    for (const ir::Placed& placed : kernel.placed) runs_.emplace_back(placed.statement, memory);
  }

  void run() { walk(kernel_.body); }

 private:
  /// Gives the statements met, those of loops inside included.
  std::vector<int> walk(const std::vector<ir::TreeNode>& body) {
    std::vector<int> met;
    for (const ir::TreeNode& node : body) {
      if (!node.loop) {
        visit(node.placed);
        met.push_back(node.placed);
        continue;
      }
      std::vector<int> inside = loop(*node.loop);
      met.insert(met.end(), inside.begin(), inside.end());
    }
    return met;
  }

  std::vector<int> loop(const ir::Loop& loop) {
    std::vector<int> inside;
    open_.push_back(loop.var);
    const ir::Variable& var = kernel_.vars.at(static_cast<size_t>(loop.var));
    int64_t extent = var.extent;
    if (var.step >= 0) extent += var.growth * vars_.at(static_cast<size_t>(var.step));
    for (int64_t i = 0; i < extent; ++i) {
      vars_[static_cast<size_t>(loop.var)] = i;
      inside = walk(loop.body);
    }
    vars_[static_cast<size_t>(loop.var)] = 0;
    open_.pop_back();
    // A reduction is finished where the outermost loop of its reduced variables ends.
    for (int placed : inside) {
      const ir::Placed& p = kernel_.placed[static_cast<size_t>(placed)];
      bool outer = false;
      for (int var : open_) outer = outer || reduces(p, var);
      if (!outer && reduces(p, loop.var)) runs_[static_cast<size_t>(placed)].finish();
    }
    return inside;
  }

  void visit(int placed) {
    std::vector<int64_t> at;
    for (int var : kernel_.placed.at(static_cast<size_t>(placed)).axis_var)
      at.push_back(vars_.at(static_cast<size_t>(var)));
    runs_[static_cast<size_t>(placed)].visit(at);
  }

  const ir::Kernel& kernel_;
  std::vector<int64_t> vars_;  ///< value of each variable now
  std::vector<int> open_;      ///< variables of the loops around the place being run
  std::vector<StatementRun> runs_;
};

}  // namespace

bool next(std::vector<int64_t>& at, const std::vector<int64_t>& extents) {
  for (size_t a = at.size(); a-- > 0;) {
    if (++at[a] < extents[a]) return true;
    at[a] = 0;
  }
  return false;
}

void run_kernel(const ir::Kernel& kernel, Memory& memory) {
  std::vector<int64_t> extents;
  for (int var : kernel.range) extents.push_back(kernel.vars.at(static_cast<size_t>(var)).extent);
  std::vector<int64_t> index(extents.size(), 0);
  do {
    for (const ir::Scratch& scratch : kernel.scratch) {
      int64_t bytes = scratch.bytes;
      // Lanes run one after the other here, so they may lie in each other's places.
      if (scratch.vectors)
        for (const ir::Variable& v : kernel.vars)
          if (v.kind == ir::LoopKind::Vector) bytes += v.extent * 8;
      memory.renew(scratch.storage, bytes);
    }
    std::vector<int64_t> vars(kernel.vars.size(), 0);
    for (size_t k = 0; k < index.size(); ++k) vars[static_cast<size_t>(kernel.range[k])] = index[k];
    KernelRun(kernel, memory, std::move(vars)).run();
  } while (next(index, extents));
}

}  // namespace graft::test
