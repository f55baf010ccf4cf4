#include "passes/chunks.h"

#include <algorithm>
#include <map>

#include "passes/group.h"
#include "passes/kernel_loops.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Access;
using ir::Kernel;
using ir::Loop;
using ir::LoopKind;
using ir::Placed;
using ir::TreeNode;

namespace {

constexpr int64_t kLongest = 1024;  ///< tiles of a chunk
constexpr int64_t kShortest = 32;   ///< likewise; shorter ones are not worth further threads

/// Statements and steps of statements: no loops of a tile's own.
bool only_steps(const Kernel& kernel) {
  return std::all_of(kernel.body.begin(), kernel.body.end(), [&](const TreeNode& node) {
    return !node.loop || (is_step(kernel, *node.loop) &&
                          std::none_of(node.loop->body.begin(), node.loop->body.end(),
                                       [](const TreeNode& n) { return n.loop != nullptr; }));
  });
}

/// Do lanes of the variable lie side by side in every access, or are one place that none of them
/// stores to?
bool side_by_side(const Kernel& kernel, int var) {
  return std::all_of(kernel.placed.begin(), kernel.placed.end(), [&](const Placed& p) {
    int axis = axis_of(p, var);
    if (axis < 0 || p.statement.reduction) return false;
    auto a = static_cast<size_t>(axis);
    const ir::Statement& t = p.statement;
    return t.store.strides[a] == 1 && !is_scattered(t, t.store, a) &&
           std::all_of(t.loads.begin(), t.loads.end(), [&](const Access& load) {
             return load.strides[a] == 0 || load.strides[a] == 1;
           });
  });
}

/// The longest part of the variable's extent that leaves what a step touches in the first cache,
/// and tiles for the threads.
int64_t chunk_of(const Kernel& kernel, int var, const Settings& settings) {
  std::map<int, int64_t> bytes;
  for (const Placed& p : kernel.placed) {
    auto count = [&](const Access& x) {
      bytes[x.storage] = static_cast<int64_t>(c10::elementSize(x.dtype));
    };
    count(p.statement.store);
    for (const Access& x : p.statement.loads) count(x);
  }
  int64_t each = 0, extent = kernel.vars[static_cast<size_t>(var)].extent;
  for (const auto& [storage, size] : bytes) each += size;
  int64_t points = 1;
  for (int v : kernel.range) points *= kernel.vars[static_cast<size_t>(v)].extent;
  int64_t shared = std::max(points / kEnough, kShortest),
          cached = settings.target.first_cache_bytes / 2 / std::max<int64_t>(each, 1);
  return even_part(extent, std::min({extent, kLongest, shared, cached}), settings);
}

class Chunker {
 public:
  Chunker(Kernel& kernel, int var) : kernel_(kernel), var_(var) {}

  void run(int64_t chunk) {
    auto at = std::find(kernel_.range.begin(), kernel_.range.end(), var_);
    if (chunk < extent())
      *at = split_variable(kernel_, var_, chunk);
    else
      kernel_.range.erase(at);
    kernel_.vars[static_cast<size_t>(var_)].kind = LoopKind::Vector;
    for (TreeNode& node : kernel_.body)
      if (node.loop) node.loop->body = in_loops(std::move(node.loop->body));
    kernel_.body = in_loops(std::move(kernel_.body));
  }

 private:
  int64_t extent() const { return kernel_.vars[static_cast<size_t>(var_)].extent; }

  /// Puts each run of statements into a vector loop of its own.
  std::vector<TreeNode> in_loops(std::vector<TreeNode> nodes) {
    std::vector<TreeNode> out;
    bool open = false;
    for (TreeNode& node : nodes) {
      if (node.loop) {
        out.push_back(std::move(node));
        open = false;
        continue;
      }
      if (!open) out.push_back({std::make_unique<Loop>(Loop{next_variable(), {}}), -1});
      open = true;
      Loop& loop = *out.back().loop;
      Placed& p = kernel_.placed[static_cast<size_t>(node.placed)];
      std::replace(p.axis_var.begin(), p.axis_var.end(), var_, loop.var);
      loop.body.push_back(std::move(node));
    }
    return out;
  }

  int next_variable() {
    if (!used_) {
      used_ = true;
      return var_;
    }
    kernel_.vars.push_back(kernel_.vars[static_cast<size_t>(var_)]);
    return static_cast<int>(kernel_.vars.size() - 1);
  }

  Kernel& kernel_;
  int var_;
  bool used_ = false;
};

}  // namespace

bool to_chunks(Kernel& kernel, const Settings& settings) {
  if (!only_steps(kernel)) return false;
  int chosen = -1;
  int64_t longest = kShortest - 1;
  for (int v : kernel.range)
    if (side_by_side(kernel, v))
      if (int64_t chunk = chunk_of(kernel, v, settings); chunk > longest)
        chosen = v, longest = chunk;
  if (chosen < 0) return false;
  Chunker(kernel, chosen).run(longest);
  return true;
}

}  // namespace graft::passes
