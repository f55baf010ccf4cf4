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

/// Columns of a row, of which each step adds to one.
int64_t columns_of(const Statement& s, size_t step) {
  return ir::numel(s.axes) / std::max<int64_t>(s.axes[step], 1);
}

/// Would threads that share them by columns write to the same few lines?
bool are_short_rows(const Statement& s, size_t step, const ir::Target& target) {
  const auto bytes = static_cast<int64_t>(c10::elementSize(s.store.dtype));
  return keeps_to_its_row(s, step) && s.axes[step] >= kManySteps &&
         columns_of(s, step) * bytes < kEnough * target.line_bytes;
}

void share_steps(Kernel& kernel, const Settings& settings) {
  ir::Loop* loop = lone_steps(kernel);
  if (loop == nullptr || kernel.range.empty()) return;
  const Placed& p = kernel.placed[0];
  const Statement& s = p.statement;
  const int step = axis_of(p, loop->var);
  if (step < 0 || !are_short_rows(s, static_cast<size_t>(step), settings.target)) return;
  // One thread's where rows are shorter than a vector: each walks over all steps.
  const int64_t columns = columns_of(s, static_cast<size_t>(step));
  if (columns >= settings.target.lanes) {
    const int64_t rows = s.store.indirect[0].extent, steps = s.axes[static_cast<size_t>(step)];
    const auto bytes = static_cast<int64_t>(c10::elementSize(s.store.dtype));
    if (rows < 4 * kEnough || steps * columns * bytes < settings.target.second_cache_bytes) return;
    kernel.rows = rows;
  }
  std::vector<int> columns_vars = kernel.range;
  make_serial(kernel, columns_vars);
  loop->body[0] = nested(columns_vars, std::move(loop->body[0]));
}

}  // namespace

bool adds_to_short_rows(const Statement& s, const ir::Target& target) {
  return s.repeated() &&
         std::all_of(s.growth.begin(), s.growth.end(), [](int64_t g) { return g == 0; }) &&
         are_short_rows(s, 0, target);
}

void share_rows(ir::Schedule& schedule, const Settings& settings) {
  each_kernel(schedule, [&](Kernel& kernel) { share_steps(kernel, settings); });
}

}  // namespace graft::passes
