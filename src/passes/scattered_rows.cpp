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

/// How the steps run if nothing else is in their kernel.
enum class Way : uint8_t {
  ByColumns,  ///< as other kernels do
  ByRows,     ///< each thread its rows
  InOrder,    ///< one thread's
};

/// Threads that share short rows by columns write to the same few lines, and each walks over all
/// steps.
Way way_of(const Statement& s, size_t step, const ir::Target& target) {
  const int64_t steps = s.axes[step];
  if (steps < kManySteps || !keeps_to_its_row(s, step)) return Way::ByColumns;
  const int64_t columns = ir::numel(s.axes) / steps, rows = s.store.indirect[0].extent,
                bytes = columns * static_cast<int64_t>(c10::elementSize(s.store.dtype));
  if (columns < target.lanes) return Way::InOrder;
  const bool by_rows = bytes < kEnough * target.line_bytes && rows >= 4 * kEnough &&
                       steps * bytes >= target.second_cache_bytes;
  return by_rows ? Way::ByRows : Way::ByColumns;
}

void share_steps(Kernel& kernel, const Settings& settings) {
  ir::Loop* loop = lone_steps(kernel);
  if (loop == nullptr || kernel.range.empty()) return;
  const Placed& p = kernel.placed[0];
  const int step = axis_of(p, loop->var);
  if (step < 0) return;
  const Way way = way_of(p.statement, static_cast<size_t>(step), settings.target);
  if (way == Way::ByColumns) return;
  if (way == Way::ByRows) kernel.rows = p.statement.store.indirect[0].extent;
  std::vector<int> columns = kernel.range;
  make_serial(kernel, columns);
  loop->body[0] = nested(columns, std::move(loop->body[0]));
}

}  // namespace

bool adds_to_short_rows(const Statement& s, const ir::Target& target) {
  const bool even = std::all_of(s.growth.begin(), s.growth.end(), [](int64_t g) { return g == 0; });
  return s.repeated() && even && way_of(s, 0, target) != Way::ByColumns;
}

void share_rows(ir::Schedule& schedule, const Settings& settings) {
  each_kernel(schedule, [&](Kernel& kernel) { share_steps(kernel, settings); });
}

}  // namespace graft::passes
