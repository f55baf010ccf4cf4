// The state of one compiled function, and the steps of a call that is not served by a plan at once.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graft/detail/core.h"
#include "runtime/function/compile.h"
#include "runtime/function/entry.h"
#include "runtime/process/snapshot.h"

namespace graft::detail {

using runtime::Entry;
using runtime::Table;
using runtime::Tier;

struct Core::Impl : std::enable_shared_from_this<Core::Impl> {
  explicit Impl(Options options);

  /// Everything but the case of a plan that just runs.
  void slow_call(CallBase& call, const runtime::Key& key, std::shared_ptr<Entry> entry,
                 const runtime::Unsupported& unsupported);

  enum class Served : uint8_t {
    No,  ///< not tried
    Yes,
    GivenUp,  ///< nothing visible was written: eager has to run
    Stale,    ///< captured tensors are not what they were: record again
    Wrong,    ///< PlanError: the plan is at fault
  };
  /// Runs the entry's plan for the call. Throws what extern operators throw.
  Served serve(const Entry& entry, CallBase& call, std::optional<runtime::PlanError>& wrong) const;
  /// What is left to do for a call after serve().
  void after_serving(Served served, CallBase& call, const runtime::Key& key,
                     const std::shared_ptr<Entry>& entry,
                     const std::optional<runtime::PlanError>& wrong);

  void run_eager(CallBase& call);
  Report report() const;
  std::string explain() const;
  void wait();
  void reset();

  const Options options;
  runtime::Snapshot<Table> table;
  std::atomic<int64_t> clock{0};        ///< advances with each record
  std::atomic<int64_t> eager_calls{0};  ///< calls whose result is eager's
  std::atomic<int64_t> bypassed{0};     ///< of these, calls that did not even look for a plan

 private:
  // record.cpp: from a first call to a plan
  void miss(CallBase& call, const runtime::Key& key);
  void record(CallBase& call, const std::shared_ptr<Entry>& entry);
  void finish_record(CallBase& call, const std::shared_ptr<Entry>& entry, record::Trace trace);
  void broke(const std::shared_ptr<Entry>& entry, std::shared_ptr<const record::Trace> trace,
             const std::string& why);
  void start_compiling(const std::shared_ptr<Entry>& entry,
                       const std::shared_ptr<record::Trace>& trace);
  void compile(const std::shared_ptr<Entry>& entry, const std::shared_ptr<record::Trace>& trace,
               const runtime::CompileSettings& settings);
  void replace_stale(CallBase& call, const runtime::Key& key, const std::shared_ptr<Entry>& stale);

  // tiers.cpp: from a plan to a verdict
  void prove(CallBase& call, const runtime::Key& key, const std::shared_ptr<Entry>& entry,
             bool audit);
  void race(CallBase& call, const runtime::Key& key, const std::shared_ptr<Entry>& entry);
  void lose(Entry& entry);
  void rematch(CallBase& call, const runtime::Key& key, const std::shared_ptr<Entry>& entry);
  void compiled(CallBase& call, const runtime::Key& key, const std::shared_ptr<Entry>& entry);
  void throw_if_broken(const Entry& entry) const;
  void settle(Entry& entry, Tier tier, Verdict verdict, const std::string& reason);

  // table.cpp: which layouts are known
  std::shared_ptr<Entry> admit(const runtime::Key& key);
  void replace(const Entry& old, std::shared_ptr<Entry> with);  ///< null: removed
  std::string nearest_difference(const runtime::Key& key) const;
  bool too_many_layouts(const runtime::Key& key);
  void make_newest(const std::shared_ptr<Entry>& entry);  ///< under runtime_mutex()
  void note_unsupported(const CallBase& call, const runtime::Unsupported& unsupported);

  // Under runtime_mutex().
  std::shared_ptr<Entry> newest_;
  /// Why calls were not even looked up: unsupported arguments, too many layouts.
  std::string outside_;
  std::atomic<bool> gave_up_{false};
  std::atomic<int> noted_{0};  ///< the unsupported argument that outside_ speaks of
  int64_t records_ = 0, breaks_ = 0, kernels_compiled_ = 0;
  int64_t compiling_ = 0;  ///< compilations queued or under way
};

/// Every break ends with what to do; one that does not say gets this.
std::string with_next_step(const std::string& why);

}  // namespace graft::detail
