#include "passes/product_tiles.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "passes/products.h"
#include "passes/rewrite.h"

namespace graft::passes {

bool in_tiles(const ir::ProductAxes& axes, const ir::Target& target) {
  return axes.in_pair && target.tiles(axes.right_type);
}

int64_t column_bytes(const ir::Statement& s, const ir::ProductAxes& axes) {
  return s.axes[axes.terms] * axes.column_stride() *
         static_cast<int64_t>(c10::elementSize(s.loads[axes.right].dtype));
}

bool is_near(int64_t bytes, const ir::Target& target) {
  constexpr int64_t kPartOfLastCache = 8;
  return bytes <= target.last_cache_bytes / kPartOfLastCache;
}

bool has_product(const Group& group) {
  return std::any_of(group.members.begin(), group.members.end(), is_product);
}

bool is_product_alone(const Group& group) {
  std::set<int> calls;
  for (const ir::Statement& s : group.members)
    if (is_product(s)) calls.insert(s.record);
  return !calls.empty() && std::all_of(group.members.begin(), group.members.end(),
                                       [&](const auto& s) { return calls.contains(s.record); });
}

namespace {

/// Columns of a tile, where rows are so long that they are cut; and the fewest, where a product has
/// many terms, or there are so few blocks of rows that threads share columns.
constexpr int64_t kTileColumns = 512, kFewestTileColumns = 64;
constexpr int64_t kWantedTiles = kEnough;

/// Columns of a tile at most: where AMX multiplies, so fast that more of them come too slowly from
/// beyond the second cache, so many as stay in half of it while blocks of rows come to them.
int64_t most_columns(const Group& group, const ir::Target& target) {
  int64_t most = kTileColumns;
  for (const ir::Statement& s : group.members) {
    if (!is_product(s)) continue;
    const ProductAxes axes = *product_axes(s);
    if (!in_tiles(axes, target)) continue;
    const int64_t stay = target.second_cache_bytes / 2 / column_bytes(s, axes);
    most = std::min(most, std::clamp(stay, kFewestTileColumns, kTileColumns / 2));
  }
  return most;
}

/// Cuts an axis that is columns to all products, and parallel to all members, into tiles: blocks of
/// rows can be higher then. Gives the axis of tiles.
std::optional<size_t> cut_columns(Group& group, const ir::Target& target) {
  for (size_t o = 0; o < group.outer.size(); ++o) {
    bool fits = true;
    int64_t each = 1;  ///< columns in a step of the axis: in a panel, or in one of several matrices
    for (size_t m = 0; fits && m < group.members.size(); ++m) {
      const size_t axis = group.outer_axis[m][o];
      fits = axis != kNoAxis;
      if (!fits || !is_product(group.members[m])) continue;
      const ProductAxes axes = *product_axes(group.members[m]);
      fits = axes.columns.front() == axis;
      if (!fits) continue;
      int64_t inner = 1;
      for (size_t k = 1; k < axes.columns.size(); ++k)
        inner *= group.members[m].axes[axes.columns[k]];
      each = std::max(each, inner);
    }
    if (!fits) continue;
    int64_t step = std::max<int64_t>(1, ir::kMostProductColumns / each);
    if (group.outer[o] % step != 0) step = std::max<int64_t>(1, step / 2);  // its last half filled
    const int64_t steps = group.outer[o] / step;
    const int64_t columns = group.outer[o] * each, rows = ir::numel(group.outer) / columns,
                  blocks = (rows + ir::kProductBlock - 1) / ir::kProductBlock;
    const bool few = blocks < kWantedTiles;
    int64_t wanted = most_columns(group, target);
    if (few) wanted = std::clamp(columns * blocks / kWantedTiles, kFewestTileColumns, wanted);
    const auto steps_in = [&](int64_t most) { return std::max<int64_t>(1, most / (step * each)); };
    if (group.outer[o] % step != 0 || steps <= steps_in(wanted)) return {};
    const int64_t fewest = few ? kFewestTileColumns : std::max(kFewestTileColumns, wanted / 2);
    int64_t inner = largest_divisor(steps, steps_in(wanted));
    // Else a few more columns: the next divisor.
    while (inner * step * each < fewest || steps % inner != 0)
      if (++inner > steps_in(kTileColumns)) return {};
    inner *= step;
    if (inner >= group.outer[o]) return {};
    return inner == 1 || split_outer(group, o, inner) ? std::optional(o) : std::nullopt;
  }
  return {};
}

}  // namespace

bool keep_rows(Group& group, const ir::Target& target) {
  const std::optional<size_t> columns = cut_columns(group, target);
  std::vector<size_t> kept;
  bool rows = false;
  for (size_t o = 0; o < group.outer.size(); ++o) {
    // Columns to one whose left operand is the same for all matrices of another's batch.
    bool keeps = true, is_rows = true, some_rows = false, some_add = false, some_batch = false,
         some_columns = false;
    for (size_t m = 0; m < group.members.size(); ++m) {
      const size_t axis = group.outer_axis[m][o];
      if (axis == kNoAxis) keeps = false;
      if (!is_product(group.members[m]) || axis == kNoAxis) continue;
      const ProductAxes axes = *product_axes(group.members[m]);
      const auto among = [&](const std::vector<size_t>& list) {
        return std::count(list.begin(), list.end(), axis) > 0;
      };
      const bool adds = axis == axes.terms;
      some_rows = some_rows || among(axes.rows);
      some_add = some_add || adds;
      is_rows = is_rows && (among(axes.rows) || adds);
      some_batch = some_batch || among(axes.batch);
      some_columns = some_columns || among(axes.columns);
    }
    keeps = keeps && (!some_columns || some_batch);
    is_rows = is_rows && some_rows;
    keeps = keeps || o == columns;
    if (!keeps || (some_add && !is_rows)) continue;
    kept.push_back(o);
    rows = rows || is_rows;
  }
  shrink(group, kept);
  return rows;
}

}  // namespace graft::passes
