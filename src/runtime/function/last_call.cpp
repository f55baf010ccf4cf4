#include "runtime/function/last_call.h"

#include <thread>
#include <utility>

namespace graft::runtime {

bool LastCalls::is_like(const Known& known, const detail::CallBase& call, uint64_t version) {
  return known.replay != nullptr && known.version == version &&
         known.entry->tier.load(std::memory_order_acquire) == Tier::Compiled &&
         fits(known.entry->key, call.args) && !known.entry->steady.changes(call.args) &&
         prepare(known.entry->participants) == Prepared::Yes;
}

bool LastCalls::serve(detail::CallBase& call, uint64_t version) {
  const Turn turn(busy_);
  if (!turn) return false;
  for (Known& known : known_) {
    if (!is_like(known, call, version)) continue;
    Entry& entry = *known.entry;
    captured_.resize(entry.captured.size());
    if (!entry.captured.borrow(call.args, captured_.data())) return false;
    results_.resize(entry.plan->result_count());
    if (known.replay->run(call.args, captured_.data(), results_.data()) != Plan::Outcome::Done)
      return false;
    entry.served();
    call.set_result(entry.prototype.get(), results_.data());
    served_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  return false;
}

void LastCalls::note(const std::shared_ptr<Entry>& entry, uint64_t version) noexcept {
  const Turn turn(busy_);
  if (!turn || entry->region != nullptr || !only_watch(entry->participants) ||
      !entry->captured.may_borrow() || !Replay::serves(*entry->plan))
    return;
  for (Known& known : known_)
    if (known.entry == entry) {
      known.version = version;
      return;
    }
  // One of many layouts that take turns gets no place of another's.
  const bool again = std::exchange(newest_, entry.get()) == entry.get();
  Known& place = known_[next_];
  if (place.version == version && place.replay != nullptr && !again) return;
  try {
    place = {entry, version, std::make_unique<Replay>(*entry->plan)};
    next_ = (next_ + 1) % known_.size();
  } catch (const c10::Error&) {  // no memory: as usual, then
  }
}

void LastCalls::clear() {
  while (busy_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  for (Known& known : known_) known = {};
  newest_ = nullptr;
  busy_.store(false, std::memory_order_release);
}

}  // namespace graft::runtime
