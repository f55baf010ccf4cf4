#include "record/gradients.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

namespace graft::record {

const at::Tensor& gradient_of(const at::Tensor& tensor) {
  static const at::Tensor none;
  return tensor.defined() && tensor.unsafeGetTensorImpl()->autograd_meta() != nullptr
             ? tensor.unsafeGetTensorImpl()->grad()
             : none;
}

bool has_hooks(const c10::TensorImpl& leaf) {
  const auto* meta = static_cast<torch::autograd::AutogradMeta*>(leaf.autograd_meta());
  if (meta == nullptr) return false;
  if (!meta->hooks_.empty() || meta->post_acc_grad_hooks_ != nullptr) return true;
  const auto accumulator = meta->grad_accumulator_.lock();
  return accumulator && (!accumulator->pre_hooks().empty() || !accumulator->post_hooks().empty() ||
                         !accumulator->tensor_pre_hooks().empty());
}

bool is_computed(const c10::TensorImpl& tensor) {
  const auto* meta = static_cast<torch::autograd::AutogradMeta*>(tensor.autograd_meta());
  if (meta == nullptr) return false;
  if (meta->grad_fn_ != nullptr) return true;
  // A view whose base was changed in place by what requires grad gets its function when asked for.
  if (!meta->is_view_) return false;
  const auto* view = static_cast<const torch::autograd::DifferentiableViewMeta*>(meta);
  return view->has_bw_view() && view->get_backward_view().base_.requires_grad();
}

bool is_leaf_with_gradient(const at::Tensor& tensor) {
  return tensor.defined() && tensor.requires_grad() && !is_computed(*tensor.unsafeGetTensorImpl());
}

void Gradients::note(const at::Tensor& tensor, bool from_start) {
  if (!tensor.defined() || by_tensor_.find(tensor.unsafeGetTensorImpl()) != nullptr) return;
  const at::Tensor& gradient = gradient_of(tensor);
  by_tensor_.insert(tensor.unsafeGetTensorImpl(), static_cast<int>(states_.size()));
  if (gradient.defined() && gradient.has_storage())
    by_memory_.insert(gradient.storage().unsafeGetStorageImpl(), static_cast<int>(states_.size()));
  states_.push_back({Weak(gradient.getIntrusivePtr()), gradient.defined(), from_start});
}

const Gradients::State* Gradients::find(const at::Tensor& tensor) const {
  const int* index = by_tensor_.find(tensor.unsafeGetTensorImpl());
  return index == nullptr ? nullptr : &states_[static_cast<size_t>(*index)];
}

bool Gradients::noted_from_start(const at::Tensor& tensor) const {
  const State* state = find(tensor);
  return state != nullptr && state->from_start;
}

bool Gradients::had(const at::Tensor& tensor) const {
  const State* state = find(tensor);
  return state != nullptr && state->had;
}

at::Tensor Gradients::before(const at::Tensor& tensor) const {
  const State* state = find(tensor);
  return state != nullptr && state->had ? at::Tensor(state->before.lock()) : at::Tensor();
}

bool Gradients::changed(const at::Tensor& tensor) const {
  return find(tensor) != nullptr && !was(tensor, gradient_of(tensor));
}

bool Gradients::was(const at::Tensor& tensor, const at::Tensor& gradient) const {
  const State* state = find(tensor);
  if (state == nullptr || state->had != gradient.defined()) return false;
  return !state->had || state->before._unsafe_get_target() == gradient.unsafeGetTensorImpl();
}

at::Tensor Gradients::over(const c10::StorageImpl* memory) const {
  const int* index = by_memory_.find(memory);
  return index == nullptr ? at::Tensor()
                          : at::Tensor(states_[static_cast<size_t>(*index)].before.lock());
}

}  // namespace graft::record
