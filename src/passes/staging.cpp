#include "passes/staging.h"

#include <algorithm>
#include <numeric>

#include "ir/facts.h"
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

int64_t stride_along(const Placed& p, const Access& x, int var) {
  int a = axis_of(p, var);
  return a < 0 ? 0 : x.strides[static_cast<size_t>(a)];
}

namespace {

bool outside_tile(const Kernel& kernel, int var, int lanes_var) {
  return var == lanes_var || kernel.vars[static_cast<size_t>(var)].kind == LoopKind::Range;
}

}  // namespace

void Staging::run(int var, const std::vector<int>& inside) {
  make_serial(kernel_, inside);
  if (!inside.empty()) {
    auto innermost = std::make_unique<Loop>(Loop{inside.back(), std::move(kernel_.body)});
    kernel_.body.clear();
    kernel_.body.push_back(nested({inside.begin(), inside.end() - 1}, {std::move(innermost), -1}));
  }
  wrap(kernel_, var, settings_);
  std::vector<Part> parts = parts_of(var);
  int64_t bytes = 0;
  for (const Part& part : parts) bytes += part.bytes(settings_.target.lanes);
  // Two vectors hide each other's latency, where a step waits for the one before.
  if (2 * bytes <= settings_.target.second_cache_bytes / 8 &&
      extent(var) >= 4 * settings_.target.lanes)
    vectors_ = 2;
  if (inside.empty() && prepare_turn(parts, var)) parts = parts_of(var);
  for (const Part& part : parts) move(part, var);
  if (turns()) return turn(kernel_);
  for (Placed& p : kernel_.placed) mark_transposed(p, var);
}

/// Routines that want whole arrays get them when the lanes are the innermost loop: then scratch
/// has a place for all lanes of the tile, which may be cut for that. False where it cannot be.
bool Staging::prepare_turn(const std::vector<Part>& parts, int var) {
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

/// What the access touches within a tile.
Access Staging::within_tile(const Use& use, int var) const {
  Access x = *use.access;
  for (size_t a = 0; a < x.strides.size(); ++a)
    if (outside_tile(kernel_, use.placed->axis_var[a], var)) x.strides[a] = 0;
  return x;
}

/// Does some step before this kernel write the storage, or is it the caller's?
bool Staging::holds_data(int storage) const {
  ir::Role role = schedule_.storages[static_cast<size_t>(storage)].role;
  if (ir::is_callers(role)) return true;
  bool written = false;
  for (const ir::Step& step : schedule_.steps) {
    if (std::get_if<Kernel>(&step) == &kernel_) break;
    ir::each_touch(step, [&](int touched, bool writes) {
      written = written || (writes && touched == storage);
    });
  }
  return written;
}

/// Of a storage that nobody stores to: those with that stride along `var`.
std::vector<Staging::Use> Staging::uses_of(int storage, int var, int64_t lane_stride) const {
  std::vector<Use> uses;
  for (const Placed& p : kernel_.placed) {
    if (p.statement.store.storage == storage) uses.push_back({&p.statement.store, &p, true});
    for (const Access& x : p.statement.loads)
      if (x.storage == storage) uses.push_back({&x, &p, false});
  }
  if (std::none_of(uses.begin(), uses.end(), [](const Use& use) { return use.store; }))
    std::erase_if(uses, [&](const Use& use) {
      return stride_along(*use.placed, *use.access, var) != lane_stride;
    });
  return uses;
}

std::vector<Part> Staging::parts_of(int var) const {
  std::vector<std::pair<int, int64_t>> found;  // storages and strides
  for (const Placed& p : kernel_.placed) {
    auto add = [&](const Access& x) {
      const std::pair one(x.storage, stride_along(p, x, var));
      if (std::find(found.begin(), found.end(), one) == found.end()) found.push_back(one);
    };
    add(p.statement.store);
    for (const Access& x : p.statement.loads) add(x);
  }
  std::vector<Part> parts;
  int64_t bytes = 0;
  for (const auto& [storage, lane_stride] : found) {
    auto part = part_of(storage, var, lane_stride);
    if (!part) continue;
    bytes += part->bytes(settings_.target.lanes);
    if (bytes > settings_.target.second_cache_bytes / 2) break;
    parts.push_back(*part);
  }
  return parts;
}

/// The storage's part of a tile, when all accesses agree on it and scratch by lane helps them.
std::optional<Part> Staging::part_of(int storage, int var, int64_t lane_stride) const {
  std::vector<Use> uses = uses_of(storage, var, lane_stride);
  bool temporary = local_[static_cast<size_t>(storage)];
  const Use& one = uses.front();
  Part part{storage, one.access->dtype, lane_stride};
  if (part.lane_stride <= 0 || (part.lane_stride == 1 && !temporary)) return std::nullopt;
  auto tiles = tile_strides(kernel_, *one.placed, *one.access);
  int64_t last = INT64_MIN, read = 0;
  bool stored = false, loaded = false, only_copied = true;
  for (const Use& use : uses) {
    if (!use.access->indirect.empty() || use.access->dtype != part.dtype ||
        stride_along(*use.placed, *use.access, var) != part.lane_stride ||
        tile_strides(kernel_, *use.placed, *use.access) != tiles)
      return std::nullopt;
    Access x = within_tile(use, var);
    ir::Span reach = span(x, use.placed->statement);
    if (part.first != INT64_MAX) part.gap = std::gcd(part.gap, reach.first - part.first);
    part.first = std::min(part.first, reach.first);
    last = std::max(last, reach.last);
    for (int64_t stride : x.strides) part.gap = std::gcd(part.gap, stride);
    stored = stored || use.store;
    loaded = loaded || !use.store;
    only_copied = only_copied && !use.store && is_copy(use.placed->statement);
    if (use.store) continue;
    int64_t inside = points(use.placed->statement);
    for (int v : use.placed->axis_var)
      if (outside_tile(kernel_, v, var)) inside /= extent(v);
    read += inside;
  }
  if (part.gap == 0) part.gap = 1;
  part.count = (last - part.first) / part.gap + 1;
  if (!stored && (only_copied || read < part.count / 2)) return std::nullopt;
  if (!temporary && stored && !lies_apart(part, last, tiles, var)) return std::nullopt;
  part.copied_out = stored && !temporary;
  part.copied_in = !temporary && (loaded || part.copied_out) && (!stored || holds_data(storage)) &&
                   (loaded || !stored_dense(part, uses, var));
  if (part.copied_in && stored && is_callers(storage) && !stored_dense(part, uses, var))
    return std::nullopt;
  part.room = part.count;
  if (part.copied_in || part.copied_out) {
    const bool varies = settings_.may_vary(part.count);
    part.columns = ir::last_columns(part.count, varies);
    // A sum is one in all sizes.
    part.room = varies ? part.count + part.columns - 1 : ir::in_squares(part.count, part.columns);
  }
  return part;
}

/// Do parts of different tiles have no element in common? Then copying one back leaves the others
/// alone, and nothing is copied in twice.
bool Staging::lies_apart(const Part& part, int64_t last, const std::vector<int64_t>& tiles,
                         int var) const {
  ir::Strides digits{{part.lane_stride, extent(var)}};
  for (int v : kernel_.range)
    if (int64_t stride = std::abs(tiles[static_cast<size_t>(v)]); stride != 0 && v != var)
      digits.emplace_back(stride, extent(v));
  return ir::apart(part.gap, last - part.first, digits);
}

bool Staging::is_callers(int storage) const {
  ir::Role role = schedule_.storages[static_cast<size_t>(storage)].role;
  return ir::is_callers(role);
}

/// Does one of the stores fill the whole part, over all its steps?
bool Staging::stored_dense(const Part& part, const std::vector<Use>& uses, int var) const {
  return std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
    if (!use.store) return false;
    const Statement& s = use.placed->statement;
    Access x = within_tile(use, var);
    ir::Strides digits;
    for (size_t a = 0; a < x.strides.size(); ++a) {
      int64_t fewest = s.axes[a];
      if (s.repeated()) fewest = std::min(fewest, fewest + s.growth[a] * (s.axes[0] - 1));
      if (x.strides[a] != 0) digits.emplace_back(x.strides[a], fewest);
    }
    return x.offset == part.first && ir::fill(part.gap, part.count, digits);
  });
}

/// Lets the kernel work on scratch, and copies what goes in and out.
void Staging::move(const Part& part, int var) {
  int to = static_cast<int>(schedule_.storages.size());
  int64_t bytes = part.bytes(width());
  schedule_.storages.push_back({ir::Role::Temporary, bytes});
  Placed copy = copy_of(part, var, to);
  for (Placed& p : kernel_.placed) {
    auto redirect = [&](Access& x) {
      if (x.storage != part.storage || stride_along(p, x, var) != part.lane_stride) return;
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
  copy.columns = part.columns;
  if (part.copied_in) add(copy, false);
  if (part.copied_out) {
    std::swap(copy.statement.store, copy.statement.loads.front());
    add(copy, true);
  }
}

/// scratch[…] = memory[…], over the tile's part.
Placed Staging::copy_of(const Part& part, int var, int to) {
  Use use = uses_of(part.storage, var, part.lane_stride).front();
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
void Staging::mark_transposed(Placed& p, int var) const {
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
  if (!p.transposed) p.columns = 0;
}

void Staging::add(Placed copy, bool last) {
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

}  // namespace graft::passes
