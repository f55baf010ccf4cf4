#include "passes/fuse.h"

#include <algorithm>
#include <optional>

#include "ir/builder.h"
#include "passes/digits.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Access;
using ir::Program;
using ir::Statement;

namespace {

constexpr size_t kMaxMembers = 40;
constexpr int64_t kSmall =
    1 << 15;  ///< points below which one thread does it all and parallel axes do not matter
constexpr int64_t kEnough = 16;  ///< tiles that keep the threads of a small machine busy

/// Two accesses that may meet, one of them a store.
struct Conflict {
  const Access* member;
  const Access* incoming;
};

bool meet(const Access& store, const Statement& s, const Access& access, const Statement& t) {
  return may_touch(store, s.axes, access, t.axes) &&
         relate(store, s.axes, access, t.axes).relation != Relation::Disjoint;
}

void conflicts(const Statement& s, const Statement& t, std::vector<Conflict>& out) {
  if (meet(s.store, s, t.store, t)) out.push_back({&s.store, &t.store});
  for (const Access& load : t.loads)
    if (meet(s.store, s, load, t)) out.push_back({&s.store, &load});
  for (const Access& load : s.loads)
    if (meet(t.store, t, load, s)) out.push_back({&load, &t.store});
}

bool parallel(const Statement& s, size_t axis) {
  return !s.reduction || !s.reduction->axes[axis];
}

int64_t footprint(const Access& access, const Statement& s) {
  int64_t n = static_cast<int64_t>(c10::elementSize(access.dtype));
  for (size_t a = 0; a < s.axes.size(); ++a)
    if (access.strides[a] != 0) n *= s.axes[a];
  return n;
}

/// The slowest-moving axis of the statement's largest access: a tile loop that leaves it inside
/// would stride memory.
std::optional<size_t> slowest_axis(const Statement& s) {
  const Access* largest = &s.store;
  for (const Access& load : s.loads)
    if (footprint(load, s) > footprint(*largest, s)) largest = &load;
  std::optional<size_t> slowest;
  for (size_t a = 0; a < s.axes.size(); ++a)
    if (largest->strides[a] != 0 &&
        (!slowest || std::abs(largest->strides[a]) > std::abs(largest->strides[*slowest])))
      slowest = a;
  return slowest;
}

class Grouper {
 public:
  Grouper(Program& program, bool fuse) : program_(program), fuse_(fuse) {}

  std::vector<GroupOrItem> run() {
    for (ir::Item& item : program_.items) {
      if (auto* s = std::get_if<Statement>(&item)) {
        place(std::move(*s));
      } else if (auto* e = std::get_if<ir::Extern>(&item)) {
        groups_.emplace_back(std::move(*e));
      } else {
        groups_.emplace_back(std::move(std::get<ir::Abort>(item)));
      }
    }
    return std::move(groups_);
  }

 private:
  bool visible(int storage) const {
    auto role = program_.storages[static_cast<size_t>(storage)].role;
    return role == ir::Role::Argument || role == ir::Role::Captured;
  }

  /// Its addresses come from data, which an earlier check may have found out of range.
  static bool indexes(const Statement& t) {
    return !t.store.indirect.empty() ||
           std::any_of(t.loads.begin(), t.loads.end(),
                       [](const Access& load) { return !load.indirect.empty(); });
  }

  bool depends(const GroupOrItem& earlier, const Statement& t) const {
    if (const auto* group = std::get_if<Group>(&earlier)) {
      std::vector<Conflict> found;
      for (const Statement& s : group->members) {
        conflicts(s, t, found);
        if (!found.empty()) return true;
      }
      return false;
    }
    if (const auto* abort = std::get_if<ir::Abort>(&earlier))
      return visible(t.store.storage) || t.store.storage == abort->flag || indexes(t);
    const auto& e = std::get<ir::Extern>(earlier);
    if (visible(t.store.storage))
      return true;  // the extern may throw, and eager would not have stored yet
    auto in = [](const std::vector<int>& list, int x) {
      return std::find(list.begin(), list.end(), x) != list.end();
    };
    if (in(e.written, t.store.storage)) return true;
    for (const ir::View& v : e.inputs)
      if (v.storage == t.store.storage) return true;
    return std::any_of(t.loads.begin(), t.loads.end(),
                       [&](const Access& load) { return in(e.written, load.storage); });
  }

  void place(Statement s) {
    drop_unit_axes(s);
    compact(s);
    if (fuse_) {
      // Every group it depends on lies at or before `first`: it may join that one or any later one.
      size_t first = groups_.size();
      while (first > 0 && !depends(groups_[first - 1], s)) --first;
      if (first > 0 && try_join(first - 1, s)) return;
      for (size_t g = groups_.size(); g-- > first;)
        if (try_join(g, s)) return;
    }
    Group fresh;
    std::vector<size_t> axes;
    for (size_t a = 0; a < s.axes.size(); ++a)
      if (parallel(s, a)) {
        fresh.outer.push_back(s.axes[a]);
        axes.push_back(a);
      }
    fresh.outer_axis.push_back(std::move(axes));
    fresh.members.push_back(std::move(s));
    groups_.emplace_back(std::move(fresh));
  }

  bool try_join(size_t g, Statement& t) {
    auto* group = std::get_if<Group>(&groups_[g]);
    return group && group->members.size() < kMaxMembers && join(*group, t);
  }

  /// Adds `t` to the group if they can share tiles and gain by it.
  static bool join(Group& group, Statement& t) {
    std::vector<Conflict> any;
    int64_t everything = points(t);
    for (const Statement& s : group.members) {
      everything += points(s);
      if (any.empty()) conflicts(s, t, any);
    }
    if (any.empty() && !shares_reads(group, t, everything)) return false;
    Group trial = group;
    Statement candidate = t;
    align(trial, candidate);
    std::vector<std::vector<Conflict>> met(trial.members.size());
    bool vertical = false;
    for (size_t m = 0; m < trial.members.size(); ++m) {
      conflicts(trial.members[m], candidate, met[m]);
      vertical = vertical || !met[m].empty();
    }
    std::vector<size_t> kept, axes;  // outer axes that stay, and the candidate's axis for each
    std::vector<bool> used(candidate.axes.size(), false);
    for (size_t o = 0; o < trial.outer.size(); ++o)
      for (size_t b = 0; b < candidate.axes.size(); ++b) {
        if (used[b] || candidate.axes[b] != trial.outer[o] || !parallel(candidate, b)) continue;
        bool safe = true;
        for (size_t m = 0; m < met.size() && safe; ++m)
          for (const Conflict& c : met[m])
            if (!same_digit(*c.member, trial.members[m].axes, trial.outer_axis[m][o], *c.incoming,
                            candidate.axes, b)) {
              safe = false;
              break;
            }
        if (!safe) continue;
        used[b] = true;
        kept.push_back(o);
        axes.push_back(b);
        break;
      }
    int64_t before = ir::numel(trial.outer), after = 1, total = points(candidate);
    for (size_t o : kept) after *= trial.outer[o];
    for (const Statement& s : trial.members) total += points(s);
    if (vertical) {
      if (total > kSmall && after < std::min(before, kEnough)) return false;
      if (total > kSmall && after < before && !keeps_slowest(trial, candidate, kept, axes))
        return false;
    } else if (kept.size() != trial.outer.size() ||
               ir::numel(candidate.axes) / std::max<int64_t>(after, 1) != inner_points(trial)) {
      return false;
    }
    shrink(trial, kept);
    trial.outer_axis.push_back(std::move(axes));
    trial.members.push_back(std::move(candidate));
    group = std::move(trial);
    return true;
  }

  static int64_t inner_points(const Group& group) {
    int64_t outer = ir::numel(group.outer), most = 1;
    for (const Statement& s : group.members)
      most = std::max(most, points(s) / std::max<int64_t>(outer, 1));
    return most;
  }

  /// Statements without a dependence share a loop when they read much of the same memory, or are
  /// too small to matter.
  static bool shares_reads(const Group& group, const Statement& t, int64_t total) {
    if (total <= kSmall) return true;
    int64_t shared = 0, all = footprint(t.store, t);
    for (const Access& load : t.loads) {
      int64_t bytes = footprint(load, t);
      all += bytes;
      bool common =
          std::any_of(group.members.begin(), group.members.end(), [&](const Statement& s) {
            return std::any_of(s.loads.begin(), s.loads.end(), [&](const Access& other) {
              return may_touch(other, s.axes, load, t.axes);
            });
          });
      if (common) shared += bytes;
    }
    return shared * 8 >= all;
  }

  static bool keeps_slowest(const Group& group, const Statement& t, const std::vector<size_t>& kept,
                            const std::vector<size_t>& axes) {
    if (auto slow = slowest_axis(t);
        slow && std::find(axes.begin(), axes.end(), *slow) == axes.end())
      return false;
    for (size_t m = 0; m < group.members.size(); ++m) {
      auto slow = slowest_axis(group.members[m]);
      if (!slow) continue;
      bool stays = std::any_of(kept.begin(), kept.end(),
                               [&](size_t o) { return group.outer_axis[m][o] == *slow; });
      if (!stays) return false;
    }
    return true;
  }

  static void shrink(Group& group, const std::vector<size_t>& kept) {
    auto pick = [&](auto& list) {
      std::decay_t<decltype(list)> out;
      for (size_t o : kept) out.push_back(list[o]);
      list = std::move(out);
    };
    pick(group.outer);
    for (auto& axes : group.outer_axis) pick(axes);
  }

  /// Splits axes where one side walks in one axis what the other walks in several ([B*S, D] beside
  /// [B, S, D]).
  static void align(Group& group, Statement& t) {
    for (int round = 0; round < 6; ++round)
      if (!align_once(group, t)) return;
  }
  static bool align_once(Group& group, Statement& t) {
    for (size_t m = 0; m < group.members.size(); ++m) {
      const Statement& s = group.members[m];
      std::vector<Conflict> met;
      conflicts(s, t, met);
      for (const Conflict& c : met) {
        if (c.member->dtype != c.incoming->dtype) continue;
        for (size_t o = 0; o < group.outer.size(); ++o) {
          int64_t stride = c.member->strides[group.outer_axis[m][o]], extent = group.outer[o];
          if (stride <= 0) continue;
          for (size_t b = 0; b < t.axes.size(); ++b) {
            int64_t own = c.incoming->strides[b];
            if (own <= 0 || (t.reduction && (t.reduction->scan || t.reduction->axes[b]))) continue;
            if (own < stride && stride % own == 0 && t.axes[b] > stride / own &&
                t.axes[b] % (stride / own) == 0) {
              split_axis(t, b, stride / own);
              return true;
            }
            if (own == stride && t.axes[b] > extent && t.axes[b] % extent == 0 && extent > 1) {
              split_axis(t, b, extent);
              return true;
            }
            if (own == stride && t.axes[b] < extent && extent % t.axes[b] == 0 &&
                split_outer(group, o, t.axes[b]))
              return true;
          }
        }
      }
    }
    return false;
  }
  static bool split_outer(Group& group, size_t o, int64_t inner) {
    for (size_t m = 0; m < group.members.size(); ++m)
      if (group.members[m].reduction && group.members[m].reduction->scan) return false;
    for (size_t m = 0; m < group.members.size(); ++m) {
      size_t axis = group.outer_axis[m][o];
      split_axis(group.members[m], axis, inner);
      for (size_t& a : group.outer_axis[m])
        if (a > axis) ++a;
      group.outer_axis[m].insert(group.outer_axis[m].begin() + static_cast<std::ptrdiff_t>(o) + 1,
                                 axis + 1);
    }
    group.outer[o] /= inner;
    group.outer.insert(group.outer.begin() + static_cast<std::ptrdiff_t>(o) + 1, inner);
    return true;
  }

  Program& program_;
  bool fuse_;
  std::vector<GroupOrItem> groups_;
};

}  // namespace

std::vector<GroupOrItem> group(Program& program, bool fuse) {
  return Grouper(program, fuse).run();
}

}  // namespace graft::passes
