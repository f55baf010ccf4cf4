// The state of one compiled function, and what happens to a call that no proven plan serves.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graft/detail/core.h"
#include "runtime/function/compile.h"
#include "runtime/function/entry.h"
#include "runtime/function/families.h"
#include "runtime/function/last_call.h"
#include "runtime/process/snapshot.h"
#include "runtime/store/stored_plan.h"

namespace graft::detail {

using runtime::Entry;
using runtime::Table;
using runtime::Tier;

struct Core::Impl : std::enable_shared_from_this<Core::Impl> {
  explicit Impl(Options options);

  /// Serves a call in all cases except that of a proven plan.
  void slow_call(CallBase& call, const runtime::Key& key, std::shared_ptr<Entry> entry,
                 const runtime::Unsupported& unsupported);

  enum class Served : uint8_t {
    No,  ///< not tried
    Yes,
    GivenUp,  ///< the plan ended before it wrote anything visible: eager has to run
    Stale,    ///< captured tensors are not those recorded: record again
    Wrong,    ///< PlanError: the plan is at fault
  };
  /// Runs the entry's plan for the call. Throws what extern operators throw.
  Served serve(const Entry& entry, CallBase& call, std::optional<runtime::PlanError>& wrong) const;
  /// Does what a call still needs after serve().
  void after_serving(Served served, CallBase& call, const runtime::Key& key,
                     const std::shared_ptr<Entry>& entry,
                     const std::optional<runtime::PlanError>& wrong);

  void run_eager(CallBase& call);
  Report report() const;
  std::string explain() const;
  std::vector<Decision> decisions() const;
  void wait();
  void reset();
  void save(const std::string& path) const;

  const Options options;
  runtime::Snapshot<Table> table;
  std::atomic<int64_t> clock{0};        ///< number of records so far
  std::atomic<int64_t> eager_calls{0};  ///< calls that ran eagerly
  std::atomic<int64_t> bypassed{0};     ///< of these, calls that did not look for a plan
  runtime::LastCalls last_calls;        ///< Mode::ReduceOverhead
  std::atomic<int> meetings{0};         ///< records that met captured leaves they did not know

 private:
  /// The newest record, and what it is scheduled with; null before one.
  std::pair<std::shared_ptr<const record::Trace>, runtime::CompileSettings> newest_record() const;

  // record.cpp: from a first call to a plan
  void miss(CallBase& call, const runtime::Key& key);
  void record(CallBase& call, const std::shared_ptr<Entry>& entry);
  void forget(const Entry& entry);
  void finish_record(CallBase& call, const FlatArgs& args, const std::shared_ptr<Entry>& entry,
                     record::Trace trace);
  std::vector<at::Tensor> known_leaves() const;
  bool passes_known_leaf(const CallBase& call) const;
  void meet(const std::shared_ptr<Entry>& entry, const record::Trace& trace);
  bool look_behind(const std::shared_ptr<Entry>& entry, const FlatArgs& args);
  void broke(const std::shared_ptr<Entry>& entry, std::shared_ptr<const record::Trace> trace,
             const std::string& why);
  void start_compiling(const std::shared_ptr<Entry>& entry,
                       const std::shared_ptr<record::Trace>& trace);
  runtime::CompileSettings compile_settings() const;
  /// Runs it on the compiling thread, or at once for Options::async = false. wait() waits for it.
  void enqueue(std::function<void(Impl&)> job);
  void compile(const std::shared_ptr<Entry>& entry, const std::shared_ptr<record::Trace>& trace,
               const runtime::CompileSettings& settings);
  /// Takes what was compiled or found.
  void adopt(const std::shared_ptr<Entry>& entry, const std::shared_ptr<record::Trace>& trace,
             const runtime::CompileSettings& settings, runtime::Built built);
  void replace_stale(CallBase& call, const runtime::Key& key, const std::shared_ptr<Entry>& stale);

  // tiers.cpp: from a plan to a verdict
  /// Serves a call for which the entry's participants are not as they were recorded.
  void unlike_record(runtime::Prepared prepared, CallBase& call, const runtime::Key& key,
                     const std::shared_ptr<Entry>& entry);
  void prove(CallBase& call, const runtime::Key& key, const std::shared_ptr<Entry>& entry,
             bool audit);
  static void keep_scales(Entry& entry, const std::vector<runtime::StoredScales>& scales);
  bool raced_before(Entry& entry, const std::string& proven);
  void weigh(const std::shared_ptr<Entry>& entry, const std::string& difference);
  /// `spent_us`: what the compiled side took before, for plans of other ways that gave up.
  void race(CallBase& call, const runtime::Key& key, const std::shared_ptr<Entry>& entry,
            double spent_us = 0);
  void finish_race(Entry& entry);
  void expect_recheck(Entry& entry);
  void lose(Entry& entry);
  /// The plan gave up. Where that happens often, the entry stays eager.
  void missed(Entry& entry);
  /// It gave up because elements were equal, or because the function's code takes another way: the
  /// next call is recorded for a plan of that way, which leaves operators that must not meet equal
  /// elements to a routine, as all from then on. False: nothing may be recorded, or it was often.
  bool record_otherwise(Entry& entry);
  void rematch(CallBase& call, const runtime::Key& key, const std::shared_ptr<Entry>& entry);
  void compiled(CallBase& call, const runtime::Key& key, const std::shared_ptr<Entry>& entry);
  bool is_audited(Entry& entry, const CallBase& call) const;
  bool is_first(const runtime::Key& key, const std::shared_ptr<Entry>& entry) const;
  void compare_again(CallBase& call, const runtime::Key& key, const std::shared_ptr<Entry>& entry);
  void throw_if_broken(const Entry& entry) const;
  /// Keeps the entry's plan for other processes, with what was found out about it.
  void keep_proof(Entry& entry, bool faster);
  void settle(Entry& entry, Tier tier, Verdict verdict, const std::string& reason);

  // ways.cpp: functions whose code branches on what tensors hold
  /// Serves a call in which the key's first plan gave up.
  void other_way(CallBase& call, const runtime::Key& key, const std::shared_ptr<Entry>& first);
  void overtakes(const std::shared_ptr<Entry>& first, const std::shared_ptr<Entry>& way);
  bool record_way(CallBase& call, const runtime::Key& key, const std::shared_ptr<Entry>& first,
                  size_t others);
  std::vector<std::shared_ptr<Entry>> all_entries() const;  ///< under runtime_mutex()

  // region.cpp: functions whose results take part in autograd
  static runtime::Shadow shadow_region(const Entry& entry, CallBase& call,
                                       const at::Tensor* captured);
  /// Both sides run, forward and backward, since a backward's time cannot be taken where it
  /// happens. The caller gets eager's result. False where captured tensors are not those recorded.
  bool race_region(Entry& entry, CallBase& call);

  // family_calls.cpp: sizes that were never recorded
  /// True where the call is served, by a plan of a family or eagerly; otherwise nothing happened.
  bool served_by_family(CallBase& call, const runtime::Key& key);
  /// Has plans made for sizes above those that have them, up to `most`. Of families of one size.
  void compile_larger(const std::shared_ptr<runtime::Family>& family, int64_t most);
  std::shared_ptr<runtime::FamilyBox> box_for(const std::shared_ptr<runtime::Family>& family,
                                              const runtime::Point& point);
  void prove_box(CallBase& call, const Entry& entry, const at::Tensor* captured,
                 runtime::Family& family, runtime::FamilyBox& box);
  /// `for_good`: there are to be no others.
  void retire(runtime::Family& family, const std::string& why, bool for_good = false);
  /// Are there records enough of the key's kind for a family, some of them not compiled yet?
  bool may_become_family(const runtime::Key& key) const;
  void consider_family(const std::shared_ptr<Entry>& entry,
                       const std::shared_ptr<record::Trace>& trace);
  void join_family(const std::shared_ptr<Entry>& entry,
                   const std::shared_ptr<record::Trace>& trace);
  void compile_box(const std::shared_ptr<runtime::Family>& family, const runtime::Box& box,
                   const std::shared_ptr<runtime::FamilyBox>& made);

  // table.cpp: which layouts are known
  std::shared_ptr<Entry> admit(const runtime::Key& key);
  void admit(const std::shared_ptr<Entry>& entry, const runtime::Key& key);  ///< with its plan
  void add_newest(const std::shared_ptr<Entry>& entry);  ///< under runtime_mutex()
  /// Under runtime_mutex().
  void fill_table(std::vector<std::shared_ptr<Entry>> entries);
  void replace(const Entry& old, std::shared_ptr<Entry> with);  ///< null: removed
  std::string nearest_difference(const runtime::Key& key) const;
  bool too_many_layouts(const runtime::Key& key);
  void make_newest(const std::shared_ptr<Entry>& entry);  ///< under runtime_mutex()
  void note_unsupported(const CallBase& call, const runtime::Unsupported& unsupported);

  // Under runtime_mutex().
  std::shared_ptr<Entry> newest_;
  runtime::Families families_;
  /// Why calls did not look for a plan: unsupported arguments, too many layouts.
  std::string outside_;
  std::string recorded_again_;  ///< Report::recorded_again
  std::atomic<bool> gave_up_{false};
  std::atomic<bool> graph_is_spent_{false};  ///< Entry::graph_is_spent, of a record before
  size_t recorded_otherwise_ = 0;
  std::atomic<bool> leaves_ties_{false};  ///< ops::LowerSettings::ties
  std::atomic<int> noted_{0};             ///< the unsupported argument that outside_ speaks of
  int64_t records_ = 0, breaks_ = 0, kernels_compiled_ = 0;
  int64_t compiling_ = 0;                               ///< compilations queued or under way
  std::vector<std::shared_ptr<Entry>> not_considered_;  ///< recorded, not yet told to families_
};

/// The reason of a break with what the user can do about it, where it does not say so itself.
std::string with_next_step(const std::string& why);

}  // namespace graft::detail
