// Arguments that have been one tensor object in every call that was compared with eager.
//
// A function may hold a tensor and get it as an argument, too. Recorded so, it counts as the
// argument, and only a call with another argument there shows which uses mean the one that is held.
// So a plan is compared with eager once more when an argument first is another tensor than in the
// record and in all proofs.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "graft/detail/core.h"

namespace graft::runtime {

class SteadyArguments {
 public:
  /// The recorded call's, before calls look at it. Held weakly: one that is gone is held by nobody.
  void record(const detail::FlatArgs& args) {
    steady_ = std::make_unique<std::atomic<bool>[]>(args.tensors.size());
    for (const at::Tensor* tensor : args.tensors) {
      steady_[recorded_.size()].store(tensor->defined(), std::memory_order_relaxed);
      recorded_.emplace_back(tensor->getIntrusivePtr());
    }
  }

  /// Is one of them another tensor now, while the recorded one is still there? Thread-safe.
  bool changes(const detail::FlatArgs& args) const {
    for (size_t k = 0; k < recorded_.size(); ++k)
      if (!is_recorded(args, k) && is_steady(k) && !recorded_[k].expired()) return true;
    return false;
  }

  /// Is any left?
  bool any() const {
    for (size_t k = 0; k < recorded_.size(); ++k)
      if (is_steady(k)) return true;
    return false;
  }

  /// A call with these arguments was compared, and was equal.
  void proven(const detail::FlatArgs& args) {
    for (size_t k = 0; k < recorded_.size(); ++k)
      if (!is_recorded(args, k)) steady_[k].store(false, std::memory_order_relaxed);
  }

 private:
  bool is_recorded(const detail::FlatArgs& args, size_t k) const {
    return args.tensors[k]->unsafeGetTensorImpl() == recorded_[k]._unsafe_get_target();
  }
  bool is_steady(size_t k) const { return steady_[k].load(std::memory_order_relaxed); }

  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  std::vector<Weak> recorded_;
  std::unique_ptr<std::atomic<bool>[]> steady_;
};

}  // namespace graft::runtime
