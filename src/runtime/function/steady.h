// What has been the same in every call that was compared with eager: arguments that were one tensor
// object, and variables on the stack that the function captured.
//
// A function may hold a tensor and get it as an argument, too. Recorded so, it counts as the
// argument, and only a call with another argument there shows which uses mean the one that is held.
// A number that the function captured is a constant of the plan, and a tensor one of its captured
// tensors: its caller may change the one, and put another in the place of the other. So a plan is
// compared with eager once more when such a thing first is another than in the record and in all
// proofs.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "graft/detail/core.h"
#include "runtime/proof/captured_memory.h"

namespace graft::runtime {

class Steady {
 public:
  /// The recorded call's, before calls look at it. Arguments are held weakly: one that is gone is
  /// held by nobody.
  void record(const detail::CallBase& call, const detail::FlatArgs& args) {
    variables_ = captured_variables(call);
    steady_ = std::make_unique<std::atomic<bool>[]>(args.tensors.size());
    waits_ = std::make_unique<Wait[]>(variables_.size());
    for (const at::Tensor* tensor : args.tensors) {
      steady_[recorded_.size()].store(tensor->defined(), std::memory_order_relaxed);
      recorded_.emplace_back(tensor->getIntrusivePtr());
    }
  }

  /// Is an argument another tensor now, while the recorded one is still there, or a variable
  /// another one, which was not compared of late? Thread-safe.
  bool changes(const detail::FlatArgs& args) {
    for (size_t k = 0; k < recorded_.size(); ++k)
      if (!is_recorded(args, k) && is_steady(k) && !recorded_[k].expired()) return true;
    for (size_t k = 0; k < variables_.size(); ++k) {
      if (!variables_[k].is_other()) continue;
      if (waits_[k].calls.load(std::memory_order_relaxed) == 0) return true;
      waits_[k].calls.fetch_sub(1, std::memory_order_relaxed);
    }
    return false;
  }
  bool variable_differs() const {
    return std::any_of(variables_.begin(), variables_.end(),
                       [](const HalfWord& word) { return word.is_other(); });
  }

  /// May a later call be compared once more?
  bool any() const {
    for (size_t k = 0; k < recorded_.size(); ++k)
      if (is_steady(k)) return true;
    return !variables_.empty();
  }

  /// A call with these arguments was compared, and was equal. A variable that changes again and
  /// again is compared at ever longer distances.
  void proven(const detail::FlatArgs& args) {
    for (size_t k = 0; k < recorded_.size(); ++k)
      if (!is_recorded(args, k)) steady_[k].store(false, std::memory_order_relaxed);
    for (size_t k = 0; k < variables_.size(); ++k) {
      if (!variables_[k].is_other()) continue;
      const int64_t next = waits_[k].next.load(std::memory_order_relaxed);
      waits_[k].calls.store(next, std::memory_order_relaxed);
      waits_[k].next.store(2 * next + 1, std::memory_order_relaxed);
    }
  }

 private:
  bool is_recorded(const detail::FlatArgs& args, size_t k) const {
    return args.tensors[k]->unsafeGetTensorImpl() == recorded_[k]._unsafe_get_target();
  }
  bool is_steady(size_t k) const { return steady_[k].load(std::memory_order_relaxed); }

  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  /// Of a variable: calls with another one until the next comparison, and after that.
  struct Wait {
    std::atomic<int64_t> calls{0}, next{1};
  };
  std::vector<Weak> recorded_;
  std::unique_ptr<std::atomic<bool>[]> steady_;
  std::vector<HalfWord> variables_;
  std::unique_ptr<Wait[]> waits_;
};

}  // namespace graft::runtime
