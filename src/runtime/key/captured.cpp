#include "runtime/key/captured.h"

#include <algorithm>

#include "runtime/key/key.h"
#include "runtime/key/range.h"

namespace graft::runtime {

CapturedSet::CapturedSet(const record::Trace& trace, const detail::FlatArgs& args) {
  Words words;
  for (const at::Tensor& tensor : trace.captured) {
    words.clear();
    append_tensor(words, tensor);
    auto view = words.view();
    const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    tensors_.push_back({c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(
                            tensor.getIntrusivePtr()),
                        {view.begin(), view.end()},
                        storage,
                        storage->data(),
                        storage->nbytes()});
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

bool CapturedSet::same_place(const Expected& expected, const at::Tensor& tensor) const {
  const c10::StorageImpl* storage =
      tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
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
    out[i] = at::Tensor(expected.tensor.lock());
    if (!out[i].defined()) return false;
    words.clear();
    append_tensor(words, out[i]);
    if (!same_words(words.view(), expected.words)) return false;
    moved = moved || !same_place(expected, out[i]);
  }
  // While the captures lie where they lay and no argument comes near, nothing can overlap
  // differently.
  if (!moved && !shares_with_arguments_ && !overlaps_arguments(args)) return true;
  return joint_overlaps(args, out) == overlaps_;
}

bool CapturedSet::any_is_argument(const detail::FlatArgs& args) const {
  for (const Expected& expected : tensors_)
    for (const at::Tensor* argument : args.tensors)
      if (argument->unsafeGetTensorImpl() == expected.tensor._unsafe_get_target())
        return !expected.tensor.expired();
  return false;
}

std::string CapturedSet::describe() const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    std::string who = "captured tensor " + std::to_string(i);
    at::Tensor tensor(tensors_[i].tensor.lock());
    if (!tensor.defined()) return who + ": its owner dropped or replaced it";
    Words words;
    append_tensor(words, tensor);
    if (std::string text = describe_tensor_difference(who, tensors_[i].words, words.view());
        !text.empty())
      return text;
  }
  return "captured tensors: they overlap the arguments or one another differently than when "
         "recorded";
}

}  // namespace graft::runtime
