#include "runtime/key/captured.h"

#include <algorithm>

#include "record/gradients.h"
#include "record/recorder.h"
#include "runtime/key/key.h"
#include "runtime/key/range.h"

namespace graft::runtime {

CapturedSet::CapturedSet(const record::Trace& trace, const detail::FlatArgs& args) {
  Words words;
  leaves_ = trace.leaves;
  hooks_matter_ = !trace.backward;
  for (size_t k = 0; k < trace.captured.size(); ++k) {
    const at::Tensor& tensor = trace.captured[k];
    words.clear();
    append_layout(words, tensor, hooks_matter_);
    auto view = words.view();
    const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    tensors_.push_back({c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(
                            tensor.getIntrusivePtr()),
                        {view.begin(), view.end()},
                        storage,
                        storage->data(),
                        storage->nbytes(),
                        trace.gradient_of[k],
                        trace.held[k]});
    has_gradients_ = has_gradients_ || trace.gradient_of[k].has_value();
    const auto [low, high, data] = range_of(tensor);
    if (low != high) intervals_.push_back({low, high});
  }
  if (tensors_.empty()) return;
  std::sort(intervals_.begin(), intervals_.end(),
            [](const Interval& a, const Interval& b) { return a.low < b.low; });
  std::vector<Interval> merged;
  for (const Interval& next : intervals_) {
    if (!merged.empty() && next.low < merged.back().high)
      merged.back().high = std::max(merged.back().high, next.high);
    else
      merged.push_back(next);
  }
  intervals_ = std::move(merged);
  overlaps_ = joint_overlaps(args, trace.captured.data());
  shares_with_arguments_ = overlaps_arguments(args);
}

bool CapturedSet::same_place(const Expected& expected, const c10::TensorImpl& impl) {
  const c10::StorageImpl* storage = impl.unsafe_storage().unsafeGetStorageImpl();
  return storage == expected.storage && storage->data() == expected.data &&
         storage->nbytes() == expected.bytes;
}

bool CapturedSet::overlaps_arguments(const detail::FlatArgs& args) const {
  for (const at::Tensor* tensor : args.tensors) {
    const auto [low, high, data] = range_of(*tensor);
    if (low == high) continue;
    auto after = std::lower_bound(
        intervals_.begin(), intervals_.end(), high,
        [](const Interval& interval, uintptr_t end) { return interval.low < end; });
    if (after != intervals_.begin() && std::prev(after)->high > low) return true;
  }
  return false;
}

std::vector<uint64_t> CapturedSet::joint_overlaps(const detail::FlatArgs& args,
                                                  const at::Tensor* captured) const {
  std::vector<const at::Tensor*> all(args.tensors.begin(), args.tensors.end());
  for (size_t i = 0; i < tensors_.size(); ++i) all.push_back(captured + i);
  Words words;
  append_overlaps(words, all);
  auto view = words.view();
  return {view.begin(), view.end()};
}

bool CapturedSet::lock(const detail::FlatArgs& args, at::Tensor* out) const {
  bool moved = false;
  Words words;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Expected& expected = tensors_[i];
    if (expected.gradient_of) continue;
    out[i] = find(i, args, out);
    if (!out[i].defined()) return false;
    words.clear();
    append_layout(words, out[i], hooks_matter_);
    if (!same_words(words.view(), expected.words)) return false;
    moved = moved || !same_place(expected, *out[i].unsafeGetTensorImpl());
  }
  for (const record::Trace::Leaf& leaf : leaves_)
    if (record::gradient_of(out[leaf.captured]).defined() != leaf.had_gradient) return false;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!tensors_[i].gradient_of) continue;
    out[i] = find(i, args, out);
    if (!out[i].defined() || !record::is_plain(*out[i].unsafeGetTensorImpl())) return false;
    if (tensors_[i].held && tensors_[i].tensor._unsafe_get_target() != out[i].unsafeGetTensorImpl())
      return false;
    words.clear();
    append_layout(words, out[i], hooks_matter_);
    if (!same_words(words.view(), tensors_[i].words)) return false;
    moved = true;
  }
  // While the captures lie where they lay and no argument comes near, nothing can overlap
  // differently.
  if (!moved && !shares_with_arguments_ && !overlaps_arguments(args)) return true;
  return joint_overlaps(args, out) == overlaps_;
}

bool CapturedSet::borrow(const detail::FlatArgs& args, c10::TensorImpl** out) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Expected& expected = tensors_[i];
    if (expected.tensor.expired()) return false;
    c10::TensorImpl& impl = *expected.tensor._unsafe_get_target();
    if (!has_layout(expected.words, impl, hooks_matter_) || !same_place(expected, impl))
      return false;
    out[i] = &impl;
  }
  return !overlaps_arguments(args);
}

at::Tensor CapturedSet::find(size_t k, const detail::FlatArgs& args,
                             const at::Tensor* others) const {
  const std::optional<CallersTensor>& owner = tensors_[k].gradient_of;
  if (!owner) return at::Tensor(tensors_[k].tensor.lock());
  const auto index = static_cast<size_t>(owner->index);
  return record::gradient_of(owner->captured ? others[index] : *args.tensors[index]);
}

bool CapturedSet::any_is_argument(const detail::FlatArgs& args) const {
  for (const Expected& expected : tensors_)
    for (const at::Tensor* argument : args.tensors)
      if (!expected.gradient_of &&
          argument->unsafeGetTensorImpl() == expected.tensor._unsafe_get_target())
        return !expected.tensor.expired();
  return false;
}

bool CapturedSet::same_apart(const CapturedSet& other) const {
  auto apart = [](const CapturedSet& set) {
    return !set.has_gradients_ && !set.shares_with_arguments_ && set.leaves_.empty();
  };
  return apart(*this) && apart(other) &&
         std::equal(tensors_.begin(), tensors_.end(), other.tensors_.begin(), other.tensors_.end(),
                    [](const Expected& a, const Expected& b) {
                      return a.tensor._unsafe_get_target() == b.tensor._unsafe_get_target() &&
                             a.words == b.words;
                    });
}

std::string CapturedSet::describe() const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].gradient_of) continue;
    std::string who = "captured tensor " + std::to_string(i);
    at::Tensor tensor(tensors_[i].tensor.lock());
    if (!tensor.defined())
      return who + ": its owner dropped or replaced it (as a new optimizer does with its state)";
    Words words;
    append_layout(words, tensor, hooks_matter_);
    if (std::string text = describe_tensor_difference(who, tensors_[i].words, words.view());
        !text.empty())
      return text;
  }
  for (const record::Trace::Leaf& leaf : leaves_) {
    const at::Tensor owner(tensors_[static_cast<size_t>(leaf.captured)].tensor.lock());
    if (record::gradient_of(owner).defined() != leaf.had_gradient)
      return "captured tensor " + std::to_string(leaf.captured) + ": it came with" +
             (leaf.had_gradient ? "out" : "") + " a gradient, unlike when recorded";
  }
  return "captured tensors: their gradients have other layouts than when recorded, or they overlap "
         "the arguments or one another differently";
}

}  // namespace graft::runtime
