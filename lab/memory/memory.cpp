#include "lab/memory/memory.h"

#include <ATen/Parallel.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "lab/memory/label.h"
#include "lab/memory/ledger.h"
#include "lab/memory/resident.h"

namespace graft::lab {
namespace {

using c10::DebugInfoKind;
using c10::ThreadLocalDebugInfo;
using detail::Ledger;

/// The ledger of the tracker that this thread is in, null if there is none.
std::shared_ptr<Ledger> enclosing() {
  c10::DebugInfoBase* there = ThreadLocalDebugInfo::get(DebugInfoKind::PROFILER_STATE);
  if (there == nullptr) return nullptr;
  auto* ledger = dynamic_cast<Ledger*>(there);
  if (ledger == nullptr) {
    throw std::runtime_error(
        "a memory tracker was started where a profiler, or a compiler's recorder, already watches "
        "this thread's memory; stop it first, or start the tracker outside of it.");
  }
  if (!ledger->open()) return nullptr;
  return ledger->shared_from_this();
}

/// Runs `f` once on each of ATen's intra-op threads but this one.
template <class F>
void on_workers(const F& f) {
  const auto mine = std::this_thread::get_id();
  at::parallel_for(0, at::get_num_threads(), 1, [&](int64_t, int64_t) {
    if (std::this_thread::get_id() != mine) f();
  });
}

}  // namespace

struct MemoryTracker::State {
  std::shared_ptr<Ledger> outer = enclosing();
  std::shared_ptr<ThreadLocalDebugInfo> outer_info =
      outer ? ThreadLocalDebugInfo::current() : nullptr;
  std::shared_ptr<Ledger> ledger;
  std::shared_ptr<ThreadLocalDebugInfo> info;
  std::optional<c10::DebugInfoGuard> guard;
  std::optional<at::CallbackHandle> observer;
  Resident before, after;  // after: once stopped
  bool peak_reset = false;
  bool stopped = false;

  explicit State(MemoryOptions options)
      : ledger(std::make_shared<Ledger>(std::move(options), outer)) {
    guard.emplace(DebugInfoKind::PROFILER_STATE, ledger);
    info = ThreadLocalDebugInfo::current();
    // ATen's threads report to this thread's ledger too, which c10 itself does not arrange.
    on_workers([&] {
      if (ThreadLocalDebugInfo::current() == outer_info)
        ThreadLocalDebugInfo::_forceCurrentDebugInfo(info);
    });
    if (!outer) observer = at::addThreadLocalCallback(detail::label_observer());
    before = read_resident();
    if (outer) outer->saw_resident(before.peak);  // what the reset makes Linux forget
    peak_reset = reset_resident_peak();
    ledger->start();
  }

  void stop() {
    if (stopped) return;
    stopped = true;
    ledger->close();
    after = read_resident();
    ledger->saw_resident(after.peak);
    if (observer) at::removeCallback(*observer);
    on_workers([&] {
      if (ThreadLocalDebugInfo::current() == info)
        ThreadLocalDebugInfo::_forceCurrentDebugInfo(outer_info);
    });
    guard.reset();
  }
};

MemoryTracker::MemoryTracker(MemoryOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}

MemoryTracker::~MemoryTracker() {
  state_->stop();
}

void MemoryTracker::stop() {
  state_->stop();
}

MemoryReport MemoryTracker::report() const {
  MemoryReport out = state_->ledger->report();
  const Resident now = state_->stopped ? state_->after : read_resident();
  const int64_t peak = std::max(out.peak_resident, state_->stopped ? -1 : now.peak);
  out.start_resident = state_->before.current;
  out.end_resident = now.current;
  // A peak that could not be reset tells something about this scope only if the scope exceeded it.
  const bool known = peak >= 0 && (state_->peak_reset || peak > state_->before.peak);
  out.peak_resident = known ? std::max<int64_t>(peak - out.start_resident, 0) : -1;
  return out;
}

MemoryUse MemoryTracker::use() const {
  const MemoryReport seen = report();
  return {seen.peak_bytes, seen.peak_reserved, seen.peak_resident};
}

int64_t MemoryTracker::live_bytes() const {
  return state_->ledger->live();
}

MemoryRegion::MemoryRegion(const std::string& name) : range_(at::RecordScope::USER_SCOPE) {
  if (range_.isActive()) range_.before(std::string_view(name));
}

}  // namespace graft::lab
