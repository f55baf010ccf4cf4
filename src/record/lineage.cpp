// How the results of a run stand to other tensors, as autograd sees it.
#include <torch/csrc/autograd/function.h>  // variable.h of torch 2.15 lacks it
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "record/recorder.h"

namespace graft::record {
namespace {

/// A tensor object that the call made, and no other result is.
bool stands_for_itself(const ResultInfo& result) {
  return result.defined && result.argument < 0 && result.captured < 0 && result.same_as < 0;
}

}  // namespace

/// VariableVersion has no accessor for it, and is nothing but the pointer.
const void* version_counter(const at::Tensor& tensor) {
  const c10::VariableVersion& version = tensor.unsafeGetTensorImpl()->version_counter();
  static_assert(sizeof(version) == sizeof(void*));
  const void* counter = nullptr;
  std::memcpy(static_cast<void*>(&counter), static_cast<const void*>(&version), sizeof(counter));
  return counter;
}

/// Bases of returned views that nobody else holds: a plan has to make them as well, since the views
/// keep them alive and autograd finds the views' history in them.
void Recorder::add_bases(std::vector<at::Tensor>& results) {
  const size_t returned = results.size();
  for (size_t i = 0; i < returned && !trace_.broken; ++i) {
    if (!stands_for_itself(trace_.results[i]) || !results[i].is_view()) continue;
    const at::Tensor base(results[i]._base());
    if (held_root(base).first != Lineage::Root::None) continue;
    if (std::any_of(results.begin(), results.end(),
                    [&](const at::Tensor& other) { return other.is_same(base); }))
      continue;
    ResultInfo info = result("the base of a result", base, results);
    info.returned = false;
    trace_.results.push_back(info);
    results.push_back(base);
  }
}

/// The argument or captured tensor that is this base, or is a view of it.
std::pair<Lineage::Root, int> Recorder::held_root(const at::Tensor& base) const {
  auto find = [&](const std::vector<at::Tensor>& tensors) {
    auto found = std::find_if(tensors.begin(), tensors.end(), [&](const at::Tensor& tensor) {
      if (!tensor.defined()) return false;
      return base.is_same(tensor) || (tensor.is_view() && base.is_same(at::Tensor(tensor._base())));
    });
    return found == tensors.end() ? -1 : static_cast<int>(found - tensors.begin());
  };
  if (int k = find(args_); k >= 0) return {Lineage::Root::Argument, k};
  if (int k = find(trace_.captured); k >= 0) return {Lineage::Root::Captured, k};
  return {Lineage::Root::None, -1};
}

Lineage Recorder::lineage(size_t place, const std::vector<at::Tensor>& results) const {
  using Root = Lineage::Root;
  Lineage made;
  const at::Tensor& tensor = results[place];
  if (!stands_for_itself(trace_.results[place])) return made;
  made.inference = tensor.is_inference();
  if (made.inference) return made;
  auto find = [&](const std::vector<at::Tensor>& tensors, size_t count, auto&& is_root) {
    for (size_t k = 0; k < count; ++k)
      if (tensors[k].defined() && is_root(k)) return static_cast<int>(k);
    return -1;
  };
  auto take = [&](Root root, int index) {
    if (index < 0 || made.root != Root::None) return;
    made.root = root, made.index = index;
  };
  if (tensor.is_view()) {
    const at::Tensor base(tensor._base());
    const torch::autograd::CreationMeta creation =
        torch::autograd::impl::get_view_autograd_meta(tensor)->get_creation_meta();
    made.view = true, made.creation = static_cast<uint8_t>(creation);
    std::tie(made.root, made.index) = held_root(base);
    take(Root::Result,
         find(results, results.size(), [&](size_t k) { return results[k].is_same(base); }));
    return made;
  }
  const void* counter = version_counter(tensor);
  auto shares = [&](const std::vector<at::Tensor>& tensors) {
    return [&](size_t k) {
      return !tensors[k].is_inference() && version_counter(tensors[k]) == counter;
    };
  };
  take(Root::Argument, find(args_, args_.size(), shares(args_)));
  take(Root::Captured, find(trace_.captured, trace_.captured.size(), shares(trace_.captured)));
  take(Root::Result, find(results, place, [&](size_t k) {
         return stands_for_itself(trace_.results[k]) && !results[k].is_view() && shares(results)(k);
       }));
  return made;
}

}  // namespace graft::record
