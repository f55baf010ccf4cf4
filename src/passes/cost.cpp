#include "passes/cost.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ir/facts.h"
#include "ir/visit.h"
#include "passes/products.h"
#include "passes/rewrite.h"
#include "passes/touch.h"

namespace graft::passes {

using c10::ScalarType;
using ir::Access;
using ir::Statement;
using ir::Target;

namespace {

/// Fewer tiles than this do not saturate the bandwidth of a larger machine's memory. (With fewer
/// than kEnough some of its threads have nothing to do.)
constexpr double kStreams = 4;

constexpr double kScatter = 1.5;      ///< against a gather
constexpr double kShuffles = 1.5;     ///< for each of the vectors that an interleaved access is in
constexpr double kExchange = 2;       ///< for a vector whose elements change places with another's
constexpr double kFinish = 16;        ///< instructions that make one number of a vector
constexpr double kNotForwarded = 16;  ///< what a load waits for a store that it should have seen
constexpr double kSmallMachine = 2;   ///< threads

/// After so many lines that lie apart the next vector of the same rows finds neither lines nor
/// pages in reach (Times::far_line).
constexpr double kFarSteps = 512;

/// A loop order of the group: the vector loop is an outer axis, or each member's best inner one.
struct Order {
  int outer = -1;  ///< into Group::outer; -1: inner
};

bool is_outer(const Group& group, size_t m, size_t axis) {
  const auto& axes = group.outer_axis[m];
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

class GroupCost {
 public:
  GroupCost(const Group& group, const std::vector<int>& touching,
            const std::vector<ir::Storage>& storages, const Target& target)
      : group_(group), touching_(touching), storages_(storages), target_(target) {}

  double run() {
    find_phases();
    double best = of(Order{});
    // Blocks of rows are walked row by row.
    if (std::any_of(group_.members.begin(), group_.members.end(), is_product)) return best;
    for (size_t o = 0; o < group_.outer.size(); ++o)
      best = std::min(best, of(Order{static_cast<int>(o)}));
    return best;
  }

 private:
  double of(Order order) {
    vector_axis_.clear();
    for (size_t m = 0; m < group_.members.size(); ++m)
      vector_axis_.push_back(vector_axis(m, order));
    double tiles = 1;
    for (size_t o = 0; o < group_.outer.size(); ++o)
      tiles *= static_cast<double>(group_.outer[o]) /
               (static_cast<int>(o) == order.outer ? target_.lanes : 1);
    tiles = std::max(tiles, 1.0);
    double compute = instructions(order) * target_.times.instruction, memory = moved(order);
    auto time = [&](double threads) {
      return compute * std::max(1.0, kEnough / threads) +
             memory * std::max(1.0, kStreams / threads);
    };
    // As many threads as a small machine has, or one.
    double together = target_.times.threads + time(tiles),
           single = (compute + memory) * kSmallMachine;
    return target_.times.kernel + std::min(together, std::max(single, time(tiles)));
  }

  /// The axis of member m that is the vector loop's; -1 where no axis can be.
  int vector_axis(size_t m, Order order) const {
    const Statement& s = group_.members[m];
    if (order.outer >= 0) {
      size_t axis = group_.outer_axis[m][static_cast<size_t>(order.outer)];
      return axis == kNoAxis ? -1 : static_cast<int>(axis);
    }
    int best = -1;
    double least = 0;
    for (size_t a = s.repeated() ? 1 : 0; a < s.axes.size(); ++a) {
      if (is_outer(group_, m, a) || (scans(s) && s.reduction->axes[a])) continue;
      double each = vector_cost(s, static_cast<int>(a), target_);
      if (best < 0 || each < least) best = static_cast<int>(a), least = each;
    }
    return best;
  }

  /// Does the lanes pass transpose what the steps of a loop work on?
  bool turns() const { return group_.repeats > 0 && !jumps(group_); }

  double instructions(Order order) const {
    double sum = 0;
    std::vector<StagedRow> staged;
    if (order.outer >= 0 && !turns()) staged = stage(sum);
    for (size_t m = 0; m < group_.members.size(); ++m) {
      const Statement& s = group_.members[m];
      int axis = vector_axis_[m];
      if (is_product(s)) {
        sum += product_nanoseconds(s, target_) / target_.times.instruction;
        continue;
      }
      double each = vector_cost(s, axis, target_, staged);
      if (axis >= 0 && turns())
        each = std::min(each,
                        static_cast<double>(work(s)) + 4 * static_cast<double>(s.loads.size() + 1));
      sum += each * static_cast<double>(points(s)) / target_.lanes;
    }
    return sum;
  }

  /// The rows, one for each lane, that are short enough to be transposed into scratch
  /// (staging.h); adds what that takes.
  std::vector<StagedRow> stage(double& sum) const {
    struct Row {
      int64_t first = INT64_MAX, last = INT64_MIN, apart = 0;
      double points = 0;
      bool fits = true, loaded = false, stored = false;
      ScalarType dtype = ScalarType::Float;
    };
    std::map<int, Row> rows;
    for (size_t m = 0; m < group_.members.size(); ++m) {
      const Statement& s = group_.members[m];
      auto count = [&](const Access& x, bool store) {
        Row& row = rows[x.storage];
        const int axis = vector_axis_[m];
        const int64_t apart = axis < 0 ? 0 : std::abs(x.strides[static_cast<size_t>(axis)]);
        row.fits =
            row.fits && x.indirect.empty() && apart > 0 && (row.apart == 0 || row.apart == apart);
        row.apart = apart, row.dtype = x.dtype;
        int64_t first = x.offset, last = x.offset;
        double points = 1;
        for (size_t a = 0; a < s.axes.size(); ++a) {
          if (is_outer(group_, m, a)) continue;
          (x.strides[a] < 0 ? first : last) += x.strides[a] * (s.axes[a] - 1);
          points *= static_cast<double>(s.axes[a]);
        }
        row.first = std::min(row.first, first), row.last = std::max(row.last, last);
        row.points += points;
        (store ? row.stored : row.loaded) = true;
      };
      count(s.store, true);
      for (const Access& load : s.loads) count(load, false);
    }
    std::vector<StagedRow> staged;
    const int64_t longest = std::any_of(group_.members.begin(), group_.members.end(), scans)
                                ? kLongestScanned
                                : kLongestStaged;
    double tiles = 1;
    for (int64_t extent : group_.outer) tiles *= static_cast<double>(extent);
    for (const auto& [storage, row] : rows) {
      const int64_t count = row.last - row.first + 1;
      if (!row.fits || row.apart <= ir::kInterleaved || count > row.apart || count > longest ||
          count < 2 || row.points < static_cast<double>(count) / 2)
        continue;
      staged.emplace_back(storage, row.apart);
      const bool mine = storages_[static_cast<size_t>(storage)].role == ir::Role::Temporary &&
                        touching_[static_cast<size_t>(storage)] == members_of(storage);
      if (!mine)
        sum += (row.loaded + row.stored) * transposing_cost(count, row.dtype, target_) * tiles /
               target_.lanes;
    }
    return staged;
  }

  /// How many members touch the storage.
  int members_of(int storage) const {
    int members = 0;
    for (const Statement& s : group_.members)
      members += s.store.storage == storage ||
                 std::any_of(s.loads.begin(), s.loads.end(),
                             [&](const Access& x) { return x.storage == storage; });
    return members;
  }

  /// Finds for each member after how many loops over its inner axes it can run: a reduction's value
  /// is there when its loop has ended, and what steps make when the last one has.
  void find_phases() {
    phase_.assign(group_.members.size(), 0);
    for (size_t m = 0; m < phase_.size(); ++m)
      for (size_t k = 0; k < m; ++k) {
        const Statement& producer = group_.members[k];
        bool reads =
            std::any_of(group_.members[m].loads.begin(), group_.members[m].loads.end(),
                        [&](const Access& load) { return load.storage == producer.store.storage; });
        bool ended = producer.reduction || group_.repeat[k] != group_.repeat[m];
        if (reads) phase_[m] = std::max(phase_[m], phase_[k] + (ended ? 1 : 0));
      }
  }

  /// Nanoseconds of moving what the group touches, each storage once.
  double moved(Order order) const {
    struct Part {
      std::map<int64_t, double> bytes;  ///< by offset
      double worst = 1, tile = 0, size = 0;
      int64_t first = INT64_MAX, last = INT64_MIN;
      int members = 0;
      std::set<int> phases;
      size_t member = 0;
    };
    std::map<int, Part> parts;
    for (size_t m = 0; m < group_.members.size(); ++m) {
      const Statement& s = group_.members[m];
      auto count = [&](const Access& x) {
        Part& part = parts[x.storage];
        if (part.members == 0 || part.member != m) ++part.members, part.member = m;
        part.phases.insert(phase_[m]);
        auto size = static_cast<double>(c10::elementSize(x.dtype));
        double all = size, tile = size;
        int64_t least = 0;
        for (size_t a = 0; a < s.axes.size(); ++a) {
          if (x.strides[a] == 0 && !is_scattered(s, x, a)) continue;
          all *= static_cast<double>(s.axes[a]);
          if (s.axes[a] > 1 && (least == 0 || std::abs(x.strides[a]) < least))
            least = std::abs(x.strides[a]);
          if (!is_outer(group_, m, a))
            tile += size * static_cast<double>(std::abs(x.strides[a]) * (s.axes[a] - 1));
        }
        for (const ir::Indirect& i : x.indirect)
          tile +=
              size * static_cast<double>(std::abs(i.stride) * std::max<int64_t>(i.extent - 1, 0));
        // What lies between interleaved elements moves with them.
        if (least <= ir::kInterleaved) all *= static_cast<double>(std::max<int64_t>(least, 1));
        ir::Span reach = span(x, s);
        part.first = std::min(part.first, reach.first), part.last = std::max(part.last, reach.last);
        double& bytes = part.bytes[x.offset];
        bytes = std::max(bytes, all);
        part.size = std::max(part.size, size);
        part.tile = std::max(part.tile, tile * (order.outer >= 0 ? target_.lanes : 1));
        if (x.indirect.empty()) part.worst = std::max(part.worst, far(x, m, order));
      };
      count(s.store);
      for (const Access& load : s.loads) count(load);
    }
    double sum = 0;
    for (const auto& [storage, part] : parts) {
      bool mine = storages_[static_cast<size_t>(storage)].role == ir::Role::Temporary &&
                  part.members >= touching_[static_cast<size_t>(storage)];
      // Within one loop values are passed on, and a small tile's part stays in the cache.
      const bool kept = part.tile <= static_cast<double>(target_.second_cache_bytes) / 2;
      if (mine && (part.phases.size() == 1 || kept)) continue;
      double bytes = 0;
      for (const auto& [offset, each] : part.bytes) bytes += each;
      bytes = std::min(bytes, static_cast<double>(part.last - part.first + 1) * part.size);
      if (!kept) bytes *= static_cast<double>(part.phases.size());
      const int64_t all = storages_[static_cast<size_t>(storage)].bytes;
      sum += bytes * byte_nanoseconds(all, target_) *
             (all <= target_.second_cache_bytes ? 1 : part.worst);
    }
    return sum;
  }

  /// How much longer the access's lines take than in the order of memory: in a loop inside of the
  /// vector loop, or in a vector loop that gathers, each step goes to another page.
  double far(const Access& x, size_t m, Order order) const {
    if (turns()) return 1;  // in scratch
    const Statement& s = group_.members[m];
    if (is_product(s)) return 1;  // in blocks
    int vector = vector_axis_[m];
    auto size = static_cast<int64_t>(c10::elementSize(x.dtype));
    double steps = 1;
    for (size_t a = 0; a < s.axes.size(); ++a) {
      bool walks = order.outer < 0 ? static_cast<int>(a) == vector
                                   : static_cast<int>(a) == vector || !is_outer(group_, m, a);
      if (walks && std::abs(x.strides[a]) * size >= kApartBytes)
        steps *= static_cast<double>(s.axes[a]);
    }
    return steps > kFarSteps ? target_.times.far_line : 1;
  }

  const Group& group_;
  const std::vector<int>& touching_;
  const std::vector<ir::Storage>& storages_;
  const Target& target_;
  std::vector<int> phase_;        ///< per member
  std::vector<int> vector_axis_;  ///< per member, in the order at hand
};

/// Instructions that an access of the statement takes for a vector of points along `axis`: one
/// where lanes lie side by side, a few that load and shuffle what two to four such accesses share,
/// otherwise one or more per lane, by how far apart they are. Stores so close are taken to come
/// together, too.
double access_cost(const Statement& s, const Access& access, size_t axis, const Target& target) {
  int64_t stride = std::abs(access.strides[axis]);
  int64_t bytes = stride * static_cast<int64_t>(c10::elementSize(access.dtype));
  const bool scattered = is_scattered(s, access, axis);
  if (!scattered && stride <= 1) return stride == 0 ? 0.25 : 1;
  double lane = scattered                   ? 1
                : bytes < target.line_bytes ? kGathered
                : bytes < target.page_bytes ? 1.5
                                            : 2;
  if (&access == &s.store) lane *= kScatter;
  double each = lane * target.lanes;
  bool interleaved = !scattered && access.strides[axis] > 1 && stride <= ir::kInterleaved;
  return interleaved ? std::min(each, kShuffles * static_cast<double>(stride)) : each;
}

/// Of a vector loop of this extent, whose vectors take `each`: for a vector's worth of its points.
/// What a loop `adds` up, the next one's start waits for.
double short_loop(double each, double extent, bool adds, const Target& target) {
  constexpr double kLoopStart = 4;
  const double start = adds ? each / 2 : std::min(kLoopStart, each / 2);
  return (std::ceil(extent / target.lanes) * each + start) * target.lanes / extent;
}

}  // namespace

double mean_extent(const Statement& s, size_t axis) {
  auto extent = static_cast<double>(s.axes[axis]);
  if (s.repeated()) extent += 0.5 * static_cast<double>(s.growth[axis] * (s.axes[0] - 1));
  return std::max(extent, 1.0);
}

double vector_cost(const Statement& s, int axis, const Target& target,
                   const std::vector<StagedRow>& staged) {
  if (axis < 0) return (static_cast<double>(s.loads.size()) + 1 + work(s)) * target.lanes;
  auto a = static_cast<size_t>(axis);
  auto of = [&](const Access& x) {
    const StagedRow row(x.storage, std::abs(x.strides[a]));
    return std::find(staged.begin(), staged.end(), row) != staged.end()
               ? 1
               : access_cost(s, x, a, target);
  };
  double sum = work(s);
  for (const Access& load : s.loads) sum += of(load);
  // A reduction stores once for all that it reduces.
  double stores = static_cast<double>(points(s)), results = stores;
  for (size_t b = 0; s.reduction && b < s.axes.size(); ++b)
    if (s.reduction->axes[b] && !s.reduction->scan) results /= static_cast<double>(s.axes[b]);
  bool reduced = s.reduction && s.reduction->axes[a];
  double store = of(s.store);
  if (reduced) store = target.lanes * kFinish;  // a vector of them
  double each = sum + store * results / stores + (s.reduction ? 1 : 0);
  // What is stored through a mask is not forwarded to the next step's load.
  const bool adds_up = !s.store.indirect.empty() &&
                       std::find(s.loads.begin(), s.loads.end(), s.store) != s.loads.end();
  if (adds_up && mean_extent(s, a) < target.lanes) each += kNotForwarded;
  return short_loop(each, mean_extent(s, a), reduced, target);
}

double transposing_cost(int64_t count, ScalarType dtype, const Target& target) {
  const auto lanes = static_cast<double>(target.lanes);
  // Rows are loaded, joined to vectors, change places in rounds, and are stored.
  auto part = [&](double columns) {
    return lanes + lanes - columns + kExchange * columns * std::log2(columns) + columns;
  };
  const int64_t whole = count / target.lanes, left = count % target.lanes;
  const bool masks = target.avx512() || (target.avx2() && c10::elementSize(dtype) >= 4);
  const int last = std::min(ir::last_columns(count, false), target.lanes);
  return static_cast<double>(whole) * part(lanes) +
         (left == 0 ? 0
          : masks   ? part(last)
                    : kGathered * lanes * static_cast<double>(left));
}

double product_nanoseconds(const Statement& s, const ir::Target& target) {
  const ProductAxes axes = *product_axes(s);
  const ScalarType type = axes.left_type == axes.right_type ? axes.left_type : ScalarType::Float;
  return 2 * static_cast<double>(points(s)) * target.product_flop(type);
}

double nanoseconds(double instructions, int64_t points, const ir::Target& target) {
  return instructions * static_cast<double>(points) / target.lanes * target.times.instruction;
}

double nanoseconds(const Statement& s, const ir::Target& target) {
  double least = vector_cost(s, -1, target);
  for (size_t a = 0; a < s.axes.size(); ++a)
    least = std::min(least, vector_cost(s, static_cast<int>(a), target));
  return nanoseconds(least, points(s), target);
}

double byte_nanoseconds(int64_t storage_bytes, const ir::Target& target) {
  return storage_bytes <= target.second_cache_bytes ? target.times.cache_byte
                                                    : target.times.memory_byte;
}

double cost(const Group& group, const std::vector<int>& touching,
            const std::vector<ir::Storage>& storages, const Target& target) {
  return GroupCost(group, touching, storages, target).run();
}

}  // namespace graft::passes
