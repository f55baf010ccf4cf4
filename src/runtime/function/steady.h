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
  /// The recorded call's, before calls look at it.
  void record(const detail::FlatArgs& args) {
    steady_ = std::make_unique<std::atomic<bool>[]>(args.tensors.size());
    for (const at::Tensor* tensor : args.tensors) {
      steady_[recorded_.size()].store(true, std::memory_order_relaxed);
      recorded_.push_back(tensor->unsafeGetTensorImpl());
    }
  }

  /// Is one of them another tensor now? Thread-safe.
  bool changes(const detail::FlatArgs& args) const {
    for (size_t k = 0; k < recorded_.size(); ++k)
      if (args.tensors[k]->unsafeGetTensorImpl() != recorded_[k] &&
          steady_[k].load(std::memory_order_relaxed))
        return true;
    return false;
  }

  /// Is any left?
  bool any() const {
    for (size_t k = 0; k < recorded_.size(); ++k)
      if (steady_[k].load(std::memory_order_relaxed)) return true;
    return false;
  }

  /// A call with these arguments was compared, and was equal.
  void proven(const detail::FlatArgs& args) {
    for (size_t k = 0; k < recorded_.size(); ++k)
      if (args.tensors[k]->unsafeGetTensorImpl() != recorded_[k])
        steady_[k].store(false, std::memory_order_relaxed);
  }

 private:
  std::vector<const c10::TensorImpl*> recorded_;  // compared only
  std::unique_ptr<std::atomic<bool>[]> steady_;
};

}  // namespace graft::runtime
