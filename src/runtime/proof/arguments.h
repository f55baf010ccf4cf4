// The caller's arguments over an eager run.
//
// A function may take an argument by non-const reference and assign to it, clear a vector or write
// a number: the caller sees that, and a plan, which knows tensors' memory only, does not repeat it.
// So arguments are held while eager runs (their objects may be gone afterwards) and compared with
// what the caller has then.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "graft/detail/core.h"

namespace graft::runtime {

/// Its version counter; 0 where it has none.
inline uint32_t version_of(const at::Tensor& tensor) {
  return tensor.defined() && !tensor.is_inference()
             ? tensor.unsafeGetTensorImpl()->version_counter().current_version()
             : 0;
}

class HeldArguments {
 public:
  /// Before the run.
  explicit HeldArguments(const detail::CallBase& call);
  HeldArguments(const HeldArguments&) = delete;
  HeldArguments& operator=(const HeldArguments&) = delete;

  /// The tensors before the run; `args()` points to them.
  const std::vector<at::Tensor>& tensors() const { return tensors_; }
  const detail::FlatArgs& args() const { return args_; }

  /// After the run: which argument the function changed (another tensor object, another size of a
  /// container, another number) and what to do instead. Nothing when a plan's writes to memory are
  /// all that it did.
  std::optional<std::string> changed(const detail::CallBase& call) const;

 private:
  std::vector<at::Tensor> tensors_;
  detail::FlatArgs args_;
};

}  // namespace graft::runtime
