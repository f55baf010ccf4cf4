#include "passes/lanes.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "passes/chunks.h"
#include "passes/cost.h"
#include "passes/kernel_loops.h"
#include "passes/rewrite.h"
#include "passes/touch.h"
#include "passes/turn.h"

namespace graft::passes {

using ir::Access;
using ir::Kernel;
using ir::Loop;
using ir::LoopKind;
using ir::Placed;
using ir::Statement;
using ir::TreeNode;

namespace {

/// A storage whose part of each tile can lie in scratch, lanes side by side.
struct Part {
  int storage;
  c10::ScalarType dtype;
  int64_t lane_stride;
  int64_t first = INT64_MAX, gap = 0, count = 0;  ///< its elements in a tile: first + gap * k
  bool copied_in = false, copied_out = false;
  int64_t bytes(int64_t lanes) const {
    return count * lanes * static_cast<int64_t>(c10::elementSize(dtype));
  }
};

struct Use {
  const Access* access;
  const Placed* placed;
  bool store;
};

int64_t stride_along(const Placed& p, const Access& x, int var) {
  int a = axis_of(p, var);
  return a < 0 ? 0 : x.strides[static_cast<size_t>(a)];
}

bool outside_tile(const Kernel& kernel, int var, int lanes_var) {
  return var == lanes_var || kernel.vars[static_cast<size_t>(var)].kind == LoopKind::Range;
}

/// What the access touches within a tile.
Access within_tile(const Kernel& kernel, const Use& use, int var) {
  Access x = *use.access;
  for (size_t a = 0; a < x.strides.size(); ++a)
    if (outside_tile(kernel, use.placed->axis_var[a], var)) x.strides[a] = 0;
  return x;
}

/// Does some step before this kernel write the storage, or is it the caller's?
bool holds_data(const ir::Schedule& schedule, const Kernel& kernel, int storage) {
  ir::Role role = schedule.storages[static_cast<size_t>(storage)].role;
  if (ir::is_callers(role)) return true;
  bool written = false;
  for (const ir::Step& step : schedule.steps) {
    if (std::get_if<Kernel>(&step) == &kernel) break;
    ir::each_touch(step, [&](int touched, bool writes) {
      written = written || (writes && touched == storage);
    });
  }
  return written;
}

class Lanes {
 public:
  Lanes(Kernel& kernel, ir::Schedule& schedule, std::vector<bool> local, const Settings& settings,
        Decider& decider)
      : kernel_(kernel),
        schedule_(schedule),
        local_(std::move(local)),
        settings_(settings),
        decider_(decider) {}

  /// Leaves the kernel as it is where that is cheaper.
  void run() {
    bool steps = std::any_of(kernel_.vars.begin(), kernel_.vars.end(),
                             [](const ir::Variable& v) { return v.kind == LoopKind::Step; });
    if (!steps || has_product(kernel_) || to_chunks(kernel_, settings_)) return;
    // Either the loops inside (-1), or a variable of the tiles.
    std::vector<int> vars{-1};
    std::vector<double> costs{inner_cost()};
    for (int v : kernel_.range)
      if (extent(v) >= settings_.target.lanes / 2) vars.push_back(v), costs.push_back(lane_cost(v));
    auto best = std::min_element(costs.begin(), costs.end()) - costs.begin();
    const int chosen =
        vars[decider_.choose(static_cast<size_t>(best), [&] { return decision_of(vars, costs); })];
    if (chosen < 0) return;
    wrap(kernel_, chosen, settings_);
    std::vector<Part> parts = parts_of(chosen);
    int64_t bytes = 0;
    for (const Part& part : parts) bytes += part.bytes(settings_.target.lanes);
    // Two vectors hide each other's latency, where a step waits for the one before.
    if (2 * bytes <= settings_.target.second_cache_bytes / 8 &&
        extent(chosen) >= 4 * settings_.target.lanes)
      vectors_ = 2;
    if (prepare_turn(parts, chosen)) parts = parts_of(chosen);
    for (const Part& part : parts) move(part, chosen);
    if (turns()) return turn(kernel_);
    for (Placed& p : kernel_.placed) mark_transposed(p, chosen);
  }

 private:
  /// Routines that want whole arrays get them when the lanes are the innermost loop: then scratch
  /// has a place for all lanes of the tile, which may be cut for that. False where it cannot be.
  bool prepare_turn(const std::vector<Part>& parts, int var) {
    const Turning made = turning(kernel_);
    if (!made.possible || !made.calls_arrays) return false;
    int64_t bytes = made.accumulators;
    for (const Part& part : parts) bytes += part.bytes(1);
    const int64_t most = settings_.target.second_cache_bytes / 4 / std::max<int64_t>(bytes, 1),
                  chunk = even_part(extent(var), std::min(most, extent(var)), settings_);
    if (chunk < 4 * settings_.target.lanes) return false;
    if (chunk < extent(var)) kernel_.range.push_back(split_variable(kernel_, var, chunk));
    lanes_ = chunk;
    return true;
  }

  Decision decision_of(const std::vector<int>& vars, const std::vector<double>& costs) const {
    Decision decision;
    std::vector<const Statement*> statements;
    for (const Placed& p : kernel_.placed) statements.push_back(&p.statement);
    decision.about = stored_by(statements);
    for (size_t k = 0; k < vars.size(); ++k)
      decision.ways.push_back({vars[k] < 0 ? "inside" : "v" + std::to_string(vars[k]),
                               costs[k] * settings_.target.times.instruction});
    return decision;
  }

  int64_t extent(int var) const { return kernel_.vars[static_cast<size_t>(var)].extent; }

  std::vector<Use> uses_of(int storage) const {
    std::vector<Use> uses;
    for (const Placed& p : kernel_.placed) {
      if (p.statement.store.storage == storage) uses.push_back({&p.statement.store, &p, true});
      for (const Access& x : p.statement.loads)
        if (x.storage == storage) uses.push_back({&x, &p, false});
    }
    return uses;
  }

  std::vector<Part> parts_of(int var) const {
    std::vector<int> storages;
    for (const Placed& p : kernel_.placed) {
      auto add = [&](const Access& x) {
        if (std::find(storages.begin(), storages.end(), x.storage) == storages.end())
          storages.push_back(x.storage);
      };
      add(p.statement.store);
      for (const Access& x : p.statement.loads) add(x);
    }
    std::vector<Part> parts;
    int64_t bytes = 0;
    for (int storage : storages) {
      auto part = part_of(storage, var);
      if (!part) continue;
      bytes += part->bytes(settings_.target.lanes);
      if (bytes > settings_.target.second_cache_bytes / 2) break;
      parts.push_back(*part);
    }
    return parts;
  }

  /// The storage's part of a tile, when all accesses agree on it and scratch by lane helps them.
  std::optional<Part> part_of(int storage, int var) const {
    std::vector<Use> uses = uses_of(storage);
    bool temporary = local_[static_cast<size_t>(storage)];
    const Use& one = uses.front();
    Part part{storage, one.access->dtype, stride_along(*one.placed, *one.access, var)};
    if (part.lane_stride <= 0 || (part.lane_stride == 1 && !temporary)) return std::nullopt;
    auto tiles = tile_strides(kernel_, *one.placed, *one.access);
    int64_t last = INT64_MIN, read = 0;
    bool stored = false, loaded = false, only_copied = true;
    for (const Use& use : uses) {
      if (!use.access->indirect.empty() || use.access->dtype != part.dtype ||
          stride_along(*use.placed, *use.access, var) != part.lane_stride ||
          tile_strides(kernel_, *use.placed, *use.access) != tiles)
        return std::nullopt;
      Access x = within_tile(kernel_, use, var);
      ir::Span reach = span(x, use.placed->statement);
      if (part.first != INT64_MAX) part.gap = std::gcd(part.gap, reach.first - part.first);
      part.first = std::min(part.first, reach.first);
      last = std::max(last, reach.last);
      for (int64_t stride : x.strides) part.gap = std::gcd(part.gap, stride);
      stored = stored || use.store;
      loaded = loaded || !use.store;
      only_copied = only_copied && !use.store && is_copy(use.placed->statement);
      if (!use.store) read += points(use.placed->statement);
    }
    if (part.gap == 0) part.gap = 1;
    part.count = (last - part.first) / part.gap + 1;
    if (!stored && (only_copied || read < part.count * extent(var) / 2)) return std::nullopt;
    if (!temporary && !lies_apart(part, last, tiles, var)) return std::nullopt;
    part.copied_out = stored && !temporary;
    part.copied_in = !temporary && (loaded || part.copied_out) &&
                     (!stored || holds_data(schedule_, kernel_, storage)) &&
                     (loaded || !stored_dense(part, uses, var));
    if (part.copied_in && stored && is_callers(storage) && !stored_dense(part, uses, var))
      return std::nullopt;
    return part;
  }

  /// Do parts of different tiles have no element in common? Then copying one back leaves the others
  /// alone, and nothing is copied in twice.
  bool lies_apart(const Part& part, int64_t last, const std::vector<int64_t>& tiles,
                  int var) const {
    ir::Strides digits{{part.lane_stride, extent(var)}};
    for (int v : kernel_.range)
      if (int64_t stride = std::abs(tiles[static_cast<size_t>(v)]); stride != 0 && v != var)
        digits.emplace_back(stride, extent(v));
    return ir::apart(part.gap, last - part.first, digits);
  }

  bool is_callers(int storage) const {
    ir::Role role = schedule_.storages[static_cast<size_t>(storage)].role;
    return ir::is_callers(role);
  }

  /// Does one of the stores fill the whole part, over all its steps?
  bool stored_dense(const Part& part, const std::vector<Use>& uses, int var) const {
    return std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
      if (!use.store) return false;
      const Statement& s = use.placed->statement;
      Access x = within_tile(kernel_, use, var);
      ir::Strides digits;
      for (size_t a = 0; a < x.strides.size(); ++a) {
        int64_t fewest = s.axes[a];
        if (s.repeated()) fewest = std::min(fewest, fewest + s.growth[a] * (s.axes[0] - 1));
        if (x.strides[a] != 0) digits.emplace_back(x.strides[a], fewest);
      }
      return x.offset == part.first && ir::fill(part.gap, part.count, digits);
    });
  }

  static double operations(const Statement& s) {
    return static_cast<double>(s.loads.size()) + 1 + work(s);
  }

  /// In operations of a vector: with inner loops as vector loops, the rest one by one.
  double inner_cost() const {
    double cost = 0;
    auto lanes = static_cast<double>(settings_.target.lanes);
    const ir::Times& times = settings_.target.times;
    const double start = times.inner_loop / times.instruction;
    for (const Placed& p : kernel_.placed) {
      const Statement& s = p.statement;
      auto all = static_cast<double>(points(s));
      double best = 1;  // of a point, against one alone
      for (size_t a = 0; a < s.axes.size(); ++a) {
        const ir::Variable& v = kernel_.vars[static_cast<size_t>(p.axis_var[a])];
        if (v.kind != LoopKind::Serial || (s.store.strides[a] != 1 && !s.reduction)) continue;
        auto mean = static_cast<double>(v.extent);
        if (v.step >= 0) mean += 0.5 * static_cast<double>(v.growth * (s.axes[0] - 1));
        mean = std::max(mean, 1.0);
        best = std::min(best, (mean / lanes + 0.5 + start / operations(s)) / mean);
      }
      cost += all * operations(s) * best;
    }
    return cost;
  }

  /// Likewise with tiles as lanes.
  double lane_cost(int var) const {
    std::vector<Part> parts = parts_of(var);
    auto lanes = static_cast<double>(settings_.target.lanes);
    double cost = 0;
    int64_t bytes = 0;
    for (const Placed& p : kernel_.placed) {
      double each = operations(p.statement);
      auto count = [&](const Access& x) {
        int64_t stride = stride_along(p, x, var);
        bool part = std::any_of(parts.begin(), parts.end(),
                                [&](const Part& q) { return q.storage == x.storage; });
        if (!part && stride != 0 && stride != 1) each += is_copy(p.statement) ? 3 : lanes;
      };
      count(p.statement.store);
      for (const Access& x : p.statement.loads) count(x);
      cost += static_cast<double>(points(p.statement)) * each / lanes;
    }
    for (const Part& part : parts) {
      bytes += part.bytes(settings_.target.lanes);
      double tiles = 1;
      for (int v : kernel_.range) tiles *= static_cast<double>(extent(v));
      cost += (part.copied_in + part.copied_out) * 5.0 * static_cast<double>(part.count) * tiles /
              lanes;
    }
    return bytes > settings_.target.first_cache_bytes ? cost * settings_.target.times.second_cache
                                                      : cost;
  }

  /// Lets the kernel work on scratch, and copies what goes in and out.
  void move(const Part& part, int var) {
    int to = static_cast<int>(schedule_.storages.size());
    int64_t bytes = part.bytes(width());
    schedule_.storages.push_back({ir::Role::Temporary, bytes});
    Placed copy = copy_of(part, var, to);
    for (Placed& p : kernel_.placed) {
      auto redirect = [&](Access& x) {
        if (x.storage != part.storage) return;
        for (size_t a = 0; a < x.strides.size(); ++a) {
          int v = p.axis_var[a];
          bool outside = outside_tile(kernel_, v, var);
          x.strides[a] = v == var ? 1 : outside ? 0 : x.strides[a] / part.gap * width();
        }
        x.offset = (x.offset - part.first) / part.gap * width();
        x.storage = to;
      };
      redirect(p.statement.store);
      for (Access& x : p.statement.loads) redirect(x);
    }
    add_scratch(kernel_, to, bytes, turns() ? 0 : vectors_);
    if (part.copied_in) add(copy, false);
    if (part.copied_out) {
      std::swap(copy.statement.store, copy.statement.loads.front());
      add(copy, true);
    }
  }

  /// scratch[…] = memory[…], over the tile's part.
  Placed copy_of(const Part& part, int var, int to) {
    Use use = uses_of(part.storage).front();
    auto tiles = tile_strides(kernel_, *use.placed, *use.access);
    Placed copy;
    Statement& s = copy.statement;
    Access memory, scratch;
    auto axis = [&](int v, int64_t in_memory, int64_t in_scratch) {
      copy.axis_var.push_back(v);
      s.axes.push_back(extent(v));
      memory.strides.push_back(in_memory);
      scratch.strides.push_back(in_scratch);
    };
    for (int v : kernel_.range) axis(v, tiles[static_cast<size_t>(v)], 0);
    axis(var, part.lane_stride, 1);
    kernel_.vars.push_back({part.count, LoopKind::Serial});
    axis(static_cast<int>(kernel_.vars.size() - 1), part.gap, width());
    memory.storage = part.storage;
    memory.offset = part.first;
    memory.dtype = scratch.dtype = part.dtype;
    scratch.storage = to;
    s.value = s.expr.add({ir::Op::Load, part.dtype, {-1, -1, -1}, 0});
    s.store = std::move(scratch);
    s.loads.push_back(std::move(memory));
    s.record = use.placed->statement.record;
    return copy;
  }

  /// One side along the vector's lanes, the other along the one loop inside.
  void mark_transposed(Placed& p, int var) const {
    const Statement& s = p.statement;
    if (!is_copy(s) || s.repeated()) return;
    int inner = -1;
    for (size_t a = 0; a < s.axes.size(); ++a) {
      if (outside_tile(kernel_, p.axis_var[a], var)) continue;
      if (inner >= 0) return;
      inner = static_cast<int>(a);
    }
    if (inner < 0) return;
    auto by_lane = [&](const Access& x) {
      return std::any_of(
                 kernel_.scratch.begin(), kernel_.scratch.end(),
                 [&](const ir::Scratch& t) { return t.storage == x.storage && t.vectors != 0; }) &&
             x.strides[static_cast<size_t>(inner)] == width();
    };
    auto along = [&](const Access& x) {
      return x.strides[static_cast<size_t>(inner)] == 1 && x.indirect.empty() &&
             stride_along(p, x, var) > 1;
    };
    const Access& load = s.loads.front();
    p.transposed = s.store.dtype == load.dtype &&
                   ((by_lane(s.store) && along(load)) || (along(s.store) && by_lane(load)));
  }

  void add(Placed copy, bool last) {
    int inner = copy.axis_var.back();
    if (last) {  // a loop of its own
      kernel_.vars.push_back(kernel_.vars[static_cast<size_t>(inner)]);
      inner = copy.axis_var.back() = static_cast<int>(kernel_.vars.size() - 1);
    }
    auto loop = std::make_unique<Loop>(Loop{inner, {}});
    loop->body.push_back({nullptr, static_cast<int>(kernel_.placed.size())});
    kernel_.placed.push_back(std::move(copy));
    std::vector<TreeNode>& body = kernel_.body.front().loop->body;
    body.insert(last ? body.end() : body.begin(), TreeNode{std::move(loop), -1});
  }

  bool turns() const { return lanes_ > 0; }
  /// Lanes that have a place in scratch.
  int64_t width() const {
    return turns() ? lanes_ : static_cast<int64_t>(settings_.target.lanes) * vectors_;
  }

  Kernel& kernel_;
  ir::Schedule& schedule_;
  const std::vector<bool> local_;
  const Settings& settings_;
  Decider& decider_;
  int vectors_ = 1;  ///< side by side
  int64_t lanes_ =
      0;  ///< iterations of the vector loop that goes inside of all others; 0: none does
};

}  // namespace

void to_lanes(ir::Schedule& schedule, const Settings& settings, Decider& decider) {
  std::vector<int> owner = local_temporaries(schedule);
  each_kernel(schedule, [&](Kernel& kernel, int step) {
    Lanes(kernel, schedule, owned_by(owner, step), settings, decider).run();
  });
}

}  // namespace graft::passes
