#include "passes/fuse.h"

#include "ir/visit.h"
#include "passes/build_kernel.h"
#include "passes/grouper.h"
#include "passes/touch.h"

namespace graft::passes {

ir::Schedule fuse(ir::Program program, bool share) {
  ir::Schedule schedule;
  schedule.storages = program.storages;
  schedule.signature = program.signature;
  std::vector<GroupOrItem> groups = group(std::move(program), share);
  std::vector<int> owner = private_to(groups, schedule.storages);
  for (size_t g = 0; g < groups.size(); ++g)
    schedule.steps.push_back(ir::match(
        std::move(groups[g]),
        [&](Group&& members) -> ir::Step {
          return build_kernel(members, owned_by(owner, static_cast<int>(g)));
        },
        [](ir::Extern&& e) -> ir::Step { return std::move(e); },
        [](ir::Abort&& a) -> ir::Step { return a; }));
  return schedule;
}

}  // namespace graft::passes
