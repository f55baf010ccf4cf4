#include "passes/step_match.h"

#include <algorithm>
#include <map>

namespace graft::passes {

using ir::Access;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Statement;

namespace {

bool same_indirect(const Access& x, const Access& y) {
  return x.indirect == y.indirect && x.dtype == y.dtype;
}

}  // namespace

bool advances(const Node& node) {
  return node.op == Op::Const && node.type == ScalarType::Long;
}

uint64_t structure_of(const Statement& s) {
  uint64_t h = 1469598103934665603u;
  auto put = [&](int64_t x) {
    h = (h ^ static_cast<uint64_t>(x)) * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
  };
  put(static_cast<int64_t>(s.axes.size()));
  put(static_cast<int64_t>(s.store.dtype));
  put(s.value);
  put(s.after);
  for (const Access& load : s.loads) put(static_cast<int64_t>(load.dtype));
  for (uint64_t scalar : s.scalars) put(static_cast<int64_t>(scalar));
  for (const Node& node : s.expr.nodes) {
    put(static_cast<int64_t>(node.op) * 256 + static_cast<int64_t>(node.type));
    for (NodeId in : node.in) put(in);
    if (!advances(node)) put(node.payload);
  }
  if (s.reduction)
    put(static_cast<int64_t>(s.reduction->op) * 4 + s.reduction->scan * 2 + 1),
        put(s.reduction->input);
  return h | 1;
}

bool alike(const Statement& s, const Statement& t) {
  if (s.axes.size() != t.axes.size() || s.loads.size() != t.loads.size() ||
      s.expr.nodes.size() != t.expr.nodes.size() || s.value != t.value || s.scalars != t.scalars ||
      s.after != t.after || s.reduction.has_value() != t.reduction.has_value())
    return false;
  for (size_t k = 0; k < s.expr.nodes.size(); ++k) {
    Node a = s.expr.nodes[k], b = t.expr.nodes[k];
    if (advances(a) && advances(b)) a.payload = b.payload = 0;
    if (!(a == b)) return false;
  }
  for (size_t k = 0; k <= s.loads.size(); ++k)
    if (!same_indirect(access_at(s, k), access_at(t, k))) return false;
  return !s.reduction ||
         (s.reduction->op == t.reduction->op && s.reduction->type == t.reduction->type &&
          s.reduction->input == t.reduction->input && s.reduction->axes == t.reduction->axes &&
          s.reduction->scan == t.reduction->scan);
}

bool Relaid::consistent(std::vector<int>& changed) const {
  for (size_t at = 0; at < uses.size(); ++at) {
    const std::vector<Use>& all = uses[at];
    int64_t first = INT64_MAX, now = INT64_MAX;  // the smallest strides that change
    for (const Use& use : all)
      for (const Axis& axis : use.axes)
        if (axis.first != axis.now)
          first = std::min(first, axis.first), now = std::min(now, axis.now);
    if (first == INT64_MAX) continue;
    changed.push_back(static_cast<int>(at));
    std::map<int64_t, int64_t> to;
    for (const Use& use : all)
      for (const Axis& axis : use.axes)
        if (to.try_emplace(axis.now, axis.first).first->second != axis.first) return false;
    for (const Use& use : all) {
      int64_t reach = 0, first_reach = 0;
      for (const Axis& axis : use.axes) {
        if (axis.extent > axis.first_extent || axis.now <= 0 || axis.first <= 0) return false;
        if (axis.now < now) reach += axis.now * (axis.extent - 1);
        if (axis.first < first) first_reach += axis.first * (axis.first_extent - 1);
      }
      if (use.offset != 0 || use.dtype != all.front().dtype || reach >= now || first_reach >= first)
        return false;
    }
  }
  return true;
}

}  // namespace graft::passes
