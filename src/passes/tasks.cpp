#include "passes/tasks.h"

#include <algorithm>
#include <cmath>

#include "ir/text.h"
#include "passes/kernel_loops.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Kernel;
using ir::Placed;
using ir::Schedule;

namespace {

constexpr double kLook = 0.5;        ///< nanoseconds that it takes to see whose step one is
constexpr double kOfOwnSteps = 8;    ///< times as long as a task looks, it should work
constexpr double kOperation = 0.05;  ///< nanoseconds, at most: tasks may be longer than they look

void set_grain(Kernel& kernel) {
  double iterations = 1;
  for (int v : kernel.range)
    iterations *= static_cast<double>(kernel.vars[static_cast<size_t>(v)].extent);
  if (kernel.range.empty() && kernel.body.size() == 1 && kernel.body[0].loop)
    iterations =
        static_cast<double>(kernel.vars[static_cast<size_t>(kernel.body[0].loop->var)].extent);
  double nanoseconds = 0;
  for (const Placed& p : kernel.placed)
    nanoseconds += static_cast<double>(points(p.statement)) *
                   (static_cast<double>(p.statement.loads.size()) + 1 + work(p.statement)) *
                   kOperation;
  double least = ir::kGrainNanoseconds;
  if (kernel.rows > 0) {
    // Each task looks at all steps.
    iterations = static_cast<double>(kernel.rows);
    least += kOfOwnSteps * kLook *
             static_cast<double>(kernel.vars[static_cast<size_t>(kernel.body[0].loop->var)].extent);
  }
  kernel.grain = std::max<int64_t>(
      1, static_cast<int64_t>(std::ceil(least / std::max(nanoseconds / iterations, 0.01))));
}

void set_name(Kernel& kernel) {
  std::string last;
  for (const Placed& p : kernel.placed) {
    const auto& reduction = p.statement.reduction;
    std::string part = p.product ? "product" : reduction ? ir::name_of(reduction->op) : "map";
    if (part != last) kernel.name += (kernel.name.empty() ? "" : "_") + part;
    last = part;
  }
}

}  // namespace

void size_tasks(Schedule& schedule) {
  each_kernel(schedule, [](Kernel& kernel) {
    set_grain(kernel);
    set_name(kernel);
  });
}

}  // namespace graft::passes
