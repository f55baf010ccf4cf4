#include "passes/ahead.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "ir/touch.h"
#include "passes/cost.h"
#include "passes/kernel_loops.h"

namespace graft::passes {

using ir::Access;
using ir::Kernel;
using ir::kStreamAhead;
using ir::LoopKind;
using ir::Placed;
using ir::TreeNode;

namespace {

constexpr int64_t kBytesAhead = 1024;  ///< of a row and those that follow
constexpr int64_t kFewestRows = 8;     ///< of a loop, for each that is asked for ahead

class Ahead {
 public:
  Ahead(Kernel& kernel, const ir::Schedule& schedule, const ir::Target& target)
      : kernel_(kernel), schedule_(schedule), target_(target) {
    for (int v : kernel.range)
      if (kernel.vars[static_cast<size_t>(v)].extent >= kFewestRows) row_ = v;
  }

  void run() { visit(kernel_.body, row_, -1); }

 private:
  /// `row`: the loop around, whose later iterations are fetched; `vector`: the innermost loop, if
  /// it is a vector loop.
  void visit(const std::vector<TreeNode>& body, int row, int vector) {
    for (const TreeNode& node : body) {
      if (!node.loop) {
        statement(kernel_.placed[static_cast<size_t>(node.placed)], row, vector);
        continue;
      }
      const int var = node.loop->var;
      if (kernel_.vars[static_cast<size_t>(var)].kind == LoopKind::Vector)
        visit(node.loop->body, row, var);
      else  // inside of a vector loop it walks down, a line at a time
        visit(node.loop->body, vector >= 0 ? -1 : var, -1);
    }
  }

  void statement(Placed& p, int row, int vector) {
    for (size_t k = 0; vector >= 0 && k < p.statement.loads.size(); ++k) {
      const Access& load = p.statement.loads[k];
      const int along = axis_of(p, vector);
      if (along < 0 || load.strides[static_cast<size_t>(along)] != 1 || !is_far(load)) continue;
      if (row >= 0 && extent(row) >= kFewestRows && pays(p, load, row))
        p.ahead.push_back({static_cast<int>(k), row, iterations(load, row, vector)});
      else if (target_.times.unasked_stream > 1 && is_stream(p, load, vector))
        p.ahead.push_back(
            {static_cast<int>(k), vector, static_cast<int>(kStreamAhead / bytes_of(load))});
    }
    for (const Access& load : p.statement.loads) read_.emplace_back(load.storage, load.offset);
    stored_.push_back(p.statement.store.storage);
  }

  static int64_t bytes_of(const Access& load) {
    return static_cast<int64_t>(c10::elementSize(load.dtype));
  }
  int64_t extent(int v) const { return kernel_.vars[static_cast<size_t>(v)].extent; }

  /// Of loads side by side, and in rows `step` elements apart one behind the other (a stencil's),
  /// the last one asks.
  bool is_last(const Placed& p, const Access& load, int64_t step) const {
    return std::none_of(
        p.statement.loads.begin(), p.statement.loads.end(), [&](const Access& other) {
          return other.storage == load.storage && other.strides == load.strides &&
                 other.offset > load.offset &&
                 (other.offset - load.offset) % step * bytes_of(load) < target_.line_bytes;
        });
  }

  /// Does it walk through memory without a gap, wherever its rows end?
  bool is_stream(const Placed& p, const Access& load, int vector) const {
    int64_t run = extent(vector);
    for (bool longer = true; longer && run * bytes_of(load) < 2 * kStreamAhead;) {
      longer = false;
      for (size_t a = 0; a < load.strides.size() && !longer; ++a) {
        const int v = p.axis_var[a];
        longer = v >= 0 && load.strides[a] == run && extent(v) > 1;
        if (longer) run *= extent(v);
      }
    }
    return run * bytes_of(load) >= 2 * kStreamAhead &&
           is_last(p, load, std::numeric_limits<int64_t>::max());
  }

  /// Rows that are read while memory answers; few of those there are, as the last ones ask for what
  /// nobody reads.
  int iterations(const Access& load, int row, int vector) const {
    const int64_t bytes = extent(vector) * bytes_of(load);
    int count = 1;
    while (count * bytes < kBytesAhead && 2 * count * kFewestRows <= extent(row)) count *= 2;
    return count;
  }

  bool pays(const Placed& p, const Access& load, int row) const {
    const int down = axis_of(p, row);
    if (down < 0) return false;
    const int64_t step = std::abs(load.strides[static_cast<size_t>(down)]);
    return step * bytes_of(load) >= kApartBytes && is_last(p, load, step);
  }

  bool is_far(const Access& load) const {
    const ir::Storage& storage = schedule_.storages[static_cast<size_t>(load.storage)];
    return load.indirect.empty() && storage.bytes > target_.second_cache_bytes &&
           !is_scratch(kernel_, load.storage) && !is_near(load);
  }

  /// Has the tile touched it before? Then it is in the cache.
  bool is_near(const Access& load) const {
    return std::find(stored_.begin(), stored_.end(), load.storage) != stored_.end() ||
           std::find(read_.begin(), read_.end(), std::pair(load.storage, load.offset)) !=
               read_.end();
  }

  Kernel& kernel_;
  const ir::Schedule& schedule_;
  const ir::Target& target_;
  int row_ = -1;                               ///< the Range variable that varies fastest
  std::vector<std::pair<int, int64_t>> read_;  ///< storages and offsets, by statements before
  std::vector<int> stored_;
};

}  // namespace

void fetch_ahead(ir::Schedule& schedule, const Settings& settings) {
  each_kernel(schedule, [&](Kernel& kernel) {
    const bool rest =
        kernel.is_rest || std::any_of(kernel.placed.begin(), kernel.placed.end(),
                                      [](const Placed& p) { return p.statement.rest; });
    if (!rest) Ahead(kernel, schedule, settings.target).run();
  });
}

}  // namespace graft::passes
