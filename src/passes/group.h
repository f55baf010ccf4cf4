// Groups: statements that share the tiles of their common parallel axes, and what may join them.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "ir/program.h"

namespace graft::passes {

/// The statement has no such axis: every tile runs it as a whole, into scratch of its own.
constexpr size_t kNoAxis = std::numeric_limits<size_t>::max();

/// Statements that will be one kernel, in order. Member m runs its axis outer_axis[m][o] with the
/// group's outer axis o.
struct Group {
  std::vector<int64_t> outer;  ///< extents of the shared parallel axes
  std::vector<ir::Statement> members;
  std::vector<std::vector<size_t>> outer_axis;
  std::vector<int> repeat;  ///< a member: which of the group's repeats it is in; -1: none
  int repeats = 0;
};

/// Two accesses that may meet, one of them a store.
struct Conflict {
  const ir::Access* member;
  const ir::Access* incoming;
};
void conflicts(const ir::Statement& s, const ir::Statement& t, std::vector<Conflict>& out);

/// The statement with all its parallel axes.
Group alone(ir::Statement s);
int64_t all_points(const Group& group);

/// Outer axes of two groups that can be one loop: by position in each.
struct Shared {
  std::vector<size_t> group, unit;
  bool vertical = false;  ///< one has results of the other
};
Shared shared_axes(const Group& group, const Group& unit);
/// Keeps the outer axes at these positions.
void shrink(Group& group, const std::vector<size_t>& kept);
/// Puts the unit's members behind the group's, over the shared axes.
void append(Group& group, Group unit, const Shared& shared);

/// A repeat's statements over the axes that no step of any of them crosses. A statement that lacks
/// them but only makes a temporary for its own step (`is_private` tells whose storage nobody else
/// touches) is run by every tile. Nothing when the repeat is better unrolled again.
std::optional<Group> unit_of(const ir::Repeat& r, const std::vector<bool>& is_private);

/// Points below which one thread does it all and parallel axes do not matter.
constexpr int64_t kSmall = 1 << 15;
/// Tiles that keep the threads of a small machine busy.
constexpr int64_t kEnough = 16;
constexpr size_t kMaxMembers = 40;

}  // namespace graft::passes
