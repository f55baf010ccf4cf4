// What a run does to the gradients of leaves. Autograd's engine sets and steals Tensor::grad(), and
// optimizers clear it, without any operator: so the gradients of a run's leaves are noted before it
// and looked at after it.
//
// An argument is known before the run. A captured leaf (a module's parameter) is met in its middle,
// when the function may have cleared its gradient already: a run that differentiates is recorded
// once more, with the leaves that the first time met.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "record/pointer_map.h"

namespace graft::record {

/// The gradient of a tensor; undefined where it can have none (Tensor::grad() warns there).
const at::Tensor& gradient_of(const at::Tensor& tensor);
/// Does it take part in backward without being computed from other tensors?
bool is_leaf_with_gradient(const at::Tensor& tensor);

/// Was it computed from others that require grad?
bool is_computed(const c10::TensorImpl& tensor);

/// Would autograd call functions of the caller's when it computes its gradient?
bool has_hooks(const c10::TensorImpl& leaf);
constexpr const char* kHooked =
    "has hooks, which autograd calls when its gradient is computed and a plan would not; remove "
    "them, or do what they do inside the function";

class Gradients {
 public:
  /// Notes the tensor's gradient; again, nothing. `from_start`: the run has not begun.
  void note(const at::Tensor& tensor, bool from_start);
  bool noted_from_start(const at::Tensor& tensor) const;
  /// Had it a gradient?
  bool had(const at::Tensor& tensor) const;
  /// That gradient; undefined: it had none, or nobody holds it any more.
  at::Tensor before(const at::Tensor& tensor) const;
  /// Is its gradient another one than before?
  bool changed(const at::Tensor& tensor) const;
  /// Is `gradient` what the tensor's was before?
  bool was(const at::Tensor& tensor, const at::Tensor& gradient) const;

  /// The noted gradient of that memory; undefined: there is none.
  at::Tensor over(const c10::StorageImpl* memory) const;

 private:
  // Held weakly: the address stays theirs, and engines see who else holds them.
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct State {
    Weak before;
    bool had = false;
    bool from_start = false;
  };
  const State* find(const at::Tensor& tensor) const;

  std::vector<State> states_;
  PointerMap<int> by_tensor_, by_memory_;
};

}  // namespace graft::record
