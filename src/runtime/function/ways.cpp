// Functions whose code branches on what tensors hold: a key has a plan for each way that its calls
// take. The first one is tried first; it gives up before anything visible was written.
#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/function/core_impl.h"
#include "runtime/process/log.h"
#include "runtime/process/worker.h"

namespace graft::detail {

using runtime::Key;
using runtime::Misses;
using runtime::runtime_mutex;

namespace {

/// Beside the first. Where calls take ever new ways, each record is waited for twice as long.
constexpr size_t kMostOthers = 5;

int calls_to_record(size_t others) {
  return 2 + (1 << others);
}

}  // namespace

void Core::Impl::other_way(CallBase& call, const Key& key, const std::shared_ptr<Entry>& first) {
  if (!first->branches || options.sizes == Sizes::Family) {
    missed(*first);
    return run_eager(call);
  }
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::shared_ptr<Entry>> others;
  {
    std::lock_guard lock(runtime_mutex());
    others = first->others;
  }
  std::shared_ptr<Entry> next, eager;  // whose plan may be, or would be, of this call's way
  bool waits = false;                  // for a plan
  for (const std::shared_ptr<Entry>& way : others) {
    const Tier tier = way->tier.load(std::memory_order_acquire);
    if (tier == Tier::Proving || tier == Tier::Racing || tier == Tier::Retry) {
      if (next == nullptr) next = way;
    } else if (tier == Tier::Eager) {
      eager = way;
    } else if (tier != Tier::Compiled) {
      waits = true;
    } else if (is_audited(*way, call)) {
      if (way->went_other_way.exchange(false)) continue;
      return prove(call, key, way, /*audit=*/true);
    } else {
      std::optional<runtime::PlanError> wrong;
      const Served served = serve(*way, call, wrong);
      if (served == Served::GivenUp) continue;
      if (served == Served::Yes) return overtakes(first, way);
      return after_serving(served, call, key, way, wrong);
    }
  }
  if (next != nullptr) {
    const std::chrono::duration<double, std::micro> spent =
        std::chrono::steady_clock::now() - start;
    if (next->tier.load(std::memory_order_acquire) == Tier::Racing)
      return race(call, key, next, spent.count());
    return slow_call(call, key, next, {});
  }
  if (waits) {
    runtime::Worker::instance().ensure_running();
    return run_eager(call);
  }
  if (eager != nullptr && eager->until_rematch.load(std::memory_order_relaxed) > 0 &&
      eager->until_rematch.fetch_sub(1, std::memory_order_relaxed) == 1)
    return rematch(call, key, eager);
  if (record_way(call, key, first, others.size())) return;
  // One that is known to be eager's is no sign of ever new ways.
  if (first->misses.add(eager == nullptr ? Misses::kMiss : 1) &&
      first->tier.load(std::memory_order_acquire) == Tier::Compiled)
    settle(*first, Tier::Eager, Verdict::NotFaster,
           "many of the last calls took other ways than those of " +
               std::to_string(others.size() + 1) + " plans: " + first->gives_up);
  run_eager(call);
}

/// `way` served a call after `first` gave up. Where that is usual, it comes first from now on.
void Core::Impl::overtakes(const std::shared_ptr<Entry>& first, const std::shared_ptr<Entry>& way) {
  constexpr int kMany = 8;
  way->served();
  first->misses.served();
  if (first->overtaken.fetch_add(1, std::memory_order_relaxed) < kMany) return;
  std::lock_guard lock(runtime_mutex());
  std::vector<std::shared_ptr<Entry>> entries = table.peek().entries();
  const auto place = std::find(entries.begin(), entries.end(), first);
  const auto among = std::find(first->others.begin(), first->others.end(), way);
  if (place == entries.end() || among == first->others.end()) return;
  *among = first;
  way->others = std::exchange(first->others, {});
  way->touch(first->used.load(std::memory_order_relaxed));
  way->overtaken.store(0, std::memory_order_relaxed);
  first->overtaken.store(0, std::memory_order_relaxed);
  *place = way;
  fill_table(std::move(entries));
}

/// Records the call, which none of the key's plans serves. False: not yet, or never.
bool Core::Impl::record_way(CallBase& call, const Key& key, const std::shared_ptr<Entry>& first,
                            size_t others) {
  if (others >= kMostOthers || stance() == Stance::FailOnRerecord || passes_known_leaf(call))
    return false;
  if (first->unserved.fetch_add(1, std::memory_order_relaxed) + 1 < calls_to_record(others))
    return false;
  auto way = std::make_shared<Entry>(key);
  way->busy.store(true);
  way->is_way = true;
  {
    std::lock_guard lock(runtime_mutex());
    const std::shared_ptr<Entry>* now = table.peek().find(key);
    if (now == nullptr || *now != first || first->others.size() != others) return false;
    first->others.push_back(way);
    first->unserved.store(0, std::memory_order_relaxed);
    ++records_;
    recorded_again_ = first->gives_up;
  }
  leaves_ties_.store(true, std::memory_order_relaxed);  // they may be why it gave up
  runtime::log(runtime::Topic::Recompiles,
               options.name + ": recorded again, another way: " + first->gives_up);
  record(call, way);
  return true;
}

std::vector<std::shared_ptr<Entry>> Core::Impl::all_entries() const {
  std::vector<std::shared_ptr<Entry>> all = table.peek().entries();
  for (const std::shared_ptr<Entry>& first : table.peek().entries())
    all.insert(all.end(), first->others.begin(), first->others.end());
  return all;
}

}  // namespace graft::detail
