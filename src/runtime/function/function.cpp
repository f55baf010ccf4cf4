// graft::detail::Core: the way of a call. The fast case first; the tiers are in tiers.cpp,
// recording in record.cpp.
#include <algorithm>
#include <atomic>
#include <mutex>

#include "passes/pipeline.h"
#include "record/trace.h"
#include "runtime/function/core_impl.h"
#include "runtime/memory/pool.h"
#include "runtime/process/log.h"
#include "runtime/process/worker.h"
#include "runtime/proof/captured_memory.h"

namespace graft {

namespace {

std::atomic<Stance> g_stance{Stance::Default};

}  // namespace

void set_stance(Stance stance) {
  g_stance.store(stance, std::memory_order_relaxed);
}
Stance stance() {
  return g_stance.load(std::memory_order_relaxed);
}

}  // namespace graft

namespace graft::detail {

namespace {

void check_passes(const std::vector<std::string>& skipped) {
  std::string optional;
  for (const passes::PassName& pass : passes::list())
    if (pass.optional) optional += (optional.empty() ? "" : ", ") + std::string(pass.name);
  for (const std::string& name : skipped)
    if (std::none_of(passes::list().begin(), passes::list().end(),
                     [&](const auto& pass) { return pass.optional && name == pass.name; }))
      throw Error("graft::compile: skip_passes names \"" + name + "\"; it may leave out " +
                  optional);
}

Options checked(Options options) {
  check_passes(options.skip_passes);
  static std::atomic<int> number{0};
  if (options.name.empty()) options.name = "fn" + std::to_string(number.fetch_add(1));
  options.max_plans = std::max<int64_t>(options.max_plans, 1);
  return options;
}

/// From its exit on a process calls functions eagerly: what libtorch keeps of its settings, which
/// keys read, is destroyed some time after.
void watch_exit() {
  static const bool once = [] {
    runtime::touch_settings();
    runtime::Worker::instance().watch_exit();
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace

Core::Impl::Impl(Options from)
    : options(checked(std::move(from))), table(std::make_unique<Table>()) {
  watch_exit();
}

Core::Core(Options options) : impl_(std::make_shared<Impl>(std::move(options))) {}
Core::~Core() = default;

void Core::call(CallBase& call) {
  Impl& impl = *impl_;
  // Inside another function's recorded run the operators themselves must be seen.
  if (runtime::disabled() || stance() == Stance::ForceEager || record::recording() ||
      runtime::Worker::instance().exiting()) {
    impl.bypassed.fetch_add(1, std::memory_order_relaxed);
    impl.eager_calls.fetch_add(1, std::memory_order_relaxed);
    return call.run_eager();
  }
  const bool reduces = impl.options.mode == Mode::ReduceOverhead && impl.options.audit_every == 0;
  const uint64_t version = impl.table.version();
  if (reduces && impl.last_calls.serve(call, version)) return;
  runtime::Key key;
  runtime::Unsupported unsupported;
  std::shared_ptr<Entry> entry;
  auto served = Impl::Served::No;
  std::optional<runtime::PlanError> wrong;
  {
    runtime::Snapshot<Table>::Reader table(impl.table);
    unsupported = key.build(call.args, table->leaves(), table->links());
    const std::shared_ptr<Entry>* found = unsupported ? nullptr : table->find(key);
    if (found != nullptr) {
      Entry& ready = **found;
      ready.touch(impl.clock.load(std::memory_order_relaxed));
      Tier tier = ready.tier.load(std::memory_order_acquire);
      if (tier == Tier::Compiled && impl.options.audit_every == 0 &&
          !ready.steady.changes(call.args)) {
        served = impl.serve(ready, call, wrong);
        if (served == Impl::Served::Yes) {
          ready.served();
          if (reduces && table->leaves().empty() && !table->links())
            impl.last_calls.note(*found, version);
          return;
        }
      }
      bool for_good = ready.until_rematch.load(std::memory_order_relaxed) <= 0;
      if (tier == Tier::Eager && for_good && !impl.options.fullgraph)
        served = Impl::Served::GivenUp;
      else
        entry = *found;
    }
  }
  const runtime::OwnFrames own(__builtin_frame_address(0));
  if (served == Impl::Served::No)
    impl.slow_call(call, key, std::move(entry), unsupported);
  else
    impl.after_serving(served, call, key, entry, wrong);
}

Report Core::report() const {
  return impl_->report();
}
std::string Core::explain() const {
  return impl_->explain();
}
std::vector<Decision> Core::decisions() const {
  return impl_->decisions();
}
void Core::wait() const {
  impl_->wait();
}
void Core::reset() {
  impl_->reset();
}

Core::Impl::Served Core::Impl::serve(const Entry& entry, CallBase& call,
                                     std::optional<runtime::PlanError>& wrong) const {
  constexpr int kAdaptations = 2;
  if (entry.region && entry.adapted < kAdaptations && entry.region->feedback.ready())
    return Served::Stale;
  // Autograd's engine adds to a leaf's gradient under a lock of the leaf's; plans take turns. Not
  // those that wait for other processes, which may be threads here: each has leaves of its own.
  static auto* turns = new std::recursive_mutex;  // a thread may outlive static objects
  std::unique_lock<std::recursive_mutex> turn;
  if (!entry.plan->communicates() &&
      (entry.plan->sets_gradients() || entry.captured.has_gradients() ||
       !runtime::only_watch(entry.participants)))
    turn = std::unique_lock(*turns);
  c10::SmallVector<at::Tensor, 4> captured(entry.captured.size());
  if (!captured.empty() && !entry.captured.lock(call.args, captured.data())) return Served::Stale;
  if (!entry.participants.empty()) {
    const auto prepared = runtime::prepare(entry.participants);
    if (prepared == runtime::Prepared::OtherWay) return Served::GivenUp;
    if (prepared == runtime::Prepared::Stale) return Served::Stale;
  }
  c10::SmallVector<at::Tensor, 4> results(entry.plan->result_count());
  try {
    if (entry.plan->run(call.args, captured.data(), results.data()) ==
        runtime::Plan::Outcome::GivenUp)
      return Served::GivenUp;
  } catch (const runtime::PlanError& error) {
    wrong.emplace(error);
    return Served::Wrong;
  }
  for (const auto& participant : entry.participants) participant->commit();
  if (entry.region)
    runtime::connect(entry.region, call.args, captured.data(), captured.size(), results.data(),
                     entry.region->has_effects ? nullptr : call.keep());
  call.set_result(entry.prototype.get(), results.data());
  return Served::Yes;
}

void Core::Impl::run_eager(CallBase& call) {
  eager_calls.fetch_add(1, std::memory_order_relaxed);
  const runtime::EagerPool pool;  // as for plans: what is written costs no page faults
  call.run_eager();
}

}  // namespace graft::detail
