// Reports and explanations of one function.
#include <algorithm>

#include "codegen/backend.h"
#include "runtime/function/core_impl.h"
#include "runtime/process/worker.h"

namespace graft::detail {

using runtime::runtime_mutex;

Report Core::Impl::report() const {
  Report out;
  out.name = options.name;
  int64_t eager = eager_calls.load(std::memory_order_relaxed),
          outside = bypassed.load(std::memory_order_relaxed);
  std::lock_guard lock(runtime_mutex());
  out.calls = table.reads() + outside + last_calls.served();
  out.plan_hits = std::max<int64_t>(out.calls - eager, 0);
  out.records = records_;
  out.recorded_again = recorded_again_;
  out.families = families_.text();
  out.family_calls = families_.served();
  out.breaks = breaks_;
  out.kernels_compiled = kernels_compiled_;
  for (const auto& entry : all_entries()) {
    Tier tier = entry->tier.load(std::memory_order_acquire);
    out.plans += tier == Tier::Proving || tier == Tier::Racing || tier == Tier::Compiled;
  }
  if (newest_ == nullptr) {
    if (!outside_.empty()) out.verdict = Verdict::Break, out.reason = outside_;
    return out;
  }
  const Entry& entry = *newest_;
  out.verdict = entry.verdict;
  out.reason = entry.reason;
  if (gave_up_.load()) out.verdict = Verdict::Break, out.reason = outside_;
  if (entry.plan != nullptr && entry.tier.load(std::memory_order_acquire) > Tier::Compiling)
    out.kernels = static_cast<int64_t>(entry.plan->kernel_count()),
    out.folded_bytes = entry.plan->folded_bytes();
  if (entry.region != nullptr && out.kernels > 0) {
    out.backward_kernels = static_cast<int64_t>(entry.region->backward->kernel_count());
    out.kept_bytes = entry.region->kept_bytes;
  }
  double eager_ms = entry.eager_us / 1000;
  out.record_ms = entry.plan_ms + (eager_ms > 0 ? std::max(entry.record_ms - eager_ms, 0.0) : 0.0);
  out.compile_ms = entry.compile_ms;
  out.found = entry.found;
  out.eager_us = entry.eager_us;
  out.compiled_us = entry.compiled_us;
  out.compared = entry.compared;
  out.bitwise = entry.compared && entry.bitwise;
  out.max_abs_diff = entry.max_abs;
  out.fp64_decided = entry.fp64_decided;
  out.operators = entry.operators;
  out.tuned = entry.tuned;
  return out;
}

std::pair<std::shared_ptr<const record::Trace>, runtime::CompileSettings>
Core::Impl::newest_record() const {
  std::lock_guard lock(runtime_mutex());
  if (newest_ == nullptr) return {};
  return {newest_->trace, newest_->settings};
}

std::vector<Decision> Core::Impl::decisions() const {
  const auto [trace, settings] = newest_record();
  if (trace == nullptr) return {};
  std::shared_lock no_fork(runtime::compile_mutex());
  try {
    return runtime::schedule(*trace, settings, true).decisions();
  } catch (const std::exception&) {
    return {};  // the report says why it stays eager
  }
}

std::string Core::Impl::explain() const {
  const auto [trace, settings] = newest_record();
  std::string text = report().text();
  if (trace == nullptr)
    return text +
           "\nNothing is recorded, or it is being compiled; call the function, then wait().\n";
  // Scheduled anew from the trace, as it was: texts are not kept for functions that nobody asks
  // about.
  std::shared_lock no_fork(runtime::compile_mutex());
  try {
    runtime::Scheduled scheduled = runtime::schedule(*trace, settings, true);
    text += "\n" + runtime::describe(*trace, scheduled);
    text += std::string("== code generator ==\n") +
            codegen::host_backend().describe(scheduled.target) + "\n";
  } catch (const std::exception& error) {
    text += std::string("\n(") + error.what() + ")\n";
  }
  return text;
}

}  // namespace graft::detail
