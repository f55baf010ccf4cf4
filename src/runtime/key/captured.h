// The tensors a function uses that are not its arguments: parameters of a module, tensors in the
// callable.
//
// They are held weakly, so that a plan keeps no model alive: one whose owner dropped it (a replaced
// parameter) makes the plan unusable and the function is recorded again. What cannot be seen is an
// owner that switches between two tensors that both stay alive; a later audit or reset() is the
// remedy, as documented for graft::compile.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "graft/detail/core.h"
#include "record/trace.h"

namespace graft::runtime {

class CapturedSet {
 public:
  CapturedSet() = default;
  /// `args`: those of the recorded call.
  CapturedSet(const record::Trace& trace, const detail::FlatArgs& args);

  size_t size() const { return tensors_.size(); }
  /// Strong references for one call into `out`. False when a tensor is gone, has another layout
  /// than recorded, or overlaps the arguments or its fellows differently: then the function must be
  /// recorded again.
  bool lock(const detail::FlatArgs& args, at::Tensor* out) const;
  /// Is an argument one of them? Recorded now, it would be taken for the argument and be missed at
  /// the next call.
  bool any_is_argument(const detail::FlatArgs& args) const;
  /// Why lock() said false.
  std::string describe() const;

 private:
  struct Expected {
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor;
    std::vector<uint64_t> words;
    const c10::StorageImpl* storage;
    const void* data;  ///< of the storage, when it was recorded
    size_t bytes;
  };
  struct Interval {
    uintptr_t low, high;
  };

  bool same_place(const Expected& expected, const at::Tensor& tensor) const;
  bool overlaps_arguments(const detail::FlatArgs& args) const;
  std::vector<uint64_t> joint_overlaps(const detail::FlatArgs& args,
                                       const at::Tensor* captured) const;

  std::vector<Expected> tensors_;
  std::vector<uint64_t> overlaps_;   ///< append_overlaps of arguments and captures together
  std::vector<Interval> intervals_;  ///< the captures' storages, merged, by address
  bool shares_with_arguments_ = false;
};

}  // namespace graft::runtime
