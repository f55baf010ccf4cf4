#include "passes/kernel_loops.h"

#include <algorithm>
#include <memory>

#include "ir/touch.h"
#include "passes/group.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Access;
using ir::Kernel;
using ir::Loop;
using ir::LoopKind;
using ir::Placed;
using ir::TreeNode;

namespace {

/// Tiles below which a wrapped vector loop is cut into more of them: of a small kernel, and of
/// others, of whose tiles each of many threads is to have several.
constexpr int64_t kFewTiles = 8, kManyTiles = 4 * kEnough;

/// Cuts the wrapped vector variable in two when the other tiles are too few to share between
/// threads.
void split_wrapped(Kernel& kernel, int var, const Settings& settings) {
  int64_t tiles = 1, extent = kernel.vars[static_cast<size_t>(var)].extent;
  for (int v : kernel.range) tiles *= kernel.vars[static_cast<size_t>(v)].extent;
  if (kernel.range.empty() || tiles >= (tiles * extent > kSmall ? kManyTiles : kFewTiles)) return;
  int64_t inner = even_part(extent, std::min<int64_t>(1024, extent / 2), settings, 64);
  if (inner == 0) return;
  kernel.range.push_back(split_variable(kernel, var, inner));
}

}  // namespace

int axis_of(const Placed& p, int var) {
  for (size_t a = 0; a < p.axis_var.size(); ++a)
    if (p.axis_var[a] == var) return static_cast<int>(a);
  return -1;
}

bool is_range(const Kernel& kernel, int var) {
  return kernel.vars[static_cast<size_t>(var)].kind == LoopKind::Range;
}

bool is_step(const Kernel& kernel, const Loop& loop) {
  return kernel.vars[static_cast<size_t>(loop.var)].kind == LoopKind::Step;
}

bool has_steps(const Kernel& kernel) {
  return std::any_of(kernel.vars.begin(), kernel.vars.end(),
                     [](const ir::Variable& v) { return v.kind == LoopKind::Step; });
}

bool has_vector(const Kernel& kernel) {
  return std::any_of(kernel.vars.begin(), kernel.vars.end(),
                     [](const ir::Variable& v) { return v.kind == LoopKind::Vector; });
}

bool is_product_nest(const Kernel& kernel, const Loop& loop) {
  bool product = false;
  ir::each_placed(loop.body, [&](size_t k) { product = product || kernel.placed[k].product; });
  return product;
}

bool has_product(const Kernel& kernel) {
  return std::any_of(kernel.placed.begin(), kernel.placed.end(),
                     [](const Placed& p) { return p.product; });
}

std::vector<int64_t> tile_strides(const Kernel& kernel, const Placed& p, const Access& x) {
  std::vector<int64_t> strides(kernel.vars.size(), 0);
  for (size_t a = 0; a < p.axis_var.size(); ++a)
    if (is_range(kernel, p.axis_var[a]))
      strides[static_cast<size_t>(p.axis_var[a])] += x.strides[a];
  return strides;
}

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

void make_serial(Kernel& kernel, const std::vector<int>& vars) {
  for (int v : vars) {
    std::erase(kernel.range, v);
    kernel.vars[static_cast<size_t>(v)].kind = LoopKind::Serial;
  }
}

void wrap(Kernel& kernel, int var, const Settings& settings) {
  kernel.range.erase(std::find(kernel.range.begin(), kernel.range.end(), var));
  kernel.vars[static_cast<size_t>(var)].kind = LoopKind::Vector;
  split_wrapped(kernel, var, settings);
  std::vector<TreeNode> inner = std::move(kernel.body);
  kernel.body.clear();
  kernel.body.push_back({std::make_unique<Loop>(Loop{var, std::move(inner)}), -1});
}

TreeNode nested(const std::vector<int>& vars, TreeNode node) {
  for (size_t v = vars.size(); v-- > 0;) {
    auto loop = std::make_unique<Loop>(Loop{vars[v], {}});
    loop->body.push_back(std::move(node));
    node = {std::move(loop), -1};
  }
  return node;
}

Position position_of(Kernel& kernel, int outer, size_t placed) {
  std::vector<TreeNode>* body = &kernel.body;
  for (TreeNode& node : kernel.body)
    if (node.loop && node.loop->var == outer) body = &node.loop->body;
  const auto at = std::find_if(body->begin(), body->end(), [&](const TreeNode& node) {
    bool there = false;
    if (node.loop)
      ir::each_placed(node.loop->body, [&](size_t k) { there = there || k == placed; });
    return there;
  });
  return {*body, at - body->begin()};
}

void add_scratch(Kernel& kernel, int storage, int64_t bytes, int vectors) {
  constexpr int64_t kAlign = 64;
  kernel.scratch.push_back({storage, kernel.scratch_bytes, bytes, vectors});
  kernel.scratch_bytes += (bytes + kAlign - 1) / kAlign * kAlign;
}

std::vector<int> nest_of(const Loop& loop) {
  std::vector<int> vars{loop.var};
  const Loop* at = &loop;
  while (at->body.size() == 1 && at->body[0].loop)
    vars.push_back((at = at->body[0].loop.get())->var);
  return vars;
}

void reorder(Loop& loop, const std::vector<int>& order) {
  Loop* at = &loop;
  for (int v : order) {
    at->var = v;
    if (at->body.size() == 1 && at->body[0].loop) at = at->body[0].loop.get();
  }
}

bool is_reduced_over(const Kernel& kernel, int var, bool scan_only) {
  return std::any_of(kernel.placed.begin(), kernel.placed.end(), [&](const Placed& p) {
    int a = axis_of(p, var);
    return a >= 0 && p.statement.reduction && p.statement.reduction->axes[static_cast<size_t>(a)] &&
           (!scan_only || p.statement.reduction->scan);
  });
}

}  // namespace graft::passes
