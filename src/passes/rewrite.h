// Rewrites of one statement that keep its meaning: the building blocks of the passes.
#pragma once

#include "ir/overlap.h"
#include "ir/program.h"
#include "passes/settings.h"

namespace graft::passes {

template <class Fn>
void each_access(ir::Statement& s, Fn fn) {
  fn(s.store);
  for (ir::Access& load : s.loads) fn(load);
}

/// Renames the nodes that the statement and its accesses refer to.
void remap_ids(ir::Statement& s, const std::vector<ir::NodeId>& to);

/// Rebuilds the expression: calls make(expr, node) for each node in order, operands already
/// remapped; `make` adds what it likes to `expr` and returns the node that replaces it.
template <class Make>
void rebuild(ir::Statement& s, Make make) {
  ir::Expr out;
  out.nodes.reserve(s.expr.nodes.size());
  std::vector<ir::NodeId> to(s.expr.nodes.size());
  for (size_t id = 0; id < s.expr.nodes.size(); ++id) {
    ir::Node node = s.expr.nodes[id];
    for (ir::NodeId& in : node.in)
      if (in >= 0) in = to[static_cast<size_t>(in)];
    to[id] = make(out, node);
  }
  s.expr = std::move(out);
  remap_ids(s, to);
}

/// The largest divisor of n in [least, most]; 0: there is none.
int64_t largest_divisor(int64_t n, int64_t most, int64_t least = 1);
/// The same of an extent that is to be cut evenly. One that may vary is whole or, as 1, not cut.
int64_t even_part(int64_t extent, int64_t most, const Settings& settings, int64_t least = 1);

/// Splits axis `axis` (extent n) into two: (n / inner, inner). n must be a multiple of inner, and
/// the axis must not grow.
void split_axis(ir::Statement& s, size_t axis, int64_t inner);
/// Keeps the points of axis `axis` in [first, last).
void take_range(ir::Statement& s, size_t axis, int64_t first, int64_t last);
/// Keeps the first point of an axis, as the only one, and the axis not.
void drop_axis(ir::Statement& s, size_t axis);
/// Removes axes of extent 1.
void drop_unit_axes(ir::Statement& s);
/// Removes nodes, loads and scalars that nothing uses.
void compact(ir::Statement& s);
/// Replaces load `load` of `reader` by the value that `producer` stores at the mapped point. Behind
/// the reader's axes the map has a coefficient for each of the load's indices that come from data.
void substitute(ir::Statement& reader, size_t load, const ir::Statement& producer,
                const ir::PointMap& map);
/// Does it store one load as it is, everywhere?
bool is_copy(const ir::Statement& s);
/// Does it store what its reduction has come to at each step?
inline bool scans(const ir::Statement& s) {
  return s.reduction && s.reduction->scan;
}
/// By node: does its value differ along the axis?
std::vector<bool> varying_along(const ir::Statement& s, size_t axis);
/// Do indices from data move the access along the axis?
bool is_scattered(const ir::Statement& s, const ir::Access& access, size_t axis);
/// The cost of one point's arithmetic: the sum of ir::cost over its nodes.
int work(const ir::Statement& s);
/// Number of points of the statement's domain, over all steps in a Repeat; an axis that grows
/// counts with its mean extent.
int64_t points(const ir::Statement& s);
/// Number of points that the statement's reduction makes one of.
int64_t reduced_points(const ir::Statement& s);

}  // namespace graft::passes
