// What is known about one argument layout of one function, and the table of them.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graft/report.h"
#include "record/participants.h"
#include "record/trace.h"
#include "runtime/function/compile.h"
#include "runtime/function/steady.h"
#include "runtime/key/captured.h"
#include "runtime/key/key.h"
#include "runtime/plan/plan.h"
#include "runtime/proof/compare.h"
#include "runtime/proof/race.h"
#include "runtime/proof/shadow.h"
#include "runtime/region/differentiate.h"
#include "runtime/region/region.h"

namespace graft::runtime {

/// What a call with this layout does.
enum class Tier : uint8_t {
  Recording,  ///< another thread records it: eager
  /// The first record broke, perhaps on something that only a first call does: the next call is
  /// recorded once more.
  Retry,
  Compiling,  ///< eager
  Proving,    ///< the next call is a shadow run
  Racing,     ///< eager and compiled take turns
  Compiled,
  Eager,  ///< for good, or until the next race
};

/// The right to record, prove or race: one thread's at a time.
class Turn {
 public:
  explicit Turn(std::atomic<bool>& busy)
      : busy_(busy), mine_(!busy.exchange(true, std::memory_order_acquire)) {}
  ~Turn() { release(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  explicit operator bool() const { return mine_; }
  void release() {
    if (std::exchange(mine_, false)) busy_.store(false, std::memory_order_release);
  }
  void hand_on() { mine_ = false; }  ///< to somebody who gives it back

 private:
  std::atomic<bool>& busy_;
  bool mine_;
};

/// Calls in which a plan gave up, and such as it served.
class Misses {
 public:
  /// One more in which it gave up: are these too many?
  bool add(int weight = kMiss) {
    return score_.fetch_add(weight, std::memory_order_relaxed) >= kMost;
  }
  void served() {
    if (score_.load(std::memory_order_relaxed) > 0) score_.fetch_sub(1, std::memory_order_relaxed);
  }

  static constexpr int kMiss = 4;  ///< calls served that make up for one given up

 private:
  static constexpr int kMost = 64;
  std::atomic<int> score_{0};
};

/// What a plan's participants say of a call: it is as when they were recorded; it is not, and may
/// be so again; it is not.
enum class Prepared : uint8_t { Yes, OtherWay, Stale };
/// Brings them up to date for the call, unless it is another one.
inline Prepared prepare(const std::vector<std::shared_ptr<record::Participant>>& participants) {
  for (bool comes_back : {true, false})
    for (const auto& participant : participants)
      if (participant->may_come_back() == comes_back && !participant->prepare().empty())
        return comes_back ? Prepared::OtherWay : Prepared::Stale;
  return Prepared::Yes;
}
/// Has none of them anything to do after a call?
inline bool only_watch(const std::vector<std::shared_ptr<record::Participant>>& participants) {
  return std::all_of(participants.begin(), participants.end(),
                     [](const auto& participant) { return participant->may_come_back(); });
}

struct Entry {
  explicit Entry(const Key& key) : key(key) {}

  void touch(int64_t now) {
    // Read first: the line stays shared among the threads that call.
    if (used.load(std::memory_order_relaxed) != now) used.store(now, std::memory_order_relaxed);
  }

  /// It served a call.
  void served() {
    misses.served();
    if (overtaken.load(std::memory_order_relaxed) > 0)
      overtaken.fetch_sub(1, std::memory_order_relaxed);
    if (until_recheck.load(std::memory_order_relaxed) > 0 &&
        until_recheck.fetch_sub(1, std::memory_order_relaxed) == 1)
      race_again();
  }
  /// What won a race, maybe while the machine was busy with something else, races once more.
  void race_again() {
    const Turn turn(busy);
    if (!turn) return until_recheck.store(1, std::memory_order_relaxed);
    race = Race();
    Tier compiled = Tier::Compiled;
    tier.compare_exchange_strong(compiled, Tier::Racing);
  }

  const StoredKey key;
  std::atomic<Tier> tier{Tier::Recording};
  std::atomic<int64_t> used{0};   ///< the function's clock at its last call, to drop the oldest
  std::atomic<bool> busy{false};  ///< one thread at a time records, proves or races
  Misses misses;
  std::atomic<int> unserved{0};   ///< calls that `others` did not serve either, since a record
  std::atomic<int> overtaken{0};  ///< calls that `others` served, less those that this one did
  std::atomic<int64_t> until_audit{0};
  /// The last call that compared it once more, since something of the call was another one, took
  /// another way: the next such call is for those.
  std::atomic<bool> went_other_way{false};
  std::atomic<int64_t> until_rematch{0};  ///< calls until it races again; 0: it does not
  std::atomic<int64_t> until_recheck{0};  ///< likewise of one that won

  // Written before the tier leaves Compiling, constant afterwards.
  std::shared_ptr<const Plan> plan;
  CapturedSet captured;
  Steady steady;
  std::vector<std::shared_ptr<record::Participant>> participants;
  std::shared_ptr<const void> prototype;  ///< of the result
  std::vector<uint64_t> constants;        ///< the result's words
  Tolerance tolerance;
  std::string gives_up;   ///< why it may although eager would go on; empty: it may not
  bool branches = false;  ///< its code asked what tensors hold, or whether modules train
  Scales scales;          ///< for what `tolerance` refused
  /// Of a function whose results take part in autograd: `plan` is that of its forward. Otherwise
  /// null.
  std::shared_ptr<Region> region;
  /// The plan as other processes may find it; null where it cannot be kept.
  std::shared_ptr<const StoredEntry> stored;
  bool found = false;  ///< another process kept it

  // By the busy thread alone.
  int attempts = 0;  ///< recorded runs that broke
  /// The function's own backward() freed the graph of a result that it returns undetached.
  bool graph_is_spent = false;
  int no_proofs = 0;    ///< shadow runs that proved nothing
  bool is_way = false;  ///< recorded beside others of its key: calls of those prove nothing of it
  /// Where results are approximated and not proven yet: what to make `scales` from.
  std::shared_ptr<const record::Trace> approximated;
  runtime::IncomingLayouts expected = {};  ///< of a region's backward; empty: the usual ones
  int adapted = 0;                         ///< how often `expected` was learnt from calls
  int replaced = 0;  ///< earlier entries of this key whose captured tensors changed
  Race race;
  int races_lost = 0, races_won = 0;

  // Under runtime_mutex().
  /// Of a key's first entry: those of other ways that the function's code took.
  std::vector<std::shared_ptr<Entry>> others;
  Verdict verdict = Verdict::NotCalled;
  std::string reason;
  std::shared_ptr<const record::Trace> trace;  ///< of the function's newest entry only
  CompileSettings settings;                    ///< what the trace was scheduled with
  std::vector<OperatorReport> operators;
  std::vector<std::string> tuned;  ///< Report::tuned
  double record_ms = 0;            ///< the whole recorded call
  double plan_ms = 0, compile_ms = 0;
  double eager_us = 0, compiled_us = 0;
  bool compared = false, bitwise = true;
  bool fp64_decided = false;  ///< for the plan, where it is beyond the tolerance of eager's
  double max_abs = 0;
};

/// Entries by key: open addressing over the hash, immutable.
class Table {
 public:
  Table() = default;
  /// `leaves`: captured ones that records met; keys say which of them come with a gradient.
  /// `links`: keys say which arguments are no leaves.
  Table(std::vector<std::shared_ptr<Entry>> entries, std::vector<WeakTensor> leaves = {},
        bool links = false);

  const std::shared_ptr<Entry>* find(const Key& key) const {
    if (slots_.empty()) return nullptr;
    size_t mask = slots_.size() - 1;
    for (size_t i = key.hash & mask;; i = (i + 1) & mask) {
      const Slot& slot = slots_[i];
      if (slot.entry < 0) return nullptr;
      const auto& entry = entries_[static_cast<size_t>(slot.entry)];
      if (slot.hash == key.hash && entry->key.matches(key)) return &entry;
    }
  }
  const std::vector<std::shared_ptr<Entry>>& entries() const { return entries_; }
  const std::vector<WeakTensor>& leaves() const { return leaves_; }
  bool links() const { return links_; }

 private:
  struct Slot {
    uint64_t hash = 0;
    int32_t entry = -1;
  };
  std::vector<std::shared_ptr<Entry>> entries_;
  std::vector<WeakTensor> leaves_;
  bool links_ = false;
  std::vector<Slot> slots_;  ///< a power of two, at most half full
};

}  // namespace graft::runtime
