#include "passes/block_products.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <set>

#include "ir/builder.h"
#include "passes/kernel_loops.h"
#include "passes/mask_kernels.h"
#include "passes/needed_columns.h"
#include "passes/product_tiles.h"
#include "passes/products.h"
#include "passes/quiet_columns.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Access;
using ir::Kernel;
using ir::Loop;
using ir::LoopKind;
using ir::Placed;
using ir::TreeNode;

namespace {

/// Rows of a block that hide the way of a right operand from memory, for each byte's time by an
/// operation's; and from the last cache, of which others have most.
constexpr double kRowsOfFar = 4, kRowsOfLastCache = kRowsOfFar / 3;
constexpr int64_t kLineBytes = 64;
/// Fewer blocks than this leave threads without work; multiply-adds that one does as well.
constexpr int64_t kFewestBlocks = 4;
/// Rows of a block that serves any number of rows: what is left of them is never known to be one.
constexpr int64_t kFewestOfAnySize = 8;
constexpr double kLittleWork = 1 << 20;

TreeNode copy_of(const TreeNode& node) {
  if (!node.loop) return {nullptr, node.placed};
  TreeNode made{std::make_unique<Loop>(Loop{node.loop->var, {}}), -1};
  for (const TreeNode& inner : node.loop->body) made.loop->body.push_back(copy_of(inner));
  return made;
}

/// The one statement of a nest of single loops; -1: there are others.
int leaf_of(const TreeNode& node) {
  const TreeNode* at = &node;
  while (at->loop) {
    if (at->loop->body.size() != 1) return -1;
    at = &at->loop->body[0];
  }
  return at->placed;
}

/// A storage that lies in the scratch of blocks.
struct Shared {
  int storage = -1;
  int renamed = -1;                             ///< its own for the last rows; -1: not there yet
  int64_t first = INT64_MAX, last = INT64_MIN;  ///< elements of a row, from the row's first
  std::set<int> parts = {};                     ///< that touch it
  bool by_row = false;                          ///< every row uses the same memory
  int in_place_of = -1;                         ///< into the list: it takes over that one's memory
  c10::ScalarType dtype = c10::ScalarType::Float;
  bool any_size = false;           ///< Settings::any_size
  std::vector<int64_t> tile = {};  ///< strides along tiles, by variable

  int name() const { return renamed >= 0 ? renamed : storage; }
  int64_t size() const { return static_cast<int64_t>(c10::elementSize(dtype)); }
  /// Elements from row to row: not a multiple of the page, or all rows' lines compete for the same
  /// places of the cache. (For any size, it is never that of the rows elsewhere: kernels whose
  /// strides agree by chance have another structure.)
  int64_t stride() const {
    const int64_t of_line = kLineBytes / size(), lines = (last - first) / of_line + 1;
    return (lines + (any_size || lines % 8 == 0)) * of_line;
  }
};

class Blocks {
 public:
  Blocks(const Kernel& kernel, const std::vector<bool>& local, const Settings& settings)
      : from_(kernel), local_(local), settings_(settings), target_(settings.target) {}

  /// Rows of a block; 0: there are none.
  int64_t plan() {
    if (!find_rows()) return 0;
    any_size_ = settings_.may_vary(extent(rows_));
    if (!find_parts() || !find_shared()) return 0;
    find_in_place();
    const int64_t rows = block_rows(extent(rows_));
    return rows > 0 && has_blocks(rows) ? rows : 0;
  }

  std::optional<std::vector<Kernel>> run(std::vector<ir::Storage>& storages) {
    const int64_t rows = plan();
    if (rows == 0) return {};
    const int64_t all = extent(rows_);
    std::vector<Kernel> made;
    const int64_t left = any_size_ && rows < all ? (all - 1) % rows + 1 : all % rows;
    Kernel whole = build(0, all - left, rows, rows, storages, made);
    made.push_back(std::move(whole));
    if (left == 0) return made;
    for (Shared& s : shared_) {
      storages.push_back(storages[static_cast<size_t>(s.storage)]);
      s.renamed = static_cast<int>(storages.size()) - 1;
    }
    Kernel rest = build(all - left, left, left, any_size_ ? rows : left, storages, made);
    made.push_back(std::move(rest));
    made.back().is_rest = any_size_;
    return made;
  }

 private:
  int64_t extent(int var) const { return from_.vars[static_cast<size_t>(var)].extent; }
  bool is_product_at(int placed) const {
    return placed >= 0 && is_product(from_.placed[static_cast<size_t>(placed)].statement);
  }

  /// The longest variable of the tiles that is rows to all products, or terms to those that add up
  /// over blocks of rows.
  bool find_rows() {
    for (const ir::Variable& v : from_.vars)
      if (v.kind == LoopKind::Step) return false;
    for (int v : from_.range) {
      const bool fits = std::all_of(from_.placed.begin(), from_.placed.end(), [&](const Placed& p) {
        const int a = axis_of(p, v);
        if (a < 0) return false;
        if (!is_product(p.statement)) return true;
        const ProductAxes axes = *product_axes(p.statement);
        const int terms = p.axis_var[axes.terms];
        return terms == v ||
               (!is_range(from_, terms) &&
                std::count(axes.rows.begin(), axes.rows.end(), static_cast<size_t>(a)) > 0);
      });
      if (fits && (rows_ < 0 || extent(v) > extent(rows_))) rows_ = v;
    }
    adds_up_ = std::any_of(from_.placed.begin(), from_.placed.end(),
                           [&](const Placed& p) { return adds(p); });
    return rows_ >= 0;
  }
  bool adds(const Placed& p) const {
    return is_product(p.statement) && p.axis_var[product_axes(p.statement)->terms] == rows_;
  }

  /// Each product is a part of its own, in a nest of one or two loops of columns and one of terms.
  bool find_parts() {
    part_.assign(from_.placed.size(), -1);
    node_.assign(from_.placed.size(), 0);
    bool open = false;
    for (size_t n = 0; n < from_.body.size(); ++n) {
      const int leaf = leaf_of(from_.body[n]);
      const bool product = is_product_at(leaf);
      if (product || !open) parts_.push_back({n, product});
      open = !product;
      bool fits = true;
      auto place = [&](size_t p) {
        part_[p] = static_cast<int>(parts_.size()) - 1;
        node_[p] = n;
        fits = fits && (product || !is_product_at(static_cast<int>(p)));
      };
      if (from_.body[n].loop)
        ir::each_placed(from_.body[n].loop->body, place);
      else
        place(static_cast<size_t>(leaf));
      if (!fits || (product && !suits(from_.placed[static_cast<size_t>(leaf)]))) return false;
    }
    return true;
  }

  bool suits(const Placed& p) const {
    const ProductAxes axes = *product_axes(p.statement);
    const bool sums = adds(p);
    if (sums && (axes.rows.size() != 1 || local_[static_cast<size_t>(p.statement.store.storage)]))
      return false;
    for (size_t a : axes.batch)
      if (!is_range(from_, p.axis_var[a])) return false;
    for (size_t a : axes.rows)
      if (is_range(from_, p.axis_var[a]) == sums) return false;
    // Pairs are whole in each block of terms, and their left operand is copied along its rows.
    const bool pairs_fit =
        !axes.in_pair || (!sums && p.statement.loads[axes.left].strides[*axes.in_pair] == 1);
    if (!pairs_fit) return false;
    std::vector<size_t> inner;
    for (size_t a : axes.columns)
      if (!is_range(from_, p.axis_var[a])) inner.push_back(a);
    return !inner.empty() && inner.size() <= 2 && is_range(from_, p.axis_var[axes.terms]) == sums &&
           p.statement.loads[axes.right].strides[inner.back()] == axes.column_stride() &&
           p.statement.store.strides[inner.back()] == 1;
  }

  bool find_shared() {
    std::map<int, size_t> known;
    for (size_t k = 0; k < from_.placed.size(); ++k) {
      const Placed& p = from_.placed[k];
      bool fits = true;
      auto touch = [&](const Access& x) {
        if (!local_[static_cast<size_t>(x.storage)]) return;
        auto [at, is_new] = known.try_emplace(x.storage, shared_.size());
        if (is_new) shared_.push_back({x.storage});
        Shared& s = shared_[at->second];
        if (is_new) s.dtype = x.dtype, s.tile = tile_strides(from_, p, x), s.any_size = any_size_;
        fits = fits && s.dtype == x.dtype && s.tile == tile_strides(from_, p, x) && is_bounded(x);
        Access within = x;
        for (size_t a = 0; a < p.axis_var.size(); ++a)
          if (is_range(from_, p.axis_var[a])) within.strides[a] = 0;
        const ir::Span reach = span(within, p.statement);
        s.first = std::min(s.first, reach.first), s.last = std::max(s.last, reach.last);
        s.parts.insert(part_[k]);
      };
      touch(p.statement.store);
      for (const Access& load : p.statement.loads) touch(load);
      if (!fits) return false;
    }
    for (Shared& s : shared_)
      s.by_row = s.parts.size() == 1 && !parts_[static_cast<size_t>(*s.parts.begin())].product;
    return true;
  }

  /// Where rows of one are read for the last time before the same rows of another are stored, both
  /// have one memory: scores and what softmax makes of them.
  void find_in_place() {
    for (size_t t = 0; t < shared_.size(); ++t)
      for (size_t s = 0; s < shared_.size(); ++s)
        if (s != t && may_take_over(shared_[t], shared_[s]) && shared_[s].in_place_of < 0 &&
            std::none_of(
                shared_.begin(), shared_.end(),
                [&](const Shared& other) {
                  return other.in_place_of == static_cast<int>(s) ||
                         other.in_place_of == static_cast<int>(t);
                })) {
          shared_[t].in_place_of = static_cast<int>(s);
          break;
        }
  }

  bool may_take_over(const Shared& to, const Shared& from) const {
    if (to.by_row || from.by_row || to.dtype != from.dtype ||
        to.last - to.first != from.last - from.first || to.in_place_of >= 0)
      return false;
    // The only part that touches both, row by row; `from` is touched before it, `to` behind it.
    const int part = *to.parts.begin();
    if (*from.parts.rbegin() != part || parts_[static_cast<size_t>(part)].product) return false;
    size_t stored = 0;
    const size_t count = from_.placed.size();
    while (stored < count && from_.placed[stored].statement.store.storage != to.storage) ++stored;
    if (stored == count || part_[stored] != part) return false;
    for (size_t k = 0; k < count; ++k) {
      const Placed& p = from_.placed[k];
      auto touches = [&](const Access& x) { return x.storage == from.storage; };
      const bool here = touches(p.statement.store) ||
                        std::any_of(p.statement.loads.begin(), p.statement.loads.end(), touches);
      if (!here || part_[k] != part) continue;
      // Loops that are over when the first row is stored, or the very statement that stores it.
      const bool before = k < stored && node_[k] != node_[stored];
      if (!before && (k != stored || !reads_in_place(p, to, from))) return false;
    }
    return true;
  }

  /// Does the statement that stores a row of `to` read `from` at the same place alone?
  bool reads_in_place(const Placed& p, const Shared& to, const Shared& from) const {
    const Access& store = p.statement.store;
    if (p.statement.reduction || !store.indirect.empty()) return false;
    return std::all_of(p.statement.loads.begin(), p.statement.loads.end(), [&](const Access& x) {
      if (x.storage != from.storage) return true;
      for (size_t a = 0; a < p.axis_var.size(); ++a)
        if (!is_range(from_, p.axis_var[a]) && x.strides[a] != store.strides[a]) return false;
      return x.indirect.empty() && x.offset - from.first == store.offset - to.first;
    });
  }

  /// Rows of a block: what they share fits into half the second cache, and there are blocks for all
  /// threads. 0: too few rows do.
  int64_t block_rows(int64_t all) const {
    int64_t each = 0, once = 0;
    for (const Shared& s : shared_)
      if (s.in_place_of < 0) (s.by_row ? once : each) += s.stride() * s.size();
    const int64_t budget = target_.second_cache_bytes / (adds_up_ ? 1 : 2) - once;
    int64_t most = std::min(ir::kProductBlock, all);
    if (!adds_up_) {
      int64_t tiles = 1;
      for (int v : from_.range) tiles *= extent(v);
      most = std::min(most, std::max(tiles / kEnough, 2 * ir::kProductRows));
    }
    if (each > 0) most = std::min(most, budget / each);
    const int64_t fewest = fewest_rows();
    if (budget < 0 || most < std::min(fewest, all)) return 0;
    if (most == all) return all;
    const int64_t step = row_step();
    most = most / step * step;
    if (any_size_) return most < kFewestOfAnySize ? 0 : std::bit_floor(static_cast<uint64_t>(most));
    for (int64_t rows = most; rows > most / 2; rows -= step)
      if (all % rows == 0) return rows;
    return most;
  }

  /// Rows of blocks come in multiples of that.
  int64_t row_step() const {
    const bool tiles = std::any_of(from_.placed.begin(), from_.placed.end(), [&](const Placed& p) {
      return is_product(p.statement) && in_tiles(*product_axes(p.statement), target_);
    });
    return tiles && !any_size_ ? ir::kTileRows : ir::kProductRows;
  }

  /// With fewer rows to a block a right operand larger than the second cache comes too slowly.
  int64_t fewest_rows() const {
    const int64_t operand = largest_operand();
    if (operand <= target_.second_cache_bytes) return 0;
    const bool near = is_near(operand, target_);
    const ir::Times& times = target_.times;
    const double rows =
        (near ? kRowsOfLastCache : kRowsOfFar) * times.memory_byte / times.product_flop;
    return std::min(static_cast<int64_t>(rows), ir::kProductBlock);
  }

  /// Are there blocks for several threads, where that matters?
  bool has_blocks(int64_t rows) const {
    if (adds_up_) return true;
    int64_t blocks = (extent(rows_) + rows - 1) / rows;
    for (int v : from_.range)
      if (v != rows_) blocks *= extent(v);
    double work = 0;
    for (const Placed& p : from_.placed)
      if (is_product(p.statement)) work += static_cast<double>(ir::numel(p.statement.axes));
    return blocks >= kFewestBlocks || work < kLittleWork;
  }

  /// The most bytes of a right operand that one product walks.
  int64_t largest_operand() const {
    int64_t most = 0;
    for (const Placed& p : from_.placed) {
      if (!is_product(p.statement)) continue;
      const ProductAxes axes = *product_axes(p.statement);
      int64_t bytes = column_bytes(p.statement, axes);
      for (size_t a : axes.columns)
        if (!is_range(from_, p.axis_var[a])) bytes *= p.statement.axes[a];
      most = std::max(most, bytes);
    }
    return most;
  }

  /// The kernel over rows [first, first + count), in blocks of `rows`, with room for `room`; those
  /// that must run before it go to `before`.
  Kernel build(int64_t first, int64_t count, int64_t rows, int64_t room,
               std::vector<ir::Storage>& storages, std::vector<Kernel>& before) const {
    Kernel made;
    made.vars = from_.vars;
    made.range = from_.range;
    made.placed = from_.placed;
    made.name = from_.name;
    made.vars[static_cast<size_t>(rows_)].extent = count / rows;
    std::vector<int> block_rows;  ///< variables
    for (size_t part = 0; part < parts_.size(); ++part) {
      const auto var = static_cast<int>(made.vars.size());
      const bool product = parts_[part].product;
      block_rows.push_back(var);
      made.vars.push_back({rows, product ? LoopKind::Serial : LoopKind::Step});
      made.body.push_back({std::make_unique<Loop>(Loop{var, {}}), -1});
      const size_t end = part + 1 < parts_.size() ? parts_[part + 1].node : from_.body.size();
      for (size_t n = parts_[part].node; n < end; ++n)
        made.body.back().loop->body.push_back(copy_of(from_.body[n]));
      if (is_sum(part)) make_innermost(made.body.back());
      for (size_t k = 0; k < made.placed.size(); ++k)
        if (part_[k] == static_cast<int>(part)) split(made.placed[k], var, first, count, rows);
    }
    for (Placed& p : made.placed) p.product = is_product(p.statement);
    if (adds_up_) add_up(made, first);
    const std::vector<Reader> masked = masked_readers(made, local_, block_rows, rows_);
    give_scratch(made, first, room);
    for (const Reader& reader : masked) {
      const size_t needed = made.placed.size();
      compute_needed(made, reader, storages);
      find_quiet(made, reader, needed, storages, before);
      share_mask(made, reader, needed, storages, before);
    }
    return made;
  }

  bool is_sum(size_t part) const {
    return parts_[part].product &&
           adds(from_.placed[static_cast<size_t>(leaf_of(from_.body[parts_[part].node]))]);
  }
  /// The outermost of a nest of single loops.
  static void make_innermost(TreeNode& nest) {
    Loop* at = nest.loop.get();
    for (; at->body[0].loop; at = at->body[0].loop.get()) std::swap(at->var, at->body[0].loop->var);
  }

  /// Blocks of rows follow each other in one loop, after what adds up was set to zero.
  void add_up(Kernel& made, int64_t first) const {
    std::erase(made.range, rows_);
    made.vars[static_cast<size_t>(rows_)].kind = LoopKind::Step;
    auto blocks = std::make_unique<Loop>(Loop{rows_, std::move(made.body)});
    made.body.clear();
    const size_t count = made.placed.size();
    for (size_t k = 0; k < count; ++k) {
      if (!adds(from_.placed[k])) continue;
      made.placed[k].adds = true;
      if (first == 0) set_to_zero(made, k);
    }
    made.body.push_back({std::move(blocks), -1});
  }
  void set_to_zero(Kernel& made, size_t product) const {
    const Placed& p = made.placed[product];
    const auto block = static_cast<size_t>(axis_of(p, rows_));
    std::vector<int64_t> axes, strides;
    Placed zero;
    std::vector<int> loops;
    for (size_t a = 0; a < p.axis_var.size(); ++a) {
      if (a == block || p.statement.reduction->axes[a]) continue;
      axes.push_back(p.statement.axes[a]), strides.push_back(p.statement.store.strides[a]);
      zero.axis_var.push_back(p.axis_var[a]);
      if (is_range(made, p.axis_var[a])) continue;
      zero.axis_var.back() = static_cast<int>(made.vars.size());
      made.vars.push_back({axes.back(), LoopKind::Serial});
      loops.push_back(zero.axis_var.back());
    }
    Access store = p.statement.store;
    store.strides = std::move(strides);
    ir::StatementBuilder s(std::move(axes));
    zero.statement = s.store(std::move(store), s.constant(0, c10::ScalarType::Float));
    made.body.push_back(nested(loops, {nullptr, static_cast<int>(made.placed.size())}));
    made.placed.push_back(std::move(zero));
  }

  void split(Placed& p, int var, int64_t first, int64_t count, int64_t rows) const {
    const int a = axis_of(p, rows_);
    take_range(p.statement, static_cast<size_t>(a), first, first + count);
    const bool sums = adds(p);
    split_axis(p.statement, static_cast<size_t>(a), rows);
    if (sums) p.statement.reduction->axes[static_cast<size_t>(a)] = false;
    p.axis_var.insert(p.axis_var.begin() + a + 1, var);
  }

  /// `first`: of the rows, which moved every access of theirs.
  void give_scratch(Kernel& made, int64_t first, int64_t room) const {
    std::map<int, size_t> known;
    for (size_t s = 0; s < shared_.size(); ++s) known[shared_[s].storage] = s;
    for (const Shared& s : shared_) {
      if (s.in_place_of >= 0) continue;
      const int64_t bytes = s.stride() * s.size() * (s.by_row ? 1 : room);
      add_scratch(made, s.name(), bytes);
    }
    for (Placed& p : made.placed) {
      auto move = [&](Access& x) {
        const auto at = known.find(x.storage);
        if (at == known.end()) return;
        const Shared& s = shared_[at->second];
        x.offset -= s.first + first * s.tile[static_cast<size_t>(rows_)];
        const bool in_place = s.in_place_of >= 0;
        x.storage = (in_place ? shared_[static_cast<size_t>(s.in_place_of)] : s).name();
        for (size_t a = 0; a < p.axis_var.size(); ++a) {
          if (is_range(made, p.axis_var[a]) || p.axis_var[a] == rows_) x.strides[a] = 0;
          if (p.axis_var[a] >= static_cast<int>(from_.vars.size()))
            x.strides[a] = s.by_row ? 0 : s.stride();
        }
      };
      move(p.statement.store);
      for (Access& load : p.statement.loads) move(load);
    }
  }

  struct Part {
    size_t node;  ///< the first of the kernel's body
    bool product;
  };

  const Kernel& from_;
  const std::vector<bool>& local_;
  const Settings& settings_;
  const ir::Target& target_;
  int rows_ = -1;
  bool any_size_ = false;  ///< of the rows
  bool adds_up_ = false;
  std::vector<Part> parts_;
  std::vector<int> part_;     ///< per placed
  std::vector<size_t> node_;  ///< per placed: of the kernel's body
  std::vector<Shared> shared_;
};

}  // namespace

bool fits_blocks(const Kernel& kernel, const std::vector<bool>& local, const Settings& settings) {
  return Blocks(kernel, local, settings).plan() > 0;
}

std::optional<std::vector<Kernel>> block_products(const Kernel& kernel,
                                                  const std::vector<bool>& local,
                                                  std::vector<ir::Storage>& storages,
                                                  const Settings& settings) {
  return Blocks(kernel, local, settings).run(storages);
}

}  // namespace graft::passes
