// What a run of a plan needs that must leave no trace: copies of what it writes, and generators
// that are put back.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "graft/detail/core.h"
#include "runtime/plan/generators.h"
#include "runtime/plan/plan.h"

namespace graft::runtime {

/// Random generators, put back to where they were so that each run draws the same numbers.
class SavedGenerators {
 public:
  explicit SavedGenerators(const std::vector<at::Generator>& generators)
      : generators_(generators), before_(states_of(generators)) {}
  /// Eager's numbers are the ones that were drawn, however the rest ends.
  ~SavedGenerators() {
    if (!after_eager_.empty() && !resumed_) resume();
  }
  SavedGenerators(const SavedGenerators&) = delete;
  SavedGenerators& operator=(const SavedGenerators&) = delete;
  void restore() {
    after_plan_ = states_of(generators_);
    rewind();
  }
  void rewind() { set_states(generators_, before_); }
  /// Eager ran first: back to where it began. restore() keeps the plan's end, resume() goes on from
  /// eager's.
  void keep_eagers() {
    after_eager_ = states_of(generators_);
    resumed_ = false;
    rewind();
  }
  void resume() {
    resumed_ = true;
    set_states(generators_, after_eager_);
  }
  /// After eager: did both sides leave the generators in one state?
  bool disturbed() const {
    const std::vector<at::Tensor> now = states_of(generators_);
    for (size_t i = 0; i < now.size(); ++i)
      if (std::memcmp(now[i].const_data_ptr(), after_plan_[i].const_data_ptr(), now[i].nbytes()) !=
          0)
        return true;
    return false;
  }

 private:
  const std::vector<at::Generator>& generators_;
  std::vector<at::Tensor> before_, after_plan_, after_eager_;
  bool resumed_ = false;
};

/// Memory for what the plan writes of the caller's, as that is now.
Plan::StandIns clone_written(const Plan& plan, const detail::FlatArgs& args,
                             const at::Tensor* captured);

/// The caller's memory as it was before eager wrote it, for plans that run after eager.
class Originals {
 public:
  /// `args` and `captured` outlive it.
  Originals(const Plan& plan, const detail::FlatArgs& args, const at::Tensor* captured)
      : plan_(plan),
        args_(args),
        captured_(captured),
        copies_(clone_written(plan, args, captured)) {}
  /// For another plan of the same record. What that writes besides (statistics, where it computes a
  /// region's forward once more) is as it is now.
  Plan::StandIns clone(const Plan& plan) const;
  /// For the plan that they were made of; nothing is left.
  Plan::StandIns take() { return std::move(copies_); }

 private:
  const Plan& plan_;
  const detail::FlatArgs& args_;
  const at::Tensor* const captured_;
  Plan::StandIns copies_;
};

/// What one run of a plan left: its results, and what it wrote in place of the caller's memory.
struct Outputs {
  const Plan* plan;
  std::vector<at::Tensor> results;
  Plan::StandIns stand_ins;
  double microseconds = 0;  ///< of the run
};

/// A run that leaves no trace; nothing where the plan gives up or throws, and so tells nothing.
std::optional<Outputs> run_aside(const Plan& plan, const detail::FlatArgs& args,
                                 const at::Tensor* captured, SavedGenerators& generators);
/// The same after eager ran.
std::optional<Outputs> run_aside(const Plan& plan, const detail::FlatArgs& args,
                                 const at::Tensor* captured, SavedGenerators& generators,
                                 const Originals& originals);

}  // namespace graft::runtime
