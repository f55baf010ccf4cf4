#include "passes/rewrite.h"

#include <algorithm>

#include "ir/facts.h"

namespace graft::passes {

using ir::Access;
using ir::Expr;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Statement;

void remap_ids(Statement& s, const std::vector<NodeId>& to) {
  auto map = [&](NodeId& id) {
    if (id >= 0) id = to[static_cast<size_t>(id)];
  };
  map(s.value);
  if (s.reduction) map(s.reduction->input);
  each_access(s, [&](Access& a) {
    for (ir::Indirect& i : a.indirect) map(i.index);
  });
}

int64_t largest_divisor(int64_t n, int64_t most, int64_t least) {
  for (int64_t d = most; d >= least; --d)
    if (n % d == 0) return d;
  return 0;
}

int64_t even_part(int64_t extent, int64_t most, const Settings& settings, int64_t least) {
  if (!settings.may_vary(extent)) return largest_divisor(extent, most, least);
  if (least <= extent && extent <= most) return extent;
  return least <= 1 ? 1 : 0;
}

void split_axis(Statement& s, size_t axis, int64_t inner) {
  auto at = static_cast<std::ptrdiff_t>(axis);
  s.axes[axis] /= inner;
  s.axes.insert(s.axes.begin() + at + 1, inner);
  each_access(s, [&](Access& a) {
    int64_t stride = a.strides[axis];
    a.strides[axis] = stride * inner;
    a.strides.insert(a.strides.begin() + at + 1, stride);
  });
  if (s.reduction)
    s.reduction->axes.insert(s.reduction->axes.begin() + at, s.reduction->axes[axis]);
  if (s.repeated()) s.growth.insert(s.growth.begin() + at, 0);
  rebuild(s, [&](Expr& out, Node node) {
    if (node.op != Op::Axis || node.payload < static_cast<int64_t>(axis)) return out.add(node);
    if (node.payload > static_cast<int64_t>(axis)) {
      ++node.payload;
      return out.add(node);
    }
    NodeId high = out.add(node);
    ++node.payload;
    NodeId low = out.add(node);
    NodeId scaled = out.node(Op::Mul, ScalarType::Long, high, out.integer(inner, ScalarType::Long));
    return out.node(Op::Add, ScalarType::Long, scaled, low);
  });
}

void take_range(Statement& s, size_t axis, int64_t first, int64_t last) {
  s.axes[axis] = last - first;
  each_access(s, [&](Access& a) { a.offset += a.strides[axis] * first; });
  if (first == 0) return;
  rebuild(s, [&](Expr& out, Node node) {
    NodeId id = out.add(node);
    if (node.op != Op::Axis || node.payload != static_cast<int64_t>(axis)) return id;
    return out.node(Op::Add, ScalarType::Long, id, out.integer(first, ScalarType::Long));
  });
}

void drop_axis(Statement& s, size_t axis) {
  auto at = static_cast<std::ptrdiff_t>(axis);
  s.axes.erase(s.axes.begin() + at);
  each_access(s, [&](Access& a) { a.strides.erase(a.strides.begin() + at); });
  if (s.reduction) s.reduction->axes.erase(s.reduction->axes.begin() + at);
  if (s.repeated()) s.growth.erase(s.growth.begin() + at);
  rebuild(s, [&](Expr& out, Node node) {
    if (node.op != Op::Axis || node.payload < static_cast<int64_t>(axis)) return out.add(node);
    if (node.payload == static_cast<int64_t>(axis)) return out.integer(0, ScalarType::Long);
    --node.payload;
    return out.add(node);
  });
}

void drop_unit_axes(Statement& s) {
  for (size_t axis = s.axes.size(); axis-- > 0;) {
    if (s.axes[axis] != 1 || (s.repeated() && (axis == 0 || s.growth[axis] != 0))) continue;
    // The one axis of a scan, or the last reduced axis, still says that there is a reduction.
    if (s.reduction && s.reduction->axes[axis] &&
        std::count(s.reduction->axes.begin(), s.reduction->axes.end(), true) == 1)
      continue;
    drop_axis(s, axis);
  }
}

namespace {

using Flags = c10::SmallVector<bool, 64>;

/// The nodes that what is stored, and where, depends on.
Flags live_nodes(const Statement& s) {
  Flags live(s.expr.nodes.size(), false);
  auto need = [&](NodeId id) {
    if (id >= 0) live[static_cast<size_t>(id)] = true;
  };
  need(s.value);
  if (s.reduction) need(s.reduction->input);
  for (const ir::Indirect& i : s.store.indirect) need(i.index);
  for (size_t id = live.size(); id-- > 0;) {  // users come after what they use
    if (!live[id]) continue;
    const Node& node = s.expr.nodes[id];
    for (NodeId in : node.in) need(in);
    if (node.op == Op::Load)
      for (const ir::Indirect& i : s.loads[static_cast<size_t>(node.payload)].indirect)
        need(i.index);
  }
  return live;
}

/// Is every node used, and every load and scalar, in order of first use and no two the same?
bool is_compact(const Statement& s, const Flags& live) {
  size_t loads = 0, scalars = 0;
  for (size_t id = 0; id < live.size(); ++id) {
    if (!live[id]) return false;
    const Node& node = s.expr.nodes[id];
    if (node.op != Op::Load && node.op != Op::Scalar) continue;
    size_t& seen = node.op == Op::Load ? loads : scalars;
    auto k = static_cast<size_t>(node.payload);
    if (k > seen) return false;
    seen = std::max(seen, k + 1);
  }
  auto distinct = [](const auto& list) {
    for (auto i = list.begin(); i != list.end(); ++i)
      if (std::find(list.begin(), i, *i) != i) return false;
    return true;
  };
  return loads == s.loads.size() && scalars == s.scalars.size() && distinct(s.loads) &&
         distinct(s.scalars);
}

}  // namespace

void compact(Statement& s) {
  const Flags live = live_nodes(s);
  if (is_compact(s, live)) return;
  std::vector<int64_t> load_to(s.loads.size(), -1), scalar_to(s.scalars.size(), -1);
  std::vector<Access> loads;
  std::vector<uint64_t> scalars;
  Expr out;
  out.nodes.reserve(s.expr.nodes.size());
  std::vector<NodeId> to(s.expr.nodes.size(), -1);
  for (size_t id = 0; id < s.expr.nodes.size(); ++id) {
    if (!live[id]) continue;
    Node node = s.expr.nodes[id];
    for (NodeId& in : node.in)
      if (in >= 0) in = to[static_cast<size_t>(in)];
    auto k = static_cast<size_t>(node.payload);
    if (node.op == Op::Load) {
      if (load_to[k] < 0) {
        Access access = s.loads[k];
        for (ir::Indirect& i : access.indirect) i.index = to[static_cast<size_t>(i.index)];
        auto found = std::find(loads.begin(), loads.end(), access);
        load_to[k] = found - loads.begin();
        if (found == loads.end()) loads.push_back(std::move(access));
      }
      node.payload = load_to[k];
    } else if (node.op == Op::Scalar) {
      if (scalar_to[k] < 0) {
        auto found = std::find(scalars.begin(), scalars.end(), s.scalars[k]);
        scalar_to[k] = found - scalars.begin();
        if (found == scalars.end()) scalars.push_back(s.scalars[k]);
      }
      node.payload = scalar_to[k];
    }
    to[id] = out.add(node);
  }
  s.loads.clear();  // their indices are remapped already
  s.expr = std::move(out);
  remap_ids(s, to);
  s.loads = std::move(loads);
  s.scalars = std::move(scalars);
}

void substitute(Statement& reader, size_t load, const Statement& producer,
                const ir::PointMap& map) {
  Expr out;
  out.nodes.reserve(producer.expr.nodes.size() + reader.expr.nodes.size());
  std::vector<NodeId> from_producer(producer.expr.nodes.size(), -1);
  size_t first_load = reader.loads.size(), first_scalar = reader.scalars.size();
  reader.scalars.insert(reader.scalars.end(), producer.scalars.begin(), producer.scalars.end());

  // What the load's address takes from data stands before the producer's nodes. Expr::add() gives
  // the same nodes again when the reader's own are copied, so that its other loads find them.
  std::vector<NodeId> early(reader.expr.nodes.size(), -1);
  auto copy_early = [&](auto self, NodeId id) -> NodeId {
    NodeId& made = early[static_cast<size_t>(id)];
    if (made >= 0) return made;
    Node node = reader.expr.nodes[static_cast<size_t>(id)];
    if (node.op == Op::Load)
      for (const ir::Indirect& i : reader.loads[static_cast<size_t>(node.payload)].indirect)
        self(self, i.index);
    for (NodeId& in : node.in)
      if (in >= 0) in = self(self, in);
    return made = out.add(node);
  };
  std::vector<NodeId> data;
  for (const ir::Indirect& i : reader.loads[load].indirect)
    data.push_back(copy_early(copy_early, i.index));

  auto index = [&](int64_t axis) {  // the producer's axis in the reader's axes
    auto p = static_cast<size_t>(axis);
    NodeId sum = -1;
    auto add = [&](NodeId term, int64_t by) {
      if (by != 1)
        term = out.node(Op::Mul, ScalarType::Long, term, out.integer(by, ScalarType::Long));
      sum = sum < 0 ? term : out.node(Op::Add, ScalarType::Long, sum, term);
    };
    for (size_t a = 0; a < reader.axes.size(); ++a)
      if (int64_t by = map.coefficient(p, a))
        add(out.add({Op::Axis, ScalarType::Long, {-1, -1, -1}, static_cast<int64_t>(a)}), by);
    for (size_t k = 0; k < data.size(); ++k)
      if (int64_t by = map.coefficient(p, reader.axes.size() + k)) add(data[k], by);
    if (sum < 0) return out.integer(map.constant[p], ScalarType::Long);
    if (map.constant[p] == 0) return sum;
    return out.node(Op::Add, ScalarType::Long, sum, out.integer(map.constant[p], ScalarType::Long));
  };
  for (size_t id = 0; id < producer.expr.nodes.size(); ++id) {
    Node node = producer.expr.nodes[id];
    for (NodeId& in : node.in)
      if (in >= 0) in = from_producer[static_cast<size_t>(in)];
    if (node.op == Op::Axis) {
      from_producer[id] = index(node.payload);
      continue;
    }
    if (node.op == Op::Load) node.payload += static_cast<int64_t>(first_load);
    if (node.op == Op::Scalar) node.payload += static_cast<int64_t>(first_scalar);
    from_producer[id] = out.add(node);
  }
  for (const Access& old : producer.loads) {
    Access access = old;
    access.strides.assign(reader.axes.size(), 0);
    for (size_t p = 0; p < producer.axes.size(); ++p) {
      access.offset += old.strides[p] * map.constant[p];
      for (size_t a = 0; a < reader.axes.size(); ++a)
        access.strides[a] += old.strides[p] * map.coefficient(p, a);
    }
    for (size_t a = 0; a < reader.axes.size(); ++a)
      if (reader.axes[a] == 1) access.strides[a] = 0;
    for (ir::Indirect& i : access.indirect) i.index = from_producer[static_cast<size_t>(i.index)];
    for (size_t k = 0; k < data.size(); ++k) {
      int64_t stride = 0;
      for (size_t p = 0; p < producer.axes.size(); ++p)
        stride += old.strides[p] * map.coefficient(p, reader.axes.size() + k);
      if (stride != 0)
        access.indirect.push_back({data[k], stride, reader.loads[load].indirect[k].extent});
    }
    reader.loads.push_back(std::move(access));
  }
  NodeId value = from_producer[static_cast<size_t>(producer.value)];
  const c10::ScalarType read_as = reader.loads[load].dtype;
  if (read_as != producer.store.dtype) value = out.node(Op::Bitcast, read_as, value);

  std::vector<NodeId> to(reader.expr.nodes.size());
  for (size_t id = 0; id < reader.expr.nodes.size(); ++id) {
    Node node = reader.expr.nodes[id];
    for (NodeId& in : node.in)
      if (in >= 0) in = to[static_cast<size_t>(in)];
    to[id] =
        node.op == Op::Load && node.payload == static_cast<int64_t>(load) ? value : out.add(node);
  }
  reader.expr = std::move(out);
  // Only the reader's own accesses still hold its old ids.
  std::vector<Access> added(reader.loads.begin() + static_cast<std::ptrdiff_t>(first_load),
                            reader.loads.end());
  reader.loads.resize(first_load);
  remap_ids(reader, to);
  reader.loads.insert(reader.loads.end(), added.begin(), added.end());
  compact(reader);
}

bool is_copy(const Statement& s) {
  return !s.reduction && s.store.indirect.empty() && s.loads.size() == 1 &&
         s.expr.nodes[static_cast<size_t>(s.value)].op == Op::Load;
}

std::vector<bool> varying_along(const Statement& s, size_t axis) {
  std::vector<bool> varies;
  for (const Node& node : s.expr.nodes) {
    bool here = node.op == Op::Axis && static_cast<size_t>(node.payload) == axis;
    if (node.op == Op::Load) {
      const Access& load = s.loads[static_cast<size_t>(node.payload)];
      here = load.strides[axis] != 0;
      for (const ir::Indirect& i : load.indirect)
        here = here || varies[static_cast<size_t>(i.index)];
    }
    for (NodeId in : node.in)
      if (in >= 0) here = here || varies[static_cast<size_t>(in)];
    varies.push_back(here);
  }
  return varies;
}

bool is_scattered(const Statement& s, const Access& access, size_t axis) {
  if (access.indirect.empty()) return false;
  const std::vector<bool> varies = varying_along(s, axis);
  return std::any_of(access.indirect.begin(), access.indirect.end(),
                     [&](const ir::Indirect& i) { return varies[static_cast<size_t>(i.index)]; });
}

int work(const Statement& s) {
  int total = 0;
  for (const Node& node : s.expr.nodes) total += ir::cost(node);
  return total;
}

int64_t points(const Statement& s) {
  double total = 1;
  for (size_t a = 0; a < s.axes.size(); ++a) {
    auto extent = static_cast<double>(s.axes[a]);
    if (s.repeated()) extent += 0.5 * static_cast<double>(s.growth[a] * (s.axes[0] - 1));
    total *= extent;
  }
  return static_cast<int64_t>(total);
}

int64_t reduced_points(const Statement& s) {
  int64_t n = 1;
  for (size_t a = 0; a < s.axes.size(); ++a)
    if (s.reduction->axes[a]) n *= s.axes[a];
  return n;
}

}  // namespace graft::passes
