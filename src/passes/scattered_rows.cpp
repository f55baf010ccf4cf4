#include "passes/scattered_rows.h"

#include <algorithm>
#include <cstdlib>

#include "ir/builder.h"
#include "passes/group.h"
#include "passes/kernel_loops.h"
#include "passes/rewrite.h"

namespace graft::passes {

using ir::Access;
using ir::Kernel;
using ir::Placed;
using ir::Statement;

namespace {

constexpr int64_t kManySteps = 1024;  ///< looking at all of them is little beside the work

/// The loop of steps around the kernel's one statement; null: the kernel is another.
ir::Loop* lone_steps(Kernel& kernel) {
  if (kernel.placed.size() != 1 || kernel.placed[0].product || kernel.body.size() != 1) return {};
  ir::Loop* loop = kernel.body[0].loop.get();
  const bool steps = loop && is_step(kernel, *loop) && loop->body.size() == 1 &&
                     loop->body[0].loop == nullptr &&
                     kernel.vars[static_cast<size_t>(loop->var)].growth == 0;
  return steps ? loop : nullptr;
}

/// Does the statement touch, of what it stores to, nothing but the row that its index picks, which
/// follows from the step alone?
bool keeps_to_its_row(const Statement& s, size_t step) {
  if (s.reduction || s.store.indirect.size() != 1 || s.store.strides[step] != 0) return false;
  int64_t span = 0;
  for (size_t a = 0; a < s.axes.size(); ++a) {
    if (a == step) continue;
    if (is_scattered(s, s.store, a)) return false;
    span += std::abs(s.store.strides[a]) * (s.axes[a] - 1);
  }
  return std::abs(s.store.indirect[0].stride) > span &&
         std::all_of(s.loads.begin(), s.loads.end(), [&](const Access& load) {
           return load.storage != s.store.storage || load == s.store;
         });
}

void share_steps(Kernel& kernel, const Settings& settings) {
  ir::Loop* loop = lone_steps(kernel);
  if (loop == nullptr || kernel.range.empty()) return;
  const Placed& p = kernel.placed[0];
  const Statement& s = p.statement;
  const int step = axis_of(p, loop->var);
  if (step < 0 || !keeps_to_its_row(s, static_cast<size_t>(step))) return;
  const int64_t rows = s.store.indirect[0].extent, steps = s.axes[static_cast<size_t>(step)],
                columns = ir::numel(s.axes) / std::max<int64_t>(steps, 1);
  if (steps < kManySteps) return;
  // Shared by columns, threads would write to the same lines of rows shorter than a vector, and
  // each walk over all steps.
  if (columns >= settings.target.lanes) {
    const auto bytes = static_cast<int64_t>(c10::elementSize(s.store.dtype));
    const bool few = columns * bytes < kEnough * settings.target.line_bytes;
    if (!few || rows < 4 * kEnough || steps * columns * bytes < settings.target.second_cache_bytes)
      return;
    kernel.rows = rows;
  }
  std::vector<int> columns_of = kernel.range;
  make_serial(kernel, columns_of);
  loop->body[0] = nested(columns_of, std::move(loop->body[0]));
}

}  // namespace

void share_rows(ir::Schedule& schedule, const Settings& settings) {
  each_kernel(schedule, [&](Kernel& kernel) { share_steps(kernel, settings); });
}

}  // namespace graft::passes
