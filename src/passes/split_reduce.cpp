#include "passes/split_reduce.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "ir/builder.h"
#include "passes/cost.h"
#include "passes/group.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Access;
using ir::Node;
using ir::Op;
using ir::Program;
using ir::Statement;

namespace {

constexpr int64_t kLong = 1 << 16;   ///< reduced points from which splitting pays
constexpr int64_t kFewResults = 32;  ///< parallel points below which it is needed
constexpr int64_t kPart = 8192;      ///< wanted points of a part
constexpr int64_t kEnoughParts = 64;
constexpr int64_t kRows = 64;      ///< wanted rows of a part: their pages are in reach
constexpr int64_t kFewBytes = 64;  ///< of a column, at least, where fewer rows spare reading them

/// How to cut a reduction: axis `axis` into parts of this length. The reduced axes in `apart` stay
/// axes of the partial results. `rows`: these lie part by part, not behind what is kept.
struct Cut {
  size_t axis;
  int64_t length;
  std::vector<bool> apart;
  bool rows;
};

bool can_split(const Statement& s) {
  return s.reduction && !s.reduction->scan && !ir::finds_place(s.reduction->op);
}

/// A part's length, near `wanted`.
int64_t part_of(int64_t extent, int64_t wanted, const Settings& settings) {
  const int64_t length = std::max<int64_t>(1, wanted);
  return settings.may_vary(extent)
             ? static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(length)))
             : length;
}

/// Of a load; 0 where data says which.
int64_t bytes_read(const Statement& s, const Access& load) {
  if (!load.indirect.empty()) return 0;
  int64_t bytes = static_cast<int64_t>(c10::elementSize(load.dtype));
  for (size_t a = 0; a < s.axes.size(); ++a)
    if (load.strides[a] != 0) bytes *= s.axes[a];
  return bytes;
}

/// The load that reads most, if any, and how many bytes.
std::pair<const Access*, int64_t> widest_load(const Statement& s) {
  const Access* widest = nullptr;
  int64_t most = 0;
  for (const Access& load : s.loads)
    if (const int64_t bytes = bytes_read(s, load); bytes > most) widest = &load, most = bytes;
  return {widest, most};
}

/// The reduced axes as they lie in memory, the slowest first.
std::vector<size_t> slowest_first(const Statement& s) {
  std::vector<size_t> axes;
  for (size_t a = 0; a < s.axes.size(); ++a)
    if (s.reduction->axes[a] && s.axes[a] > 1) axes.push_back(a);
  if (const Access* widest = widest_load(s).first)
    std::stable_sort(axes.begin(), axes.end(), [&](size_t a, size_t b) {
      return std::abs(widest->strides[a]) > std::abs(widest->strides[b]);
    });
  return axes;
}

/// A long reduction with few results has few tiles: cut it along its slowest reduced axes, as many
/// of them as make enough parts.
std::optional<Cut> cut_long(const Statement& s, const Settings& settings) {
  if (!splittable(s)) return std::nullopt;
  std::vector<bool> apart(s.axes.size(), false);
  int64_t parts = 1, rest = reduced_points(s);
  for (size_t a : slowest_first(s)) {
    const int64_t n = s.axes[a];
    rest /= n;
    if (parts * n < kEnoughParts && rest >= 2 * kPart) {
      apart[a] = true;
      parts *= n;
      continue;
    }
    if (rest >= kPart / 8) return Cut{a, 1, std::move(apart), false};
    // Points of this axis make a part.
    const int64_t wanted = std::max<int64_t>(kPart / rest, 1);
    int64_t length =
        settings.may_vary(n) ? 0 : largest_divisor(n, wanted, std::max<int64_t>(wanted / 16, 1));
    if (length == 0) length = part_of(n, wanted, settings);
    if (parts == 1 && n % length != 0 && n < 2 * length) return std::nullopt;
    return Cut{a, length < n ? length : 1, std::move(apart), false};
  }
  return std::nullopt;
}

/// A reduction over the slow axes of memory walks down one vector of columns at a time, one page
/// per step: cut it into blocks of rows. `made`, by storage: statements before, with no call
/// between, make it, so that blocks that stay in the second cache can be summed where they are
/// made.
std::optional<Cut> cut_rows(const Statement& s, const std::vector<bool>& made,
                            const Settings& settings) {
  if (!can_split(s) || s.repeated()) return std::nullopt;
  const auto [widest, most] = widest_load(s);
  if (most <= settings.target.second_cache_bytes) return std::nullopt;
  int fastest = -1;  // of the reduced axes
  bool along = false;
  std::vector<bool> apart = s.reduction->axes;
  for (size_t a = 0; a < s.axes.size(); ++a) {
    int64_t stride = std::abs(widest->strides[a]);
    if (stride == 1 && s.axes[a] >= settings.target.lanes) along = !s.reduction->axes[a];
    if (s.reduction->axes[a] && s.axes[a] > 1 &&
        (fastest < 0 || stride < std::abs(widest->strides[static_cast<size_t>(fastest)])))
      fastest = static_cast<int>(a);
  }
  if (!along || fastest < 0 || reduced_points(s) < 2 * kRows) return std::nullopt;
  auto axis = static_cast<size_t>(fastest);
  int64_t n = s.axes[axis], bytes = std::abs(widest->strides[axis]) *
                                    static_cast<int64_t>(c10::elementSize(widest->dtype));
  if (bytes == 0 || ir::numel(s.axes) == 0) return std::nullopt;
  // Narrow rows are one stream, and few lines of them few tiles.
  const int64_t kept = ir::numel(s.axes) / reduced_points(s);
  const bool narrow = bytes < kApartBytes;
  if (narrow && kept / settings.target.lanes >= kEnough) return std::nullopt;
  int64_t rows = part_of(n, narrow ? std::max(kRows, 4 * kPart / kept) : kRows, settings);
  const int64_t near = settings.target.second_cache_bytes / 2 / bytes,
                few = kFewBytes / static_cast<int64_t>(c10::elementSize(widest->dtype));
  const bool some_made = std::any_of(s.loads.begin(), s.loads.end(), [&](const Access& load) {
    return bytes_read(s, load) == most && made[static_cast<size_t>(load.storage)];
  });
  if (some_made && near >= few) rows = std::min(rows, part_of(n, near, settings));
  const int64_t least = std::min(rows, std::max(rows / 2, few));
  int64_t length = n <= rows ? n : settings.may_vary(n) ? 0 : largest_divisor(n, rows, least);
  if (length == 0) length = n < 2 * rows ? n : rows;
  // Else the partial results would be much of the input.
  if (length < least) return std::nullopt;
  apart[axis] = false;
  return Cut{axis, length, std::move(apart), true};
}

/// Emits partial reductions of the original, and the reduction of those.
void split(const Statement& original, const Cut& cut, bool any_size, Program& out) {
  const ir::Reduction& reduction = *original.reduction;
  const int64_t n = original.axes[cut.axis],
                tail = any_size && n > cut.length && cut.length > 1 ? (n - 1) % cut.length + 1
                                                                    : n % cut.length,
                parts = (n - tail) / cut.length;
  auto is_kept = [&](size_t axis) { return !reduction.axes[axis]; };
  auto is_part = [&](size_t axis) { return axis == cut.axis ? n > cut.length : cut.apart[axis]; };

  // The partial results, of the accumulator's type: the parts behind what is kept, or before.
  std::vector<size_t> dims;
  auto add = [&](auto which) {
    for (size_t a = 0; a < original.axes.size(); ++a)
      if (which(a)) dims.push_back(a);
  };
  if (cut.rows) add(is_part);
  add(is_kept);
  if (!cut.rows) add(is_part);
  std::vector<int64_t> sizes;
  for (size_t a : dims) sizes.push_back(a == cut.axis ? parts + (tail ? 1 : 0) : original.axes[a]);
  const std::vector<int64_t> strides = ir::contiguous_strides(sizes);
  auto stride_of = [&](size_t axis) {
    auto at = std::find(dims.begin(), dims.end(), axis);
    return at == dims.end() ? 0 : strides[static_cast<size_t>(at - dims.begin())];
  };
  const int storage = static_cast<int>(out.storages.size());
  const c10::ScalarType type = reduction.type;
  out.storages.push_back({ir::Role::Temporary,
                          ir::numel(sizes) * static_cast<int64_t>(c10::elementSize(type)), -1,
                          false});

  /// `whole`: the piece has the cut axis in two, the parts and the points of one.
  auto partial = [&](Statement p, bool whole) {
    Access store;
    store.storage = storage;
    store.dtype = type;
    if (!whole) store.offset = parts * stride_of(cut.axis);
    for (size_t a = 0; a < p.axes.size(); ++a) {
      bool inner = whole && a == cut.axis + 1 && p.axes.size() > original.axes.size();
      size_t axis = whole && p.axes.size() > original.axes.size() && a > cut.axis ? a - 1 : a;
      bool stored = !inner && (is_kept(axis) || (is_part(axis) && (axis != cut.axis || whole)));
      if (stored) p.reduction->axes[a] = false;
      store.strides.push_back(stored ? stride_of(axis) : 0);
    }
    p.store = std::move(store);
    p.value = p.expr.add({Op::Reduced, type, {-1, -1, -1}, 0});
    compact(p);
    out.items.emplace_back(std::move(p));
  };
  Statement body = original;
  if (tail) take_range(body, cut.axis, 0, n - tail);
  if (cut.length > 1 && body.axes[cut.axis] > cut.length) split_axis(body, cut.axis, cut.length);
  partial(std::move(body), true);
  if (tail) {
    Statement last = original;
    take_range(last, cut.axis, n - tail, n);
    last.rest = any_size;
    partial(std::move(last), false);
  }

  // The last step keeps the epilogue: the nodes after Reduced, over the kept axes.
  Statement last = original;
  last.axes = sizes;
  auto reshape = [&](Access& access) {
    std::vector<int64_t> now;
    for (size_t a : dims) now.push_back(is_kept(a) ? access.strides[a] : 0);
    access.strides = std::move(now);
  };
  reshape(last.store);
  for (Access& load : last.loads) reshape(load);
  for (Node& node : last.expr.nodes)
    if (node.op == Op::Axis)
      if (auto at = std::find(dims.begin(), dims.end(), static_cast<size_t>(node.payload));
          at != dims.end())
        node.payload = at - dims.begin();
  Access load;
  load.storage = storage;
  load.dtype = type;
  load.strides = strides;
  last.loads.push_back(load);
  last.reduction->axes.clear();
  for (size_t a : dims) last.reduction->axes.push_back(!is_kept(a));
  last.reduction->input =
      last.expr.add({Op::Load, type, {-1, -1, -1}, static_cast<int64_t>(last.loads.size() - 1)});
  compact(last);
  out.items.emplace_back(std::move(last));
}

}  // namespace

bool splittable(const Statement& s) {
  return can_split(s) && reduced_points(s) >= kLong &&
         ir::numel(s.axes) / reduced_points(s) < kFewResults;
}

Program split_reductions(Program program, const Settings& settings) {
  Program out;
  out.storages = program.storages;
  out.signature = std::move(program.signature);
  std::vector<bool> made(program.storages.size(), false);
  for (ir::Item& item : program.items) {
    auto* s = std::get_if<Statement>(&item);
    std::optional<Cut> cut;
    if (s) cut = cut_long(*s, settings);
    if (s && !cut) cut = cut_rows(*s, made, settings);
    if (s) made[static_cast<size_t>(s->store.storage)] = true;
    if (std::holds_alternative<ir::Extern>(item)) made.assign(made.size(), false);
    if (cut)
      split(*s, *cut, settings.may_vary(s->axes[cut->axis]), out);
    else
      out.items.push_back(std::move(item));
  }
  return out;
}

}  // namespace graft::passes
