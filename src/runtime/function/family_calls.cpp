// Calls whose sizes were never recorded, served by plans of a family.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>

#include "runtime/function/core_impl.h"
#include "runtime/process/log.h"
#include "runtime/process/worker.h"
#include "runtime/proof/odds.h"
#include "runtime/proof/shadow.h"

namespace graft::detail {

using runtime::Box;
using runtime::Family;
using runtime::FamilyBox;
using runtime::Key;
using runtime::log;
using runtime::Point;
using runtime::runtime_mutex;
using runtime::Shadow;
using runtime::Topic;

namespace {

/// Of calls of a proven box, one in so many is compared with eager.
constexpr int64_t kCallsPerAudit = 128;

/// Microseconds of the plan. Where a run leaves no trace it runs once more: in the proof its memory
/// was new. Where it changes what the caller sees, or others hear it, the proof's own time.
double time_again(const runtime::Plan& plan, CallBase& call, const at::Tensor* captured,
                  Shadow& shadow) {
  const bool pure = !plan.communicates() && plan.generators().empty() && plan.raises().empty() &&
                    !plan.sets_gradients() &&
                    std::none_of(plan.blocks().begin(), plan.blocks().end(), [](const auto& block) {
                      return block.is_callers() && block.written;
                    });
  if (!pure) return shadow.compiled_us;
  shadow.results.clear();  // their memory is there for the next results, as between calls
  std::vector<at::Tensor> results(plan.result_count());
  const auto start = std::chrono::steady_clock::now();
  plan.run(call.args, captured, results.data());
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

/// What a recorded layout gets of its record is its example's here.
std::shared_ptr<Entry> like(const Family& family, const Key& key,
                            std::shared_ptr<const runtime::Plan> plan) {
  const Entry& example = *family.newest.entry;
  auto entry = std::make_shared<Entry>(key);
  entry->plan = std::move(plan);
  entry->captured = example.captured;
  entry->prototype = example.prototype;
  entry->constants = example.constants;
  entry->tolerance = family.tolerance;
  entry->gives_up = example.gives_up;
  entry->participants = example.participants;
  entry->tier.store(Tier::Compiled, std::memory_order_relaxed);
  entry->verdict = Verdict::Faster;
  entry->reason = "made of the plans of other sizes";
  return entry;
}

/// For one call. Null: there is none for the point.
std::shared_ptr<const runtime::Plan> spare_plan(FamilyBox& box, const Point& point) {
  for (const runtime::Template* of : box.plans->of(point)) {
    if (of->is_constant()) return of->at(point);
    auto spare = std::find_if(box.spares.begin(), box.spares.end(),
                              [&](const runtime::Refill& one) { return &one.of() == of; });
    if (spare == box.spares.end()) {
      if (box.spares.size() == FamilyBox::kMostSpares) box.spares.erase(box.spares.begin());
      box.spares.emplace_back(*of);
    } else {
      std::rotate(spare, spare + 1, box.spares.end());
    }
    if (auto plan = box.spares.back().at(point)) return plan;
  }
  return nullptr;
}

}  // namespace

bool Core::Impl::served_by_family(CallBase& call, const Key& key) {
  if (options.sizes != Sizes::Family) return false;
  runtime::Families::Found found;
  {
    std::lock_guard lock(runtime_mutex());
    found = families_.find(key.words.view());
  }
  if (found.family == nullptr) return false;
  const std::shared_ptr<FamilyBox> box =
      found.box != nullptr ? std::move(found.box) : box_for(found.family, found.point);
  if (found.point.size() == 1 && options.async && found.family->calls_grow(found.point[0]))
    compile_larger(found.family, 2 * found.point[0]);
  FamilyBox::State state = box->state.load(std::memory_order_acquire);
  if (state == FamilyBox::State::PerLayout) return false;
  if (state == FamilyBox::State::Compiling) {
    runtime::Worker::instance().ensure_running();
    return run_eager(call), true;
  }
  if (box->until_proof.load(std::memory_order_relaxed) > 0 &&
      box->until_proof.fetch_sub(1, std::memory_order_relaxed) == 1 &&
      box->state.compare_exchange_strong(state, FamilyBox::State::Proving))
    state = FamilyBox::State::Proving;
  if (state == FamilyBox::State::Slower) return run_eager(call), true;
  Family& family = *found.family;
  const bool audit =
      state == FamilyBox::State::Compiled &&
      box->calls.fetch_add(1, std::memory_order_relaxed) % kCallsPerAudit == kCallsPerAudit - 1;
  // A size that comes again gets a plan to keep, once it is known to be worth it.
  const bool kept = family.comes_again(key.hash) && box->settled.load(std::memory_order_relaxed);
  std::optional<runtime::Turn> once;
  if (state == FamilyBox::State::Compiled && !audit && !kept) once.emplace(box->spare_busy);
  const bool spare = once && *once;
  auto plan = spare ? spare_plan(*box, found.point) : box->plans->at(found.point);
  if (plan == nullptr) return false;
  std::shared_ptr<Entry> entry = spare ? box->spare : nullptr;
  if (entry == nullptr)
    entry = like(family, key, std::move(plan));
  else
    entry->plan = std::move(plan);
  if (spare) box->spare = entry;
  if (runtime::prepare(entry->participants) != runtime::Prepared::Yes) return false;
  if (state == FamilyBox::State::Proving || audit) {
    runtime::Turn turn(box->busy);
    if (!turn) return run_eager(call), true;
    c10::SmallVector<at::Tensor, 4> captured(entry->captured.size());
    if (entry->captured.lock(call.args, captured.data()))
      return prove_box(call, *entry, captured.data(), family, *box), true;
    std::lock_guard lock(runtime_mutex());
    families_.clear();
    return false;
  }
  std::optional<runtime::PlanError> wrong;
  switch (const Served served = serve(*entry, call, wrong); served) {
    case Served::Yes:
      family.served.fetch_add(1, std::memory_order_relaxed);
      family.misses.served();
      if (kept) admit(entry, key);
      return true;
    case Served::Stale: {
      if (entry->captured.any_is_argument(call.args)) return run_eager(call), true;
      std::lock_guard lock(runtime_mutex());
      families_.clear();
      return false;
    }
    case Served::Wrong:
      retire(family, wrong->what(), /*for_good=*/true);
      after_serving(served, call, key, entry, wrong);
      return true;
    case Served::GivenUp:
      if (family.misses.add() && !entry->gives_up.empty() && !record_otherwise(*entry))
        retire(family, "its plans gave up in many of the last calls: " + entry->gives_up);
      break;
    case Served::No:
      break;
  }
  return run_eager(call), true;
}

std::shared_ptr<FamilyBox> Core::Impl::box_for(const std::shared_ptr<Family>& family,
                                               const Point& point) {
  const Box sizes = runtime::box_of(point);
  std::shared_ptr<FamilyBox> made;
  {
    std::lock_guard lock(runtime_mutex());
    if (auto known = family->box_of(sizes)) return known;
    made = std::make_shared<FamilyBox>();
    if (family->boxes.size() == Family::kMostBoxes) family->boxes.pop_back();
    family->boxes.insert(family->boxes.begin(), {sizes, made});
  }
  enqueue([family, sizes, made](Impl& impl) { impl.compile_box(family, sizes, made); });
  return made;
}

void Core::Impl::compile_box(const std::shared_ptr<Family>& family, const Box& box,
                             const std::shared_ptr<FamilyBox>& made) {
  int64_t kernels = 0;
  made->plans = runtime::compile_box(*family, box, kernels);
  const bool any = made->plans->templates() > 0;
  for (size_t i = 0; i < made->plans->templates(); ++i)
    if (const runtime::Template& of = (*made->plans)[i];
        !of.is_constant() && made->spares.size() < FamilyBox::kMostSpares)
      made->spares.emplace_back(of);
  {
    std::lock_guard lock(runtime_mutex());
    kernels_compiled_ += kernels;
  }
  if (!any && !made->plans->why().empty())
    log(Topic::Recompiles, options.name + ": no plan for " + made->plans->why());
  made->state.store(any ? FamilyBox::State::Proving : FamilyBox::State::PerLayout,
                    std::memory_order_release);
}

void Core::Impl::prove_box(CallBase& call, const Entry& entry, const at::Tensor* captured,
                           Family& family, FamilyBox& box) {
  eager_calls.fetch_add(1, std::memory_order_relaxed);
  bool beside = runtime::Worker::instance().is_busy();
  Shadow shadow =
      runtime::run_shadow(*entry.plan, entry.tolerance, call, captured, entry.constants);
  if (shadow.took_other_way(!entry.gives_up.empty())) shadow.outcome = Shadow::Outcome::GivenUp;
  if (shadow.outcome == Shadow::Outcome::Different) {
    if (shadow.random_disturbed) return;
    if (shadow.maybe_rounding && !entry.tolerance.exact)
      return box.state.store(FamilyBox::State::PerLayout, std::memory_order_release);
    return retire(
        family,
        shadow.what + "; under Sizes::Family a function must do the same whatever the sizes are",
        /*for_good=*/true);
  }
  if (box.state.load(std::memory_order_acquire) != FamilyBox::State::Proving) return;
  std::optional<double> gain;
  if (shadow.outcome != Shadow::Outcome::GivenUp) {
    gain = shadow.eager_us / std::max(shadow.compiled_us, 1e-3);
    if (options.race && !runtime::Odds::is_clear(*gain, beside))
      gain = std::max(
          *gain, shadow.eager_us / std::max(time_again(*entry.plan, call, captured, shadow), 1e-3));
    beside = beside || runtime::Worker::instance().is_busy();
  }
  const auto verdict = gain && !options.race ? std::optional(runtime::Odds::Verdict{true, 0})
                                             : box.odds.add(gain, beside);
  if (!verdict) return;
  box.settled.store(verdict->faster && verdict->until_proof == 0, std::memory_order_relaxed);
  box.until_proof.store(verdict->until_proof, std::memory_order_relaxed);
  box.state.store(verdict->faster ? FamilyBox::State::Compiled : FamilyBox::State::Slower,
                  std::memory_order_release);
}

void Core::Impl::retire(Family& family, const std::string& why, bool for_good) {
  {
    std::lock_guard lock(runtime_mutex());
    if (for_good) families_.refuse(family.newest.entry->key.words, why, true);
    family.why_retired = why;
    std::vector<std::shared_ptr<Entry>> entries = table.peek().entries();
    // (What is served without a proof of its own.)
    std::erase_if(entries,
                  [](const auto& entry) { return entry->trace == nullptr && !entry->compared; });
    fill_table(std::move(entries));
  }
  family.retired.store(true, std::memory_order_release);
  runtime::warn_once(options.name + ": ", "plans for sizes that were not recorded: " + why);
}

bool Core::Impl::may_become_family(const Key& key) const {
  if (options.sizes != Sizes::Family) return false;
  std::lock_guard lock(runtime_mutex());
  const runtime::KeyWords words = key.words.view();
  const auto waiting =
      std::count_if(not_considered_.begin(), not_considered_.end(),
                    [&](const auto& entry) { return runtime::same_kind(entry->key.words, words); });
  return waiting > 0 && families_.may_become(words, static_cast<size_t>(waiting));
}

/// The entry was compiled: with others like it, it may say how plans depend on sizes.
void Core::Impl::consider_family(const std::shared_ptr<Entry>& entry,
                                 const std::shared_ptr<record::Trace>& trace) {
  if (options.sizes != Sizes::Family) return;
  if (entry->plan != nullptr && runtime::only_watch(trace->participants)) join_family(entry, trace);
  std::lock_guard lock(runtime_mutex());
  std::erase(not_considered_, entry);
}

void Core::Impl::join_family(const std::shared_ptr<Entry>& entry,
                             const std::shared_ptr<record::Trace>& trace) {
  std::vector<runtime::FamilyExample> examples;
  {
    std::lock_guard lock(runtime_mutex());
    examples = families_.add({entry, trace, entry->settings});
  }
  if (examples.empty()) return;
  std::shared_ptr<Family> family;
  try {
    family = runtime::make_family(examples);
  } catch (const std::exception& error) {
    log(Topic::Recompiles, options.name + ": each layout has a plan of its own: " + error.what());
    std::lock_guard lock(runtime_mutex());
    return families_.refuse(entry->key.words, error.what());
  }
  log(Topic::Recompiles, options.name + ": plans for all sizes: " + family->pattern.text());
  {
    std::lock_guard lock(runtime_mutex());
    families_.add(family);
  }
  if (family->largest.size() != 1 || !options.async) return;
  // The sizes that may come: those around the recorded ones, larger ones, then small ones.
  const int64_t largest = family->largest[0];
  box_for(family, {largest});
  compile_larger(family, (family->records_grew ? 32 : 2) * largest);
  for (int64_t size = runtime::box_of({{largest}})[0].low - 1; size >= 2;
       size = runtime::box_of({{size}})[0].low - 1)
    box_for(family, {size});
}

void Core::Impl::compile_larger(const std::shared_ptr<Family>& family, int64_t most) {
  for (int64_t size = std::max(family->ahead.load(), family->largest[0]); size < most;) {
    box_for(family, {size + 1});
    size = runtime::box_of({{size + 1}})[0].high;
    family->ahead.store(size, std::memory_order_relaxed);
  }
}

}  // namespace graft::detail
