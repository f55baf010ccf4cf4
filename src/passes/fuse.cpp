#include "passes/fuse.h"

#include "ir/visit.h"
#include "passes/build_kernel.h"
#include "passes/grouper.h"
#include "passes/touch.h"

namespace graft::passes {

ir::Schedule fuse(ir::Program program, bool share, const ir::Target& target, Decider& decider) {
  ir::Schedule schedule;
  schedule.storages = program.storages;
  schedule.signature = program.signature;
  std::vector<GroupOrItem> groups = group(std::move(program), share, target, decider);
  std::vector<int> owner = private_to(groups, schedule.storages);
  for (size_t g = 0; g < groups.size(); ++g)
    ir::match(
        std::move(groups[g]),
        [&](Group&& members) {
          ir::Kernel kernel = build_kernel(members, owned_by(owner, static_cast<int>(g)));
          // Nothing is left of values that no one reads.
          if (!kernel.placed.empty()) schedule.steps.emplace_back(std::move(kernel));
        },
        [&](ir::Extern&& e) { schedule.steps.emplace_back(std::move(e)); },
        [&](ir::Abort&& a) { schedule.steps.emplace_back(a); });
  return schedule;
}

}  // namespace graft::passes
