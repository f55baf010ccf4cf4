// The gradients of a run's leaves, after it.
#include <c10/util/StringUtil.h>

#include "record/recorder.h"

namespace graft::record {
namespace {

std::string name_of(const CallersTensor& owner) {
  return (owner.captured ? "captured tensor " : "argument ") + std::to_string(owner.index);
}

}  // namespace

/// Gradients that the run set or cleared are results that go to their leaves.
void Recorder::add_gradients(std::vector<at::Tensor>& results) {
  each_owner([&](const CallersTensor& owner, const at::Tensor& tensor) {
    if (trace_.broken || !gradients_.changed(tensor)) return;
    const at::Tensor& gradient = gradient_of(tensor);
    const std::string who = "the gradient of " + name_of(owner);
    if (gradient.defined() && gradient.requires_grad())
      return give_up(who +
                     " requires grad itself (create_graph); backward of backward is not compiled");
    ResultInfo info = result(who, gradient, results);
    info.returned = false;
    info.gradient_of = owner;
    trace_.results.push_back(std::move(info));
    results.push_back(gradient);
  });
}

/// Where the run differentiates, all that its backward reaches must be seen.
void Recorder::check_leaves() {
  if (!differentiates_) return;
  each_owner([&](const CallersTensor& owner, const at::Tensor& tensor) {
    if (trace_.broken || !tensor.requires_grad()) return;
    if (!tensor.is_leaf())
      return give_up(name_of(owner) + ", a " + describe_tensor(tensor) +
                     ", was itself computed from tensors that require grad, outside of the "
                     "function: backward would go on there; detach() it, or compute it inside");
    if (has_hooks(*tensor.unsafeGetTensorImpl())) give_up(name_of(owner) + " " + kHooked);
  });
}

void Recorder::find_owners() {
  trace_.gradient_of.resize(trace_.captured.size());
  std::vector<bool> matters(trace_.captured.size(), false);
  each_owner([&](const CallersTensor& owner, const at::Tensor& tensor) {
    bool used = gradients_.changed(tensor);
    for (size_t k = 0; k < trace_.captured.size(); ++k) {
      if (!gradients_.had(tensor) || !gradients_.was(tensor, trace_.captured[k])) continue;
      trace_.gradient_of[k] = owner;
      used = true;
    }
    if (!owner.captured || !(used || (differentiates_ && is_leaf_with_gradient(tensor)))) return;
    trace_.leaves.push_back({owner.index, gradients_.had(tensor)});
    trace_.met_leaves = trace_.met_leaves || !gradients_.noted_from_start(tensor);
  });
}

}  // namespace graft::record
