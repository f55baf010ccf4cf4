#include "runtime/proof/arguments.h"

#include <algorithm>
#include <span>

#include "runtime/key/words.h"

namespace graft::runtime {

namespace {

constexpr const char* kInstead =
    " that the caller passes by reference, which a plan cannot repeat; return the new value as a "
    "result and assign it outside of the compiled function";

}  // namespace

HeldArguments::HeldArguments(const detail::CallBase& call) {
  const auto& given = call.args.tensors;
  tensors_.reserve(given.size());
  for (const at::Tensor* tensor : given) tensors_.push_back(*tensor);
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
  return std::nullopt;
}

}  // namespace graft::runtime
