// Captured tensors: those that a function uses and that are not its arguments, as a module's
// parameters or tensors that a lambda holds.
//
// They are held weakly, so that a plan keeps no model alive. When one is gone (its owner dropped or
// replaced it), the plan is unusable and the function is recorded again. An owner that switches to
// another tensor while the first stays alive is not seen (graft.h says so to users).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
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
  /// Is one of them a leaf's gradient?
  bool has_gradients() const { return has_gradients_; }
  /// Puts strong references for one call into `out`. False when a tensor is gone, has another
  /// layout than recorded, or overlaps the arguments or other captures in another way: the function
  /// must then be recorded again.
  bool lock(const detail::FlatArgs& args, at::Tensor* out) const;
  /// Can borrow() say true?
  bool may_borrow() const { return !has_gradients_ && leaves_.empty() && !shares_with_arguments_; }
  /// As lock(), without references: the tensors' owners must keep them for as long as the call
  /// takes, as they would for eager. False also where these moved.
  bool borrow(const detail::FlatArgs& args, c10::TensorImpl** out) const;
  /// Is a captured tensor also an argument of this call? Recorded now, it would count as the
  /// argument only, and the plan would be wrong for a call with another argument.
  bool any_is_argument(const detail::FlatArgs& args) const;
  /// Are they the same tensors, and has none a gradient among them or memory of an argument's?
  bool same_apart(const CapturedSet& other) const;
  /// Why lock() said false.
  std::string describe() const;

 private:
  struct Expected {
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor;
    std::vector<uint64_t> words;
    const c10::StorageImpl* storage;
    const void* data;  ///< of the storage, when it was recorded
    size_t bytes;
    /// It is the gradient of this tensor, whichever tensor that is.
    std::optional<CallersTensor> gradient_of;
    bool held = false;  ///< … and `tensor` besides
  };
  struct Interval {
    uintptr_t low, high;
  };

  static bool same_place(const Expected& expected, const c10::TensorImpl& impl);
  bool overlaps_arguments(const detail::FlatArgs& args) const;
  std::vector<uint64_t> joint_overlaps(const detail::FlatArgs& args,
                                       const at::Tensor* captured) const;

  /// The tensor of this place now; undefined where it is gone.
  at::Tensor find(size_t k, const detail::FlatArgs& args, const at::Tensor* others) const;

  std::vector<Expected> tensors_;
  std::vector<record::Trace::Leaf> leaves_;
  std::vector<uint64_t> overlaps_;   ///< append_overlaps of arguments and captures together
  std::vector<Interval> intervals_;  ///< the captures' storages, merged, by address
  bool shares_with_arguments_ = false;
  bool has_gradients_ = false;
  bool hooks_matter_ = true;  ///< a plan would have to call them; a region leaves them to autograd
};

}  // namespace graft::runtime
