#include "passes/lanes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "ir/facts.h"
#include "passes/chunks.h"
#include "passes/cost.h"
#include "passes/group.h"
#include "passes/kernel_loops.h"
#include "passes/rewrite.h"
#include "passes/staging.h"
#include "passes/touch.h"
#include "passes/turn.h"
#include "passes/vectors.h"

namespace graft::passes {

using ir::Kernel;
using ir::LoopKind;
using ir::Placed;
using ir::Statement;

namespace {

/// Iterations of a block: some lines of memory.
constexpr int64_t kBlock = 64;

class Lanes {
 public:
  Lanes(Kernel& kernel, ir::Schedule& schedule, std::vector<bool> local, const Settings& settings,
        Decider& decider)
      : kernel_(kernel),
        settings_(settings),
        decider_(decider),
        staging_(kernel, schedule, std::move(local), settings) {}

  /// Leaves the kernel as it is where that is cheaper.
  void run() {
    steps_ = has_steps(kernel_);
    if (has_vector(kernel_) || has_product(kernel_)) return;
    if (steps_ && to_chunks(kernel_, settings_)) return;
    std::vector<Way> ways{{}};  // first what `vectors` would choose
    const std::vector<int> range = kernel_.range;
    for (int v : range) {
      if (extent(v) < settings_.target.lanes / 2) continue;
      consider(v, {}, ways);
      if (const std::vector<int> inside = within_row(v); !inside.empty()) consider(v, inside, ways);
      for (int w : range)
        if (w != v) consider_blocks(v, w, ways);
    }
    if (ways.size() == 1) return;
    ways[0].cost = best_cost(kernel_, settings_.target) * idling(tiles());
    auto best = std::min_element(ways.begin(), ways.end(),
                                 [](const Way& a, const Way& b) { return a.cost < b.cost; }) -
                ways.begin();
    const Way& taken =
        ways[decider_.choose(static_cast<size_t>(best), [&] { return decision_of(ways); })];
    if (taken.var < 0) return;
    if (taken.block > 0 && taken.block < extent(taken.inside[0]))
      kernel_.range.push_back(split_variable(kernel_, taken.inside[0], taken.block));
    staging_.run(taken.var, taken.inside);
  }

 private:
  /// Tiles along a variable as lanes, and variables whose tiles become loops inside of a lane's.
  struct Way {
    int var = -1;
    std::vector<int> inside = {};
    int64_t block = 0;  ///< if not 0: so many iterations of the one inside at a time
    double cost = 0;
  };

  bool any(bool (*is)(const Statement&)) const {
    return std::any_of(kernel_.placed.begin(), kernel_.placed.end(),
                       [&](const Placed& p) { return is(p.statement); });
  }

  void consider(int var, const std::vector<int>& inside, std::vector<Way>& ways) {
    // Loops around a scan do not turn, and arrays of a few lanes cost a call each.
    if (!steps_ && any(calls_arrays) && any(scans)) return;
    const std::vector<int> range = kernel_.range;
    make_serial(kernel_, inside);
    const std::vector<Part> parts = staging_.parts_of(var);
    if (steps_ || rows_apart(parts))
      ways.push_back(
          {var, inside, 0, lane_cost(parts, var) * idling(tiles() / settings_.target.lanes)});
    for (int v : inside) kernel_.vars[static_cast<size_t>(v)].kind = LoopKind::Range;
    kernel_.range = range;
  }

  /// The variables of the tiles that walk within the rows along which `var` goes from one to the
  /// next, as those over the elements of small matrices. Empty: none do, or rows are long.
  std::vector<int> within_row(int var) const {
    std::vector<int> inside;
    int64_t points = 1;
    if (steps_ || any(calls_arrays)) return {};
    for (int v : kernel_.range) {
      if (v == var) continue;
      auto within = [&](const Placed& p, const ir::Access& x) {
        const int64_t row = stride_along(p, x, var);
        return row == 0 || std::abs(stride_along(p, x, v)) < std::abs(row);
      };
      if (!std::all_of(kernel_.placed.begin(), kernel_.placed.end(), [&](const Placed& p) {
            return axis_of(p, v) >= 0 && within(p, p.statement.store) &&
                   std::all_of(p.statement.loads.begin(), p.statement.loads.end(),
                               [&](const ir::Access& x) { return within(p, x); });
          }))
        continue;
      inside.push_back(v), points *= extent(v);
    }
    return points <= kLongestStaged ? inside : std::vector<int>();
  }

  /// Statements some of whose memory lies side by side along `var`, and some along `other`: a tile
  /// is a block of the latter's iterations, and what lies along them is staged.
  void consider_blocks(int var, int other, std::vector<Way>& ways) const {
    const ir::Target& target = settings_.target;
    if (steps_ || extent(var) < target.lanes || extent(other) < target.lanes) return;
    const int64_t block = even_part(extent(other), kBlock, settings_, target.lanes);
    if (block == 0 || any(calls_arrays) || !any([](const Statement& s) { return !is_copy(s); }) ||
        std::any_of(kernel_.body.begin(), kernel_.body.end(),
                    [](const ir::TreeNode& node) { return node.loop != nullptr; }))
      return;
    struct Row {
      int64_t first = INT64_MAX, last = INT64_MIN;
      double rows = 0;
      c10::ScalarType dtype = c10::ScalarType::Float;
      bool fits = true;
    };
    std::map<StagedRow, Row> rows_of;
    std::set<int> stored;
    std::map<int, int> strides;  // of each storage, how many
    double sum = 0;
    for (const Placed& p : kernel_.placed) {
      if (axis_of(p, var) < 0 || axis_of(p, other) < 0) return;
      auto count = [&](const ir::Access& x, bool store) {
        const int64_t apart = stride_along(p, x, var);
        const bool fits =
            stride_along(p, x, other) == 1 && x.indirect.empty() && apart > ir::kInterleaved;
        Row& row = rows_of[{x.storage, apart}];
        row.fits = row.fits && fits, row.dtype = x.dtype;
        if (store) stored.insert(x.storage);
        double rows = 1 / static_cast<double>(block);
        for (size_t a = 0; a < x.strides.size(); ++a)
          if (x.strides[a] != 0) rows *= static_cast<double>(p.statement.axes[a]);
        row.first = std::min(row.first, x.offset), row.last = std::max(row.last, x.offset);
        row.rows = std::max(row.rows, rows);
      };
      count(p.statement.store, true);
      for (const ir::Access& x : p.statement.loads) count(x, false);
    }
    for (const auto& [of, row] : rows_of) ++strides[of.first];
    std::vector<StagedRow> staged;
    for (const auto& [of, row] : rows_of) {
      // What is stored to must be alike in all accesses.
      const bool writes = stored.contains(of.first);
      if (!row.fits || row.last - row.first >= (writes ? 1 : block) ||
          (writes && strides[of.first] > 1))
        continue;
      staged.push_back(of);
      sum += transposing_cost(block + row.last - row.first, row.dtype, target) * row.rows /
             target.lanes;
    }
    if (staged.empty()) return;
    sum += cost_with(kernel_, all(), var, target, staged);
    const double blocks = static_cast<double>(block) * target.lanes;
    ways.push_back({var, {other}, block, sum * idling(tiles() / blocks)});
  }

  Decision decision_of(const std::vector<Way>& ways) const {
    Decision decision;
    std::vector<const Statement*> statements;
    for (const Placed& p : kernel_.placed) statements.push_back(&p.statement);
    decision.about = stored_by(statements);
    for (const Way& way : ways) {
      std::string name = way.var < 0 ? "as it is" : "v" + std::to_string(way.var);
      const char* around = way.block > 0 ? " around blocks of v" : " around v";
      for (int v : way.inside) name += (v == way.inside[0] ? around : " v") + std::to_string(v);
      decision.ways.push_back({name, way.cost * settings_.target.times.instruction});
    }
    return decision;
  }

  /// All statements of the kernel.
  std::vector<size_t> all() const {
    std::vector<size_t> placed(kernel_.placed.size());
    std::iota(placed.begin(), placed.end(), 0);
    return placed;
  }

  double tiles() const {
    double all = 1;
    for (int v : kernel_.range) all *= static_cast<double>(extent(v));
    return all;
  }
  /// How much longer so few tiles take than as many as keep threads busy. (Steps have no more to
  /// share, whichever way they go.)
  double idling(double tiles) const {
    double all = 0;
    for (const Placed& p : kernel_.placed) all += static_cast<double>(points(p.statement));
    if (steps_ || all < kSmall) return 1;
    return std::max(1.0, kEnough / std::max(tiles, 1.0));
  }

  int64_t extent(int var) const { return kernel_.vars[static_cast<size_t>(var)].extent; }

  /// Is there a row for each lane, whose elements do not lie beside those of other lanes?
  bool rows_apart(const std::vector<Part>& parts) const {
    const int64_t longest = any(scans) ? kLongestScanned : kLongestStaged;
    return std::any_of(parts.begin(), parts.end(), [&](const Part& part) {
      return part.lane_stride > ir::kInterleaved && part.count > 1 && part.count <= longest;
    });
  }

  /// With tiles as lanes, in instructions.
  double lane_cost(const std::vector<Part>& parts, int var) const {
    const ir::Target& target = settings_.target;
    int64_t bytes = 0;
    std::vector<StagedRow> staged;
    for (const Part& part : parts) staged.emplace_back(part.storage, part.lane_stride);
    double sum = cost_with(kernel_, all(), var, target, staged);
    for (const Part& part : parts) {
      const bool squares = part.gap == 1 && extent(var) >= target.lanes;
      const double copy = squares ? transposing_cost(part.count, part.dtype, target)
                                  : kGathered * target.lanes * static_cast<double>(part.count);
      sum += (part.copied_in + part.copied_out) * copy * tiles() / target.lanes;
      bytes += part.bytes(target.lanes);
    }
    return bytes > target.first_cache_bytes ? sum * target.times.second_cache : sum;
  }

  Kernel& kernel_;
  const Settings& settings_;
  Decider& decider_;
  Staging staging_;
  bool steps_ = false;  ///< there are loops over steps
};

}  // namespace

void to_lanes(ir::Schedule& schedule, const Settings& settings, Decider& decider) {
  std::vector<int> owner = local_temporaries(schedule);
  each_kernel(schedule, [&](Kernel& kernel, int step) {
    Lanes(kernel, schedule, owned_by(owner, step), settings, decider).run();
  });
}

}  // namespace graft::passes
