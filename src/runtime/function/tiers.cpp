// From a plan to a verdict: the proof, the race, the plan in use.
#include <ATen/Parallel.h>

#include <chrono>
#include <utility>

#include "runtime/function/core_impl.h"
#include "runtime/function/scales.h"
#include "runtime/process/log.h"
#include "runtime/process/worker.h"
#include "runtime/proof/arguments.h"
#include "runtime/proof/shadow.h"
#include "runtime/store/store.h"
#include "runtime/store/stored_plan.h"

namespace graft::detail {

using runtime::Key;
using runtime::log;
using runtime::Race;
using runtime::runtime_mutex;
using runtime::Shadow;
using runtime::Topic;
using runtime::Turn;

namespace {

constexpr int kShadowsWithoutProof = 3, kShadowsOfWays = 16;

constexpr const char* kFunctionDiffers =
    "; the function did something else than when it was recorded, as one does whose control flow "
    "depends on data or on global state: pass what it depends on as an argument, or call it "
    "eagerly";
constexpr const char* kValuesDiffer =
    "; a function whose code reads tensors through pointers, or numbers that change, must stay "
    "eager, otherwise please report it with what GRAFT_TRACE=dir writes";
constexpr const char* kVariableDiffers =
    "; a variable that the function captured is another than when it was recorded: pass it as an "
    "argument (a number that tensors are computed with as a graft::Number)";

}  // namespace

void Core::Impl::slow_call(CallBase& call, const Key& key, std::shared_ptr<Entry> entry,
                           const runtime::Unsupported& unsupported) {
  if (unsupported) {
    note_unsupported(call, unsupported);
    return run_eager(call);
  }
  if (entry == nullptr) return miss(call, key);
  switch (entry->tier.load(std::memory_order_acquire)) {
    case Tier::Compiling:
      runtime::Worker::instance().ensure_running();
      return run_eager(call);
    case Tier::Recording:
      return run_eager(call);
    case Tier::Eager:
      if (options.fullgraph) throw_if_broken(*entry);
      if (entry->until_rematch.load(std::memory_order_relaxed) > 0 &&
          entry->until_rematch.fetch_sub(1, std::memory_order_relaxed) == 1)
        return rematch(call, key, entry);
      return run_eager(call);
    case Tier::Retry: {
      if (passes_known_leaf(call)) return run_eager(call);
      Turn turn(entry->busy);
      if (!turn || entry->tier.load() != Tier::Retry) return run_eager(call);
      turn.hand_on();
      {
        std::lock_guard lock(runtime_mutex());
        ++records_;
      }
      return record(call, entry);
    }
    case Tier::Proving:
      return prove(call, key, entry, /*audit=*/false);
    case Tier::Racing:
      return race(call, key, entry);
    case Tier::Compiled:
      return compiled(call, key, entry);
  }
}

void Core::Impl::throw_if_broken(const Entry& entry) const {
  std::string why;
  {
    std::lock_guard lock(runtime_mutex());
    if (entry.verdict != Verdict::Break) return;
    why = entry.reason;
  }
  throw Error(options.name + ": " + why);
}

void Core::Impl::settle(Entry& entry, Tier tier, Verdict verdict, const std::string& reason) {
  {
    std::lock_guard lock(runtime_mutex());
    entry.verdict = verdict;
    entry.reason = reason;
  }
  entry.tier.store(tier, std::memory_order_release);
  const bool wrong = verdict == Verdict::Failed || verdict == Verdict::Mismatch;
  if (wrong && !runtime::Worker::instance().stopping())
    runtime::warn_once(options.name + " stays eager: ",
                       std::string(to_string(verdict)) + ": " + reason);
  else
    log(Topic::Codegen, options.name + ": " + to_string(verdict) + ": " + reason);
  bool final_word = tier == Tier::Compiled || tier == Tier::Eager;
  if (final_word) runtime::dump_report(runtime::trace_directory(), options.name, report().text());
}

void Core::Impl::after_serving(Served served, CallBase& call, const Key& key,
                               const std::shared_ptr<Entry>& entry,
                               const std::optional<runtime::PlanError>& wrong) {
  switch (served) {
    case Served::No:
    case Served::Yes:
      return;
    case Served::GivenUp:
      if (entry) return other_way(call, key, entry);
      return run_eager(call);
    case Served::Stale:
      return replace_stale(call, key, entry);
    case Served::Wrong:
      break;
  }
  std::string why =
      std::string(wrong->what()) + "; leave that operator outside of the compiled function";
  settle(*entry, Tier::Eager, Verdict::Failed, why);
  // Eager cannot run after half of the changes were made.
  if (wrong->visible) throw Error(options.name + ": " + why);
  run_eager(call);
}

void Core::Impl::unlike_record(runtime::Prepared prepared, CallBase& call, const Key& key,
                               const std::shared_ptr<Entry>& entry) {
  if (prepared == runtime::Prepared::Stale) return replace_stale(call, key, entry);
  other_way(call, key, entry);
}

void Core::Impl::prove(CallBase& call, const Key& key, const std::shared_ptr<Entry>& entry,
                       bool audit) {
  Turn turn(entry->busy);
  Tier tier = entry->tier.load(std::memory_order_acquire);
  const bool expected =
      audit ? tier == Tier::Compiled || tier == Tier::Racing : tier == Tier::Proving;
  if (!turn || !expected) return run_eager(call);
  const runtime::HeldArguments held(call);
  c10::SmallVector<at::Tensor, 4> captured(entry->captured.size());
  const auto prepared = entry->captured.lock(call.args, captured.data())
                            ? runtime::prepare(entry->participants)
                            : runtime::Prepared::Stale;
  if (prepared != runtime::Prepared::Yes) {
    turn.release();
    return unlike_record(prepared, call, key, entry);
  }
  eager_calls.fetch_add(1, std::memory_order_relaxed);
  Shadow shadow = entry->region
                      ? shadow_region(*entry, call, captured.data())
                      : runtime::run_shadow(*entry->plan, entry->tolerance, call, captured.data(),
                                            entry->constants, entry->scales);
  if (shadow.took_other_way(!entry->gives_up.empty())) shadow.outcome = Shadow::Outcome::GivenUp;
  if (shadow.outcome == Shadow::Outcome::GivenUp) {
    if (audit && !entry->branches) return missed(*entry);
    if (audit) return entry->went_other_way.store(entry->steady.changes(held.args()));
    if (++entry->no_proofs < (entry->is_way ? kShadowsOfWays : kShadowsWithoutProof)) return;
    if (!entry->gives_up.empty()) {
      if (!record_otherwise(*entry))
        settle(*entry, Tier::Eager, Verdict::NotFaster,
               "the plan gave up in each call that was to prove it: " + entry->gives_up);
      return;
    }
    return settle(*entry, Tier::Eager, Verdict::Failed,
                  "the plan gave up where eager did not" +
                      (shadow.what.empty() ? "" : ": " + shadow.what) +
                      "; GRAFT_TRACE=dir shows the program");
  }
  if (shadow.random_disturbed && shadow.outcome == Shadow::Outcome::Different &&
      ++entry->no_proofs < kShadowsWithoutProof)
    return;
  {
    std::lock_guard lock(runtime_mutex());
    entry->compared = true;
    entry->bitwise = entry->bitwise && shadow.bitwise;
    entry->max_abs = std::max(entry->max_abs, shadow.max_abs);
    entry->fp64_decided = entry->fp64_decided || shadow.by_reference;
  }
  if (shadow.outcome == Shadow::Outcome::Different && shadow.maybe_rounding &&
      entry->approximated && !entry->scales.replay)
    return weigh(entry, shadow.what);
  // The next process compiles anew.
  if (shadow.outcome == Shadow::Outcome::Different && entry->found && options.cache)
    enqueue([stored = entry->stored](Impl&) { runtime::drop_stored(*stored); });
  if (shadow.outcome == Shadow::Outcome::Different)
    return settle(*entry, Tier::Eager, Verdict::Mismatch,
                  shadow.what + (entry->steady.variable_differs()          ? kVariableDiffers
                                 : shadow.cause == Shadow::Cause::Function ? kFunctionDiffers
                                                                           : kValuesDiffer));
  entry->steady.proven(held.args());
  if (audit) return;
  if (options.audit_every == 0 && !entry->steady.any()) entry->approximated.reset();
  const std::string proven = shadow.by_reference ? "proven by fp64" : "proven equal";
  if (entry->found && raced_before(*entry, proven)) return;
  if (options.race)
    return settle(*entry, Tier::Racing, Verdict::Proving, proven + "; now raced against eager");
  keep_proof(*entry, /*faster=*/true);
  settle(*entry, Tier::Compiled, Verdict::Faster, proven + "; not raced (Options::race is off)");
}

/// The race that another process ran, on a machine like this one, need not be run again.
bool Core::Impl::raced_before(Entry& entry, const std::string& proven) {
  const runtime::Proof proof = runtime::proof_of(entry.stored->proof);
  if (!options.race || !proof.faster || !proof.raced || proof.threads != at::get_num_threads())
    return false;
  {
    std::lock_guard lock(runtime_mutex());
    entry.eager_us = proof.eager_us;
    entry.compiled_us = proof.compiled_us;
  }
  settle(entry, Tier::Compiled, Verdict::Faster,
         proven + "; raced by another process: " + runtime::text_of(proof));
  expect_recheck(entry);
  return true;
}

/// With the proof they go to the disk.
void Core::Impl::keep_scales(Entry& entry, const std::vector<runtime::StoredScales>& scales) {
  if (entry.stored == nullptr || !entry.scales.replay) return;
  try {
    auto with = std::make_shared<runtime::StoredEntry>(*entry.stored);
    with->scales = runtime::bytes_of(scales);
    std::lock_guard lock(runtime_mutex());
    entry.stored = std::move(with);
  } catch (const std::exception& error) {
    log(Topic::Cache, std::string("not kept: ") + error.what());
  }
}

void Core::Impl::keep_proof(Entry& entry, bool faster) {
  if (entry.stored == nullptr) return;
  if (entry.found && !options.race) return;  // what is known of it is more
  runtime::Proof proof;
  proof.proven = true;
  proof.raced = options.race;
  proof.faster = faster;
  proof.threads = at::get_num_threads();
  auto kept = std::make_shared<runtime::StoredEntry>(*entry.stored);
  {
    std::lock_guard lock(runtime_mutex());
    proof.bitwise = entry.bitwise;
    proof.fp64_decided = entry.fp64_decided;
    proof.max_abs = entry.max_abs;
    proof.eager_us = entry.eager_us;
    proof.compiled_us = entry.compiled_us;
    kept->proof = runtime::bytes_of(proof);
    entry.stored = kept;
  }
  if (!options.cache) return;
  // At once: equal functions that wait to be compiled look for it. Not while a fork is made.
  runtime::Worker::run([&] { runtime::share_stored(kept); });
  enqueue([kept](Impl&) { runtime::keep_stored(*kept); });
}

/// Results differ, perhaps by what their sums round: scales and fp64 will tell.
void Core::Impl::weigh(const std::shared_ptr<Entry>& entry, const std::string& difference) {
  settle(*entry, Tier::Compiling, Verdict::Proving,
         difference + "; compiling what tells whether the rounding of sums explains that");
  runtime::CompileSettings settings;
  {
    std::lock_guard lock(runtime_mutex());
    settings = entry->settings;  // with what tuning decided
  }
  enqueue([entry, difference, settings](Impl& impl) {
    std::vector<runtime::StoredScales> kept(1);
    entry->scales = runtime::compile_scales(*entry->approximated, settings, nullptr, kept[0]);
    if (entry->region && entry->scales.replay)
      entry->region->scales = runtime::compile_scales(*entry->approximated, settings,
                                                      entry->region.get(), kept.emplace_back());
    keep_scales(*entry, kept);
    if (impl.options.cache && entry->stored != nullptr) runtime::share_stored(entry->stored);
    if (!entry->scales.replay || (entry->region && !entry->region->scales.replay))
      impl.settle(*entry, Tier::Eager, Verdict::Mismatch, difference + kValuesDiffer);
    else
      impl.settle(*entry, Tier::Proving, Verdict::Proving,
                  difference + "; the next call tells whether the rounding of sums explains that");
  });
}

void Core::Impl::race(CallBase& call, const Key& key, const std::shared_ptr<Entry>& entry,
                      double spent_us) {
  if (entry->steady.changes(call.args)) return compare_again(call, key, entry);
  Turn turn(entry->busy);
  if (!turn || entry->tier.load(std::memory_order_acquire) != Tier::Racing) return run_eager(call);
  if (entry->region) {
    if (!race_region(*entry, call)) {
      turn.release();
      return replace_stale(call, key, entry);
    }
    return finish_race(*entry);
  }
  if (const auto prepared = runtime::prepare(entry->participants);
      prepared != runtime::Prepared::Yes) {
    turn.release();
    return unlike_record(prepared, call, key, entry);
  }
  Race::Side side = entry->race.next();
  auto start = std::chrono::steady_clock::now();
  if (side == Race::Side::Eager) {
    run_eager(call);
  } else {
    std::optional<runtime::PlanError> wrong;
    Served served = serve(*entry, call, wrong);
    if (served == Served::GivenUp && entry->branches) {
      turn.release();
      return other_way(call, key, entry);
    }
    if (served == Served::GivenUp) {
      run_eager(call);  // the plan's time is what both took
    } else if (served != Served::Yes) {
      turn.release();
      return after_serving(served, call, key, entry, wrong);
    }
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  entry->race.add(side, took.count() + (side == Race::Side::Compiled ? spent_us : 0));
  finish_race(*entry);
}

void Core::Impl::finish_race(Entry& entry) {
  if (!entry.race.decided()) return;
  // A call that began before the race may have found the plan wrong meanwhile.
  if (entry.tier.load(std::memory_order_acquire) != Tier::Racing) return;
  {
    std::lock_guard lock(runtime_mutex());
    entry.eager_us = entry.race.eager_median();
    entry.compiled_us = entry.race.compiled_median();
  }
  keep_proof(entry, entry.race.compiled_wins());
  if (!entry.race.compiled_wins()) return lose(entry);
  settle(entry, Tier::Compiled, Verdict::Faster, entry.race.text());
  expect_recheck(entry);
}

/// Not where calls may go other ways: an eager turn would be of whichever came.
void Core::Impl::expect_recheck(Entry& entry) {
  if (entry.branches) return;
  entry.until_recheck.store(
      runtime::calls_to_recheck(entry.eager_us, entry.compiled_us, ++entry.races_won),
      std::memory_order_relaxed);
}

void Core::Impl::missed(Entry& entry) {
  if (!entry.misses.add()) return;
  if (entry.tier.load(std::memory_order_acquire) != Tier::Compiled) return;
  if (!entry.gives_up.empty()) {
    if (!record_otherwise(entry))
      settle(entry, Tier::Eager, Verdict::NotFaster,
             "the plan gave up in many of the last calls: " + entry.gives_up);
    return;
  }
  settle(entry, Tier::Eager, Verdict::NotFaster,
         "the plan gave up in many of the last calls (an index out of range, or an operator whose "
         "result has another size than when it was recorded), and eager ran after it");
}

bool Core::Impl::record_otherwise(Entry& entry) {
  constexpr size_t kMost = 4;  // per key; then it is a condition that changes from call to call
  if (stance() == Stance::FailOnRerecord) return false;
  {
    std::lock_guard lock(runtime_mutex());
    if (recorded_otherwise_ >= kMost * table.peek().entries().size()) return false;
    ++recorded_otherwise_;
  }
  leaves_ties_.store(true, std::memory_order_relaxed);
  log(Topic::Recompiles, options.name + ": to be recorded again: " + entry.gives_up);
  settle(entry, Tier::Eager, Verdict::NotFaster, entry.gives_up);
  replace(entry, nullptr);
  std::lock_guard lock(runtime_mutex());
  families_.clear();  // their plans give up, too
  return true;
}

void Core::Impl::lose(Entry& entry) {
  const int64_t calls = entry.race.calls_to_rematch(++entry.races_lost);
  settle(entry, Tier::Eager, Verdict::NotFaster,
         entry.race.text() + "; raced again after " + std::to_string(calls) + " calls");
  entry.until_rematch.store(calls, std::memory_order_relaxed);
}

void Core::Impl::rematch(CallBase& call, const Key& key, const std::shared_ptr<Entry>& entry) {
  {
    Turn turn(entry->busy);
    if (!turn) {  // a call of the last race is still under way: the next one tries again
      int64_t none = 0;
      entry->until_rematch.compare_exchange_strong(none, 1, std::memory_order_relaxed);
      return run_eager(call);
    }
    entry->race = Race();
    settle(*entry, Tier::Racing, Verdict::NotFaster, "lost a race against eager; racing again");
  }
  race(call, key, entry);
}

bool Core::Impl::is_audited(Entry& entry, const CallBase& call) const {
  return entry.steady.changes(call.args) ||
         (options.audit_every > 0 &&
          entry.until_audit.fetch_add(1, std::memory_order_relaxed) % options.audit_every ==
              options.audit_every - 1);
}

/// Of an entry that is_audited(): its plan beside eager. Where calls come with other things each
/// time and take another way, every second one is for the other ways.
void Core::Impl::compare_again(CallBase& call, const Key& key,
                               const std::shared_ptr<Entry>& entry) {
  if (entry->went_other_way.exchange(false) && is_first(key, entry))
    return other_way(call, key, entry);
  prove(call, key, entry, /*audit=*/true);
}

bool Core::Impl::is_first(const Key& key, const std::shared_ptr<Entry>& entry) const {
  std::lock_guard lock(runtime_mutex());
  const std::shared_ptr<Entry>* first = table.peek().find(key);
  return first != nullptr && *first == entry;
}

/// Only functions that are audited come here for each call.
void Core::Impl::compiled(CallBase& call, const Key& key, const std::shared_ptr<Entry>& entry) {
  if (is_audited(*entry, call)) return compare_again(call, key, entry);
  std::optional<runtime::PlanError> wrong;
  Served served = serve(*entry, call, wrong);
  if (served == Served::Yes) return entry->served();
  after_serving(served, call, key, entry, wrong);
}

}  // namespace graft::detail
