#include "passes/group.h"

#include <algorithm>

#include "ir/builder.h"
#include "ir/overlap.h"
#include "passes/products.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Access;
using ir::Statement;

namespace {

/// Temporaries that every tile makes itself may have that share of the second cache.
constexpr int64_t kCopiesShare = 16;

bool parallel(const Statement& s, size_t axis) {
  if (s.repeated() && (axis == 0 || s.growth[axis] != 0)) return false;
  return !s.reduction || !s.reduction->axes[axis];
}

/// Leaves a repeated statement the outer axes that its own steps do not cross.
void keep_safe(Group& unit) {
  const Statement& s = unit.members.front();
  std::vector<Conflict> met;
  conflicts(s, s, met);
  std::vector<size_t> kept;
  for (size_t o = 0; o < unit.outer.size(); ++o) {
    size_t axis = unit.outer_axis.front()[o];
    if (std::all_of(met.begin(), met.end(), [&](const Conflict& c) {
          return same_digit(*c.member, s, axis, *c.incoming, s, axis);
        }))
      kept.push_back(o);
  }
  shrink(unit, kept);
}

/// Does each step store the storage at one place for all steps, before it reads it?
bool made_anew(const std::vector<Group>& statements, int storage) {
  for (const Group& each : statements) {
    const Statement& s = each.members.front();
    for (const Access& load : s.loads)
      if (load.storage == storage) return false;
    if (s.store.storage == storage) return s.store.strides[0] == 0;
  }
  return false;
}

/// Does no step see what another one stores? Then large steps are better run one after the other
/// than all of them in each tile.
bool independent(const std::vector<Group>& statements) {
  for (size_t n = 0; n < statements.size(); ++n) {
    const Statement& t = statements[n].members.front();
    for (size_t m = 0; m <= n; ++m) {
      const Statement& s = statements[m].members.front();
      std::vector<Conflict> met;
      conflicts(s, t, met);
      for (const Conflict& c : met)
        if (!made_anew(statements, c.member->storage) &&
            !same_digit(*c.member, s, 0, *c.incoming, t, 0))
          return false;
    }
  }
  return true;
}

/// The statements over their shared axes, those left out excepted.
std::optional<Group> united(const std::vector<Group>& statements,
                            const std::vector<bool>& left_out) {
  std::optional<Group> unit;
  for (size_t n = 0; n < statements.size(); ++n) {
    if (left_out[n]) continue;
    if (!unit) {
      unit = statements[n];
      continue;
    }
    append(*unit, statements[n], shared_axes(*unit, statements[n]));
    unit->repeats = 1;
    unit->repeat.back() = 0;
  }
  return unit;
}

/// Puts in what was left out, for every tile to run; false if it touches more than its own
/// temporary.
bool put_back(Group& unit, const std::vector<Group>& statements,
              const std::vector<bool>& left_out) {
  Group whole = unit;
  whole.members.clear(), whole.outer_axis.clear(), whole.repeat.clear();
  size_t next = 0;
  for (size_t n = 0; n < statements.size(); ++n) {
    whole.repeat.push_back(0);
    if (left_out[n]) {
      whole.members.push_back(statements[n].members.front());
      whole.outer_axis.emplace_back(unit.outer.size(), kNoAxis);
    } else {
      whole.members.push_back(unit.members[next]);
      whole.outer_axis.push_back(unit.outer_axis[next++]);
    }
  }
  for (size_t n = 0; n < statements.size(); ++n)
    for (size_t m = 0; m < statements.size(); ++m) {
      if (!left_out[n]) continue;
      std::vector<Conflict> met;
      conflicts(whole.members[n], whole.members[m], met);
      int own = whole.members[n].store.storage;
      for (const Conflict& c : met) {
        int theirs = whole.members[m].store.storage;
        bool other = left_out[m] && c.member->storage == theirs;
        if (c.member->storage != own && !other) return false;
        if (!left_out[m] && theirs == own) return false;  // part of it differs from tile to tile
      }
    }
  // Whole copies, of which no tile reads a part that moves with it.
  for (size_t m = 0; m < statements.size(); ++m)
    for (const Access& load : whole.members[m].loads)
      for (size_t n = 0; n < statements.size(); ++n)
        for (size_t axis : whole.outer_axis[m])
          if (left_out[n] && load.storage == whole.members[n].store.storage && axis != kNoAxis &&
              load.strides[axis] != 0)
            return false;
  unit = std::move(whole);
  return true;
}

/// Statements that lack an axis which the others share, and make a small temporary of their step.
std::optional<Group> with_copies(const std::vector<Group>& statements,
                                 const std::vector<bool>& is_private, const ir::Target& target) {
  const int64_t most = target.second_cache_bytes / kCopiesShare;
  std::vector<bool> left_out(statements.size(), false);
  int64_t total = 0;
  for (size_t n = 0; n < statements.size(); ++n) {
    const Statement& s = statements[n].members.front();
    ir::Span reach = span(s.store, s);
    auto bytes =
        (reach.last - reach.first + 1) * static_cast<int64_t>(c10::elementSize(s.store.dtype));
    left_out[n] = is_private[static_cast<size_t>(s.store.storage)] &&
                  made_anew(statements, s.store.storage) && total + bytes <= most;
    if (left_out[n]) total += bytes;
  }
  std::optional<Group> rest = united(statements, left_out);
  if (!rest || rest->outer.empty()) return std::nullopt;
  for (size_t n = 0; n < statements.size(); ++n)
    if (left_out[n] && shared_axes(*rest, statements[n]).group.size() == rest->outer.size())
      left_out[n] = false;
  std::optional<Group> unit = united(statements, left_out);
  if (!unit || unit->outer.size() != rest->outer.size() || !put_back(*unit, statements, left_out))
    return std::nullopt;
  return unit;
}

}  // namespace

void conflicts(const Statement& s, const Statement& t, std::vector<Conflict>& out) {
  if (meet(s.store, s, t.store, t)) out.push_back({&s.store, &t.store});
  for (const Access& load : t.loads)
    if (meet(s.store, s, load, t)) out.push_back({&s.store, &load});
  for (const Access& load : s.loads)
    if (meet(t.store, t, load, s)) out.push_back({&load, &t.store});
}

Group alone(Statement s) {
  Group made;
  std::vector<size_t> axes;
  for (size_t a = 0; a < s.axes.size(); ++a)
    if (parallel(s, a)) {
      made.outer.push_back(s.axes[a]);
      axes.push_back(a);
    }
  made.outer_axis.push_back(std::move(axes));
  made.members.push_back(std::move(s));
  made.repeat.push_back(-1);
  return made;
}

Group over_terms(Statement product) {
  const size_t terms = product_axes(product)->terms;
  Group made = alone(std::move(product));
  made.outer.push_back(made.members.front().axes[terms]);
  made.outer_axis.front().push_back(terms);
  return made;
}

int64_t all_points(const Group& group) {
  int64_t total = 0;
  for (const Statement& s : group.members) total += points(s);
  return total;
}

bool jumps(const Group& group) {
  return std::any_of(group.members.begin(), group.members.end(),
                     [](const Statement& s) { return s.repeated() && !s.store.indirect.empty(); });
}

Shared shared_axes(const Group& group, const Group& unit) {
  struct Pair {
    size_t m, n;
    std::vector<Conflict> met;
  };
  std::vector<Pair> pairs;
  for (size_t m = 0; m < group.members.size(); ++m)
    for (size_t n = 0; n < unit.members.size(); ++n) {
      Pair pair{m, n, {}};
      conflicts(group.members[m], unit.members[n], pair.met);
      if (!pair.met.empty()) pairs.push_back(std::move(pair));
    }
  Shared shared;
  shared.vertical = !pairs.empty();
  std::vector<bool> used(unit.outer.size(), false);
  for (size_t o = 0; o < group.outer.size(); ++o)
    for (size_t p = 0; p < unit.outer.size(); ++p) {
      if (used[p] || unit.outer[p] != group.outer[o]) continue;
      bool safe = std::all_of(pairs.begin(), pairs.end(), [&](const Pair& pair) {
        size_t a = group.outer_axis[pair.m][o], b = unit.outer_axis[pair.n][p];
        return a != kNoAxis && b != kNoAxis &&
               std::all_of(pair.met.begin(), pair.met.end(), [&](const Conflict& c) {
                 return same_digit(*c.member, group.members[pair.m], a, *c.incoming,
                                   unit.members[pair.n], b);
               });
      });
      if (!safe) continue;
      used[p] = true;
      shared.group.push_back(o);
      shared.unit.push_back(p);
      break;
    }
  return shared;
}

void shrink(Group& group, const std::vector<size_t>& kept) {
  auto pick = [&](auto& list) {
    std::decay_t<decltype(list)> out;
    for (size_t o : kept) out.push_back(list[o]);
    list = std::move(out);
  };
  pick(group.outer);
  for (auto& axes : group.outer_axis) pick(axes);
}

bool split_outer(Group& group, size_t o, int64_t inner) {
  for (const Statement& s : group.members)
    if (scans(s)) return false;
  for (const auto& axes : group.outer_axis)
    if (axes[o] == kNoAxis) return false;
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

Group without(const Group& group, size_t member) {
  const auto at = static_cast<std::ptrdiff_t>(member);
  Group rest = group;
  rest.members.erase(rest.members.begin() + at);
  rest.outer_axis.erase(rest.outer_axis.begin() + at);
  rest.repeat.erase(rest.repeat.begin() + at);
  return rest;
}

void append(Group& group, Group unit, const Shared& shared) {
  shrink(group, shared.group);
  shrink(unit, shared.unit);
  for (size_t n = 0; n < unit.members.size(); ++n) {
    group.members.push_back(std::move(unit.members[n]));
    group.outer_axis.push_back(std::move(unit.outer_axis[n]));
    group.repeat.push_back(unit.repeat[n] < 0 ? -1 : unit.repeat[n] + group.repeats);
  }
  group.repeats += unit.repeats;
}

std::optional<Group> unit_of(const ir::Repeat& r, const std::vector<bool>& is_private,
                             const ir::Target& target) {
  if (r.body.size() > kMaxMembers) return std::nullopt;
  std::vector<Group> statements;
  for (Statement s : r.body) {
    drop_unit_axes(s);
    compact(s);
    statements.push_back(alone(std::move(s)));
    statements.back().repeat.back() = 0;
    statements.back().repeats = 1;
    keep_safe(statements.back());
  }
  std::optional<Group> unit = united(statements, std::vector<bool>(statements.size(), false));
  bool small = all_points(*unit) / r.count <= kSmall;
  auto tiles = [](const Group& group) { return ir::numel(group.outer); };
  if (tiles(*unit) < kEnough)
    if (auto other = with_copies(statements, is_private, target);
        other && tiles(*other) > tiles(*unit))
      unit = std::move(other);
  if (r.origin && !small && (tiles(*unit) < kEnough || independent(statements)))
    return std::nullopt;
  return unit;
}

}  // namespace graft::passes
