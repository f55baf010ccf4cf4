#include "passes/self_reads.h"

#include <algorithm>

#include "passes/digits.h"

namespace graft::passes {

using ir::Statement;

namespace {

bool is_identity(const PointMap& map, const std::vector<int64_t>& axes) {
  for (size_t p = 0; p < axes.size(); ++p) {
    if (axes[p] == 1) continue;
    if (map.constant[p] != 0) return false;
    for (size_t a = 0; a < axes.size(); ++a)
      if (map.coefficient(p, a) != (a == p)) return false;
  }
  return true;
}

bool reads_own(const Statement& s) {
  return std::any_of(s.loads.begin(), s.loads.end(), [&](const ir::Access& load) {
    if (load.storage != s.store.storage || load == s.store) return false;
    Overlap met = relate(s.store, s.axes, load, s.axes);
    return met.relation == Relation::Partial ||
           (met.relation == Relation::Covered && !is_identity(met.map, s.axes));
  });
}

}  // namespace

std::string reads_of_own_stores(const ir::Program& program) {
  for (const ir::Item& item : program.items) {
    if (const auto* s = std::get_if<Statement>(&item); s && reads_own(*s))
      return "a point reads what another stores: " + ir::print(*s);
    const auto* r = std::get_if<ir::Repeat>(&item);
    if (!r) continue;
    for (const Statement& s : r->body)
      for (int64_t step : {int64_t{0}, std::min<int64_t>(1, r->count - 1), r->count - 1})
        if (reads_own(ir::at_step(s, step)))
          return "a point reads what another stores at step " + std::to_string(step) + ": " +
                 ir::print(s);
  }
  return {};
}

}  // namespace graft::passes
