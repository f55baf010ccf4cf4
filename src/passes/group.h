// Groups: statements that share the tiles of their common parallel axes, and the rules for joining.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "ir/program.h"
#include "ir/target.h"
#include "passes/touch.h"

namespace graft::passes {

/// In Group::outer_axis: the statement lacks this axis. Every tile runs all of it, into scratch of
/// its own.
constexpr size_t kNoAxis = std::numeric_limits<size_t>::max();

/// Statements that will be one kernel, in order. Member m runs its axis outer_axis[m][o] with the
/// group's outer axis o.
struct Group {
  std::vector<int64_t> outer;  ///< extents of the shared parallel axes
  std::vector<ir::Statement> members;
  std::vector<std::vector<size_t>> outer_axis;
  std::vector<int> repeat;  ///< per member: which of the group's repeats it is in; -1: none
  int repeats = 0;
};

template <class Fn>
void each_touch(const Group& group, Fn fn) {
  for (const ir::Statement& s : group.members) each_touch(s, fn);
}

/// Two accesses that may meet, one of them a store.
struct Conflict {
  const ir::Access* member;
  const ir::Access* incoming;
};
void conflicts(const ir::Statement& s, const ir::Statement& t, std::vector<Conflict>& out);

/// A group of one statement, over all its parallel axes.
Group alone(ir::Statement s);
/// And over its terms: a product that adds up over tiles.
Group over_terms(ir::Statement product);
int64_t all_points(const Group& group);
/// Does a step of a loop store at addresses that depend on data?
bool jumps(const Group& group);

/// The outer axes that two groups can share, by position in each.
struct Shared {
  std::vector<size_t> group, unit;
  bool vertical = false;  ///< one reads what the other stores
};
Shared shared_axes(const Group& group, const Group& unit);
/// Keeps the outer axes at these positions.
void shrink(Group& group, const std::vector<size_t>& kept);
/// Splits an outer axis in two, the inner one behind it; false if a member has no such axis, or
/// scans.
bool split_outer(Group& group, size_t o, int64_t inner);
/// All but one member, which is in none of the repeats.
Group without(const Group& group, size_t member);
/// Puts the unit's members behind the group's, over the shared axes.
void append(Group& group, Group unit, const Shared& shared);

/// A repeat's statements as a group, over the axes along which no step of any of them reads or
/// writes what another iteration writes. A statement that lacks these axes but only makes a
/// temporary for its own step is run by every tile; `is_private` says which storages no other item
/// touches. Empty when an unrolled loop is better unrolled again.
std::optional<Group> unit_of(const ir::Repeat& r, const std::vector<bool>& is_private,
                             const ir::Target& target);

/// With fewer points one thread runs everything, and parallel axes do not matter.
constexpr int64_t kSmall = 1 << 15;
/// As many tiles keep the threads of a small machine busy.
constexpr int64_t kEnough = 16;
constexpr size_t kMaxMembers = 40;

}  // namespace graft::passes
