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

/// Where the function runs a backward, all that it reaches must be seen. (The backward after a
/// function whose graph stays ends at its arguments.)
void Recorder::check_leaves(bool graph_stays) {
  if (graph_stays ? !trace_.backward_inside : !differentiates_) return;
  each_owner([&](const CallersTensor& owner, const at::Tensor& tensor) {
    if (trace_.broken || !tensor.requires_grad()) return;
    if (is_computed(*tensor.unsafeGetTensorImpl()))
      return give_up(name_of(owner) + ", a " + describe_tensor(tensor) +
                     ", was itself computed from tensors that require grad, outside of the "
                     "function: backward would go on there; detach() it, or compute it inside");
    if (has_hooks(*tensor.unsafeGetTensorImpl())) give_up(name_of(owner) + " " + kHooked);
  });
}

/// A gradient that lies in memory of other tensors', and is none of those, would be taken for a
/// part of them: at a call where it lies elsewhere, what it gets would be theirs.
void Recorder::check_gradients_memory() {
  each_owner([&](const CallersTensor& owner, const at::Tensor& tensor) {
    const at::Tensor gradient = gradients_.before(tensor);
    if (trace_.broken || !gradient.defined() || !gradient.has_storage()) return;
    const Known* known = known_.find(gradient.unsafeGetTensorImpl());
    if (known != nullptr && known->kind != Known::Kind::View) return;
    const Range range = reach(*gradient.unsafeGetTensorImpl());
    each_owner([&](const CallersTensor& other, const at::Tensor& seen) {
      if (!trace_.broken && reach(*seen.unsafeGetTensorImpl()).overlaps(range))
        give_up(c10::str("the gradient of ", name_of(owner), " shares memory with ", name_of(other),
                         "; give it memory of its own"));
    });
  });
}

void Recorder::find_owners(Survivors& survivors, bool graph_stays) {
  trace_.gradient_of.resize(trace_.captured.size());
  trace_.held.resize(trace_.captured.size());
  each_owner([&](const CallersTensor& owner, const at::Tensor& tensor) {
    bool used = gradients_.changed(tensor);
    if (gradients_.had(tensor)) {
      for (size_t k = 0; k < args_.size(); ++k)
        if (args_[k].defined() && gradients_.was(tensor, args_[k]))
          give_up(c10::str("argument ", k, " is the gradient of ", name_of(owner),
                           ", and which of the two is meant cannot be seen; pass a copy"));
      for (size_t k = 0; k < trace_.captured.size(); ++k) {
        if (!gradients_.was(tensor, trace_.captured[k])) continue;
        std::optional<CallersTensor>& of = trace_.gradient_of[k];
        const auto& owners = owner.captured ? trace_.captured : args_;
        if (of && !(of->captured ? trace_.captured : args_)[static_cast<size_t>(of->index)].is_same(
                      owners[static_cast<size_t>(owner.index)]))
          give_up(name_of(*of) + " and " + name_of(owner) +
                  " share one gradient tensor; give each its own");
        of = owner;
        used = true;
        // The record's own reference, and the leaf's.
        const size_t known = 1 + static_cast<size_t>(!gradients_.changed(tensor)) +
                             survivors.references(trace_.captured[k]);
        trace_.held[k] = trace_.captured[k].use_count() > known;
      }
    }
    const bool reached = differentiates_ && !graph_stays && is_leaf_with_gradient(tensor);
    if (!owner.captured || !(used || reached)) return;
    trace_.leaves.push_back({owner.index, gradients_.had(tensor)});
    trace_.met_leaves = trace_.met_leaves || !gradients_.noted_from_start(tensor);
  });
}

}  // namespace graft::record
