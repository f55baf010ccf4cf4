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
    steady_ = std::make_unique<std::atomic<bool>[]>(args.tensors.size() + variables_.size());
    for (const at::Tensor* tensor : args.tensors) {
      steady_[recorded_.size()].store(tensor->defined(), std::memory_order_relaxed);
      recorded_.emplace_back(tensor->getIntrusivePtr());
    }
    for (size_t k = 0; k < variables_.size(); ++k)
      steady_[recorded_.size() + k].store(true, std::memory_order_relaxed);
  }

  /// Is an argument another tensor now, while the recorded one is still there, or a variable
  /// another one? Thread-safe.
  bool changes(const detail::FlatArgs& args) const {
    for (size_t k = 0; k < recorded_.size(); ++k)
      if (!is_recorded(args, k) && is_steady(k) && !recorded_[k].expired()) return true;
    return variable_changes();
  }
  bool variable_changes() const {
    for (size_t k = 0; k < variables_.size(); ++k)
      if (variables_[k].is_other() && is_steady(recorded_.size() + k)) return true;
    return false;
  }

  /// Is any argument left?
  bool any() const {
    for (size_t k = 0; k < recorded_.size(); ++k)
      if (is_steady(k)) return true;
    return false;
  }

  /// A call with these arguments was compared, and was equal.
  void proven(const detail::FlatArgs& args) {
    for (size_t k = 0; k < recorded_.size(); ++k)
      if (!is_recorded(args, k)) steady_[k].store(false, std::memory_order_relaxed);
    for (size_t k = 0; k < variables_.size(); ++k)
      if (variables_[k].is_other())
        steady_[recorded_.size() + k].store(false, std::memory_order_relaxed);
  }

 private:
  bool is_recorded(const detail::FlatArgs& args, size_t k) const {
    return args.tensors[k]->unsafeGetTensorImpl() == recorded_[k]._unsafe_get_target();
  }
  bool is_steady(size_t k) const { return steady_[k].load(std::memory_order_relaxed); }

  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  std::vector<Weak> recorded_;
  std::vector<StackWord> variables_;
  std::unique_ptr<std::atomic<bool>[]> steady_;  ///< of arguments, then of variables
};

}  // namespace graft::runtime
