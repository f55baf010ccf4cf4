#include "runtime/proof/arguments.h"

#include <algorithm>
#include <span>

#include "runtime/key/words.h"

namespace graft::runtime {

namespace {

constexpr const char* kInstead =
    " that the caller passes by reference, which a plan cannot repeat; return the new value as a "
    "result and assign it outside of the compiled function";

/// Tensor::grad() warns where there can be none.
const at::Tensor& gradient(const at::Tensor& tensor) {
  static const at::Tensor none;
  return tensor.defined() && tensor.unsafeGetTensorImpl()->autograd_meta() != nullptr
             ? tensor.unsafeGetTensorImpl()->grad()
             : none;
}

}  // namespace

HeldArguments::HeldArguments(const detail::CallBase& call) {
  const auto& given = call.args.tensors;
  tensors_.reserve(given.size());
  for (const at::Tensor* tensor : given) {
    tensors_.push_back(*tensor);
    gradients_.push_back(gradient(*tensor));
  }
  for (const at::Tensor& tensor : tensors_) args_.tensors.push_back(&tensor);
  args_.statics = call.args.statics;
}

std::optional<std::string> HeldArguments::changed(const detail::CallBase& call) const {
  const std::vector<detail::FlatArgs> now = call.arguments();
  std::span<const uint64_t> words(args_.statics);
  std::span<const at::Tensor> tensors(tensors_);
  for (size_t k = 0; k < now.size(); ++k) {
    const std::string who = "the function changes argument " + std::to_string(k) + ", ";
    const detail::FlatArgs& came = now[k];
    // Words first: they say how many tensors there are.
    if (came.statics.size() > words.size() ||
        !same_words(std::span<const uint64_t>(came.statics), words.first(came.statics.size())))
      return who + "a number or the size of a container" + kInstead;
    words = words.subspan(came.statics.size());
    for (size_t i = 0; i < came.tensors.size(); ++i)
      if (i >= tensors.size() || !came.tensors[i]->is_same(tensors[i]))
        return who + "a tensor" + kInstead;
    tensors = tensors.subspan(came.tensors.size());
  }
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (!gradient(tensors_[i]).is_same(gradients_[i]))
      return "the function replaces the gradient of tensor argument " + std::to_string(i) +
             ", which a plan cannot repeat; change it in place, or set it outside of the compiled "
             "function";
  return std::nullopt;
}

}  // namespace graft::runtime
