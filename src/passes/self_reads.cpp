#include "passes/self_reads.h"

#include <algorithm>

#include "ir/overlap.h"

namespace graft::passes {

using ir::Statement;

std::string reads_of_own_stores(const ir::Program& program) {
  for (const ir::Item& item : program.items) {
    if (const auto* s = std::get_if<Statement>(&item); s && surely_reads_own_stores(*s))
      return "a point reads what another stores: " + ir::print(*s);
    const auto* r = std::get_if<ir::Repeat>(&item);
    if (!r) continue;
    for (const Statement& s : r->body)
      for (int64_t step : {int64_t{0}, std::min<int64_t>(1, r->count - 1), r->count - 1})
        if (surely_reads_own_stores(ir::at_step(s, step)))
          return "a point reads what another stores at step " + std::to_string(step) + ": " +
                 ir::print(s);
  }
  return {};
}

}  // namespace graft::passes
