#include "passes/grouper.h"

#include <algorithm>
#include <optional>
#include <set>

#include "ir/builder.h"
#include "ir/facts.h"
#include "ir/overlap.h"
#include "ir/visit.h"
#include "passes/block_products.h"
#include "passes/build_kernel.h"
#include "passes/cost.h"
#include "passes/product_tiles.h"
#include "passes/products.h"
#include "passes/rewrite.h"
#include "passes/scattered_rows.h"
#include "passes/touch.h"

namespace graft::passes {

using ir::Access;
using ir::Program;
using ir::Statement;

namespace {

/// Groups that a statement may join: long programs take long enough.
constexpr size_t kLookBack = 128, kLookDown = 32;
constexpr double kWorthSharing = 0.94, kWorthNarrowing = 0.9, kNoWorse = 1.02, kLittle = 1.05;

class Grouper {
 public:
  Grouper(Program program, bool share, const Settings& settings, Decider& decider)
      : program_(std::move(program)),
        share_(share),
        settings_(settings),
        target_(settings.target),
        decider_(decider),
        private_(private_storages(program_)),
        touching_(count_touching(program_)) {}

  std::vector<GroupOrItem> run() {
    for (ir::Item& item : program_.items)
      ir::match(
          std::move(item), [&](Statement&& s) { place(std::move(s)); },
          [&](ir::Repeat&& r) { place(std::move(r)); },
          [&](ir::Extern&& e) { groups_.emplace_back(std::move(e)); },
          [&](ir::Abort&& a) { groups_.emplace_back(a); });
    if (share_) {
      rise();
      sink();
      sink_members();
    }
    return std::move(groups_);
  }

 private:
  bool visible(int storage) const {
    auto role = program_.storages[static_cast<size_t>(storage)].role;
    return ir::is_callers(role);
  }

  /// Its addresses come from data, which an earlier check may have found out of range.
  static bool indexes(const Statement& t) {
    return !t.store.indirect.empty() ||
           std::any_of(t.loads.begin(), t.loads.end(),
                       [](const Access& load) { return !load.indirect.empty(); });
  }

  bool depends(const GroupOrItem& earlier, const Group& unit) const {
    return std::any_of(unit.members.begin(), unit.members.end(),
                       [&](const Statement& t) { return depends(earlier, t); });
  }

  bool depends(const GroupOrItem& earlier, const Statement& t) const {
    return ir::match(
        earlier, [&](const Group& group) { return depends(group, t); },
        [&](const ir::Extern& e) { return depends(e, t); },
        [&](const ir::Abort& a) {
          return visible(t.store.storage) || t.store.storage == a.flag || indexes(t);
        });
  }
  static bool depends(const Group& group, const Statement& t) {
    std::vector<Conflict> found;
    return std::any_of(group.members.begin(), group.members.end(), [&](const Statement& s) {
      conflicts(s, t, found);
      return !found.empty();
    });
  }
  bool depends(const ir::Extern& e, const Statement& t) const {
    if (visible(t.store.storage))
      return true;  // the extern may throw, and eager would not have stored yet
    auto in = [](const std::vector<int>& list, int x) {
      return std::find(list.begin(), list.end(), x) != list.end();
    };
    if (in(e.written, t.store.storage) || in(e.written, t.after)) return true;
    for (const ir::View& v : e.inputs)
      if (v.storage == t.store.storage) return true;
    return std::any_of(t.loads.begin(), t.loads.end(),
                       [&](const Access& load) { return in(e.written, load.storage); });
  }

  void place(Statement s) {
    drop_unit_axes(s);
    compact(s);
    place(alone(std::move(s)));
  }

  /// As one unit when its steps can run tile by tile, or are one operator's; otherwise step by
  /// step.
  void place(ir::Repeat r) {
    if (auto unit = share_ || !r.origin ? unit_of(r, private_, target_) : std::nullopt)
      return place(std::move(*unit));
    for (int64_t step = 0; step < r.count; ++step)
      for (const Statement& s : r.body) place(ir::at_step(s, step));
  }

  void place(Group unit) {
    if (share_) {
      // Every group it depends on lies before `first`, or further back than it looks: it may join
      // the one before or any later one.
      size_t first = groups_.size(), last = first - std::min(first, kLookBack);
      while (first > last && !depends(groups_[first - 1], unit)) --first;
      if (first > last && try_join(first - 1, unit)) return;
      for (size_t g = groups_.size(); g-- > first;)
        if (try_join(g, unit)) return;
    }
    groups_.emplace_back(std::move(unit));
  }

  /// Groups move up to the one whose values they read: a statement joined another of its inputs
  /// when this one had not been made yet. Not past calls, whose memory would lie beside theirs.
  void rise() {
    for (size_t i = 1; i < groups_.size(); ++i) {
      const auto* group = std::get_if<Group>(&groups_[i]);
      if (group == nullptr) continue;
      const size_t last = i - std::min(i, kLookDown);
      size_t j = i;
      while (j > last && std::holds_alternative<Group>(groups_[j - 1]) &&
             !depends(groups_[j - 1], *group))
        --j;
      // Its neighbour was tried when the group began, and again by those that joined it.
      if (j == last || j == i || !try_join(j - 1, *group)) continue;
      groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(i));
      --i;
    }
  }

  /// Groups that nothing in between needs move down to a later one that gains by it: what makes all
  /// of a list before any of it is used.
  void sink() {
    for (size_t i = groups_.size(); i-- > 0;) {
      if (!std::holds_alternative<Group>(groups_[i])) continue;
      for (size_t j = i + 1; j < std::min(groups_.size(), i + 1 + kLookDown); ++j) {
        Group& group = std::get<Group>(groups_[i]);
        const auto* later = std::get_if<Group>(&groups_[j]);
        if (later && group.members.size() + later->members.size() <= kMaxMembers &&
            join(group, *later)) {
          groups_[j] = std::move(groups_[i]);
          groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(i));
          // A product's readers may be what makes it gain by company further down.
          if (has_product(std::get<Group>(groups_[j - 1]))) i = j;
          break;
        }
        if (depends(groups_[j], group)) break;
      }
    }
  }

  /// Likewise single statements whose readers all lie in later kernels: what joined a sum for their
  /// common input, and is used where that sum is known.
  void sink_members() {
    for (size_t i = groups_.size(); i-- > 0;) {
      const auto* group = std::get_if<Group>(&groups_[i]);
      if (group == nullptr) continue;
      for (size_t m = group->members.size(); m-- > 0 && group->members.size() > 1;)
        sink_member(i, m);
    }
  }

  void sink_member(size_t i, size_t m) {
    Group& group = std::get<Group>(groups_[i]);
    const Statement& s = group.members[m];
    if (group.repeat[m] >= 0 || visible(s.store.storage)) return;
    std::vector<Conflict> met;
    for (size_t n = m + 1; n < group.members.size(); ++n) conflicts(s, group.members[n], met);
    if (!met.empty()) return;
    Group moved = alone(s);
    size_t j = i + 1;
    const size_t last = std::min(groups_.size(), j + kLookDown);
    while (j < last && !depends(groups_[j], moved)) ++j;
    const auto* later = j < last ? std::get_if<Group>(&groups_[j]) : nullptr;
    if (later == nullptr || later->members.size() >= kMaxMembers) return;
    Group rest = without(group, m);
    if (is_product_alone(rest)) return;  // which stays a call, and routines may take twice the time
    const double apart = cost_of(group) + cost_of(*later) - cost_of(rest);
    if (!join(moved, *later, apart)) return;
    groups_[i] = std::move(rest);
    groups_[j] = std::move(moved);
  }

  bool try_join(size_t g, const Group& unit) {
    auto* group = std::get_if<Group>(&groups_[g]);
    return group && group->members.size() + unit.members.size() <= kMaxMembers &&
           join(*group, unit);
  }

  /// Is what it makes to be folded? Such statements are kernels of their own.
  bool folds(const Group& group) const {
    return program_.storages[static_cast<size_t>(group.members.front().store.storage)].folded;
  }

  bool is_to_be_alone(const Group& group) const {
    return group.members.size() == 1 && adds_to_short_rows(group.members.front(), target_);
  }

  /// Adds `unit` to the group if they can share tiles and gain by it. `apart`: nanoseconds that the
  /// other way takes; both as they are unless given.
  bool join(Group& group, const Group& unit, std::optional<double> apart = {}) const {
    if (folds(group) != folds(unit) || is_to_be_alone(group) || is_to_be_alone(unit)) return false;
    std::vector<Conflict> any;
    for (const Statement& s : group.members)
      for (const Statement& t : unit.members)
        if (any.empty()) conflicts(s, t, any);
    if (any.empty() && !same_tiles(group, unit)) return false;
    Group trial = group, candidate = unit;
    align(trial, candidate);
    if (join_aligned(group, unit, trial, candidate, apart)) return true;
    if (candidate.members.size() != 1 || !is_product(candidate.members.front())) return false;
    // As it was, too: what the group walks in two axes may be the rows of this one.
    const auto adding_up = [&](const Group& product) {
      Group sums = over_terms(product.members.front());
      return adds_up(trial, sums) && join_aligned(group, unit, trial, std::move(sums), apart);
    };
    return adding_up(candidate) || adding_up(unit);
  }

  /// May a product of what the group makes add up over its blocks of rows, which are its terms?
  /// There have to be other tiles: a block waits for the one before.
  static bool adds_up(const Group& group, const Group& sums) {
    if (!has_product(group)) return false;
    const Shared shared = shared_axes(group, sums);
    int64_t tiles = 1;
    bool terms = false;
    for (size_t k : shared.unit) {
      if (k + 1 == sums.outer.size())
        terms = true;
      else
        tiles *= sums.outer[k];
    }
    return terms && tiles >= kEnough / 2;
  }

  /// `trial`, `candidate`: the group and the unit over axes that match.
  bool join_aligned(Group& group, const Group& unit, Group trial, Group candidate,
                    std::optional<double> apart) const {
    Shared shared = shared_axes(trial, candidate);
    if (!shared.vertical) {
      int64_t tiles = ir::numel(trial.outer);
      if (shared.group.size() != trial.outer.size() ||
          most_inner_points(candidate, tiles) != most_inner_points(trial, tiles))
        return false;
    }
    // Both ways call the same functions.
    const double calls = calls_of(trial) + calls_of(candidate);
    double first = cost_of(trial), second = cost_of(candidate);
    bool all_tiles = shared.group.size() == trial.outer.size(),
         narrower = first < second ? shared.unit.size() < candidate.outer.size() : !all_tiles;
    // Steps that jump run in chunks of tiles if nothing else is in theirs.
    if (jumps(trial) || jumps(candidate))
      narrower = !all_tiles || shared.unit.size() < candidate.outer.size();
    append(trial, std::move(candidate), shared);
    if (has_product(trial) && !fits(trial)) return false;
    double together = cost_of(trial);
    // Where the larger one gives up parallel axes it loses later company, too. Without a dependence
    // they compete for registers and write streams.
    double most = !shared.vertical ? kWorthSharing : narrower ? kWorthNarrowing : kNoWorse;
    bool gains = together - calls <= (apart.value_or(first + second) - calls) * most;
    // A little work for each tile, as one row's factor, leaves the group open to what needs it.
    if (shared.vertical && all_tiles && !apart) gains = gains || together <= first * kLittle;
    const size_t way = decider_.choose(gains ? 0 : 1, [&] {
      return Decision{.about = stored_by(group) + " + " + stored_by(unit),
                      .ways = {{"together", together}, {"apart", apart.value_or(first + second)}}};
    });
    if (way != 0) return false;
    group = std::move(trial);
    return true;
  }

  /// Can the group, which has products, be a kernel?
  bool fits(Group group) const {
    if (!keep_rows(group, target_)) return false;
    std::vector<int> touched(touching_.size(), 0);
    for (const Statement& s : group.members) {
      std::set<int> storages;
      each_touch(s, [&](int storage, bool) { storages.insert(storage); });
      for (int storage : storages) ++touched[static_cast<size_t>(storage)];
    }
    std::vector<bool> local(touching_.size());
    for (size_t k = 0; k < local.size(); ++k)
      local[k] = program_.storages[k].role == ir::Role::Temporary && touched[k] == touching_[k];
    return fits_blocks(build_kernel(group, local), local, settings_);
  }

  static std::string stored_by(const Group& group) {
    std::vector<const Statement*> members;
    for (const Statement& s : group.members) members.push_back(&s);
    return passes::stored_by(members);
  }

  double cost_of(const Group& group) const {
    if (has_product(group)) {  // its tiles are rows in the end
      Group rows = group;
      keep_rows(rows, target_);
      return cost(rows, touching_, program_.storages, target_);
    }
    return cost(group, touching_, program_.storages, target_);
  }

  /// Nanoseconds in routines, those for matrix products among them, of both threads of a small
  /// machine.
  double calls_of(const Group& group) const {
    double sum = 0;
    for (const Statement& s : group.members) {
      if (is_product(s)) sum += product_nanoseconds(s, target_);
      int each = 0;
      for (const ir::Node& node : s.expr.nodes)
        if (node.op == ir::Op::Call) each += ir::cost(node);
      sum += nanoseconds(each, points(s), target_);
    }
    return sum;
  }

  /// Has the unit all extents of the group's tiles? Only those without a dependence need them all.
  static bool same_tiles(const Group& group, const Group& unit) {
    std::vector<int64_t> has = unit.outer;
    return std::all_of(group.outer.begin(), group.outer.end(), [&](int64_t extent) {
      auto found = std::find(has.begin(), has.end(), extent);
      if (found == has.end()) return false;
      has.erase(found);
      return true;
    });
  }

  static int64_t most_inner_points(const Group& group, int64_t tiles) {
    int64_t most = 1;
    for (const Statement& s : group.members)
      most = std::max(most, points(s) / std::max<int64_t>(tiles, 1));
    return most;
  }

  /// Splits axes where one side walks in one axis what the other walks in several ([B*S, D] beside
  /// [B, S, D]).
  static void align(Group& group, Group& unit) {
    for (int round = 0; round < 6; ++round)
      if (!align_once(group, unit)) return;
  }
  static bool align_once(Group& group, Group& unit) {
    std::vector<Conflict> met;
    for (size_t m = 0; m < group.members.size(); ++m)
      for (size_t n = 0; n < unit.members.size(); ++n) {
        if (group.members[m].repeated() || unit.members[n].repeated()) continue;
        met.clear();
        conflicts(group.members[m], unit.members[n], met);
        for (const Conflict& c : met)
          if (c.member->dtype == c.incoming->dtype && align_over(group, m, unit, n, c)) return true;
      }
    return false;
  }
  /// Member m of the group, n of the unit.
  static bool align_over(Group& group, size_t m, Group& unit, size_t n, const Conflict& c) {
    for (size_t o = 0; o < group.outer.size(); ++o)
      for (size_t u = 0; u < unit.outer.size(); ++u) {
        const size_t a = group.outer_axis[m][o], b = unit.outer_axis[n][u];
        if (a == kNoAxis || b == kNoAxis) continue;
        const int64_t theirs = c.member->strides[a], ours = c.incoming->strides[b];
        const int64_t extent = group.outer[o], steps = unit.outer[u];
        if (theirs <= 0 || ours <= 0) continue;
        auto splits = [](Group& side, size_t axis, int64_t whole, int64_t inner) {
          return whole > inner && inner > 1 && whole % inner == 0 && split_outer(side, axis, inner);
        };
        if (ours < theirs && theirs % ours == 0 && splits(unit, u, steps, theirs / ours))
          return true;
        if (ours > theirs && ours % theirs == 0 && splits(group, o, extent, ours / theirs))
          return true;
        if (ours == theirs && (splits(unit, u, steps, extent) || splits(group, o, extent, steps)))
          return true;
      }
    return false;
  }

  Program program_;
  bool share_;
  const Settings& settings_;
  const ir::Target& target_;
  Decider& decider_;
  std::vector<bool> private_;  ///< temporaries that one item alone touches
  std::vector<int> touching_;  ///< per storage: how many statements and other items do
  std::vector<GroupOrItem> groups_;
};

}  // namespace

std::vector<GroupOrItem> group(Program program, bool share, const Settings& settings,
                               Decider& decider) {
  return Grouper(std::move(program), share, settings, decider).run();
}

}  // namespace graft::passes
