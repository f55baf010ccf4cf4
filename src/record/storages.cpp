#include "record/storages.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <map>

namespace graft::record {
namespace {

const c10::StorageImpl* storage_of(const c10::TensorImpl& tensor) {
  return tensor.unsafe_storage().unsafeGetStorageImpl();
}

}  // namespace

void Range::cover(const Range& other) {
  if (other.empty()) return;
  if (empty()) {
    *this = other;
    return;
  }
  first = std::min(first, other.first);
  last = std::max(last, other.last);
}

int64_t reach_bytes(const TensorInfo& tensor) {
  return elements_reached(tensor.sizes, tensor.strides) *
         static_cast<int64_t>(c10::elementSize(tensor.dtype));
}

Range reach(const c10::TensorImpl& tensor) {
  const c10::StorageImpl* storage = storage_of(tensor);
  if (storage == nullptr || tensor.numel() == 0) return {};
  const auto item = static_cast<int64_t>(tensor.itemsize());
  const int64_t first = reinterpret_cast<int64_t>(storage->data()) + tensor.storage_offset() * item;
  return {first, first + elements_reached(tensor.sizes(), tensor.strides()) * item};
}

int Storages::add(const StorageInfo& info, const State& state) {
  infos_.push_back(info);
  states_.push_back(state);
  return static_cast<int>(infos_.size()) - 1;
}

void Storages::hold(const c10::TensorImpl& tensor, int storage) {
  by_impl_.insert(storage_of(tensor), storage);
  holders_.push_back(tensor.unsafe_storage().getWeakStorageImpl());
}

int Storages::find(const c10::TensorImpl& tensor) {
  const c10::StorageImpl* impl = storage_of(tensor);
  if (impl == nullptr) return -1;
  const int* found = by_impl_.find(impl);
  return found == nullptr ? -1 : *found;
}

void Storages::add_arguments(const std::vector<at::Tensor>& arguments, size_t first) {
  // What the tensors over one StorageImpl reach, then those in order of address: neighbours that
  // overlap are one.
  struct Group {
    Range range;
    std::vector<int> members;
  };
  std::map<const c10::StorageImpl*, Group> by_storage;
  for (int k = static_cast<int>(first); k < static_cast<int>(arguments.size()); ++k) {
    if (!arguments[k].defined()) continue;
    const c10::TensorImpl& tensor = *arguments[k].unsafeGetTensorImpl();
    Group& group = by_storage[storage_of(tensor)];
    group.range.cover(reach(tensor));
    group.members.push_back(k);
  }
  std::vector<Group> groups;
  for (auto& [impl, group] : by_storage) groups.push_back(std::move(group));
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return std::pair(a.range.first, a.members[0]) < std::pair(b.range.first, b.members[0]);
  });
  std::vector<Group> merged;
  for (Group& group : groups) {
    if (!merged.empty() && merged.back().range.overlaps(group.range)) {
      merged.back().range.cover(group.range);
      auto& members = merged.back().members;
      members.insert(members.end(), group.members.begin(), group.members.end());
    } else {
      merged.push_back(std::move(group));
    }
  }
  for (Group& group : merged) std::sort(group.members.begin(), group.members.end());
  std::sort(merged.begin(), merged.end(),
            [](const Group& a, const Group& b) { return a.members[0] < b.members[0]; });

  for (const Group& group : merged) {
    // The base is found again at each call from the data of `first`, so it had better have data.
    const auto filled = std::find_if(group.members.begin(), group.members.end(),
                                     [&](int k) { return arguments[k].numel() > 0; });
    const int base = filled == group.members.end() ? group.members[0] : *filled;
    const int storage = add({.origin = StorageInfo::Origin::Argument, .first = base},
                            {.range = group.range, .written = true});
    for (int k : group.members) hold(*arguments[k].unsafeGetTensorImpl(), storage);
  }
}

int Storages::add_made(const c10::TensorImpl& tensor, int maker, bool written) {
  const int storage = add({.origin = StorageInfo::Origin::Made,
                           .bytes = static_cast<int64_t>(tensor.unsafe_storage().nbytes()),
                           .maker = maker},
                          {.range = {}, .written = written, .holder = holders_.size()});
  hold(tensor, storage);
  return storage;
}

int Storages::add_captured(const c10::TensorImpl& tensor, int capture) {
  const Range range = reach(tensor);
  int storage = find(tensor);
  for (int s = 0; s < static_cast<int>(states_.size()); ++s) {
    if (s == storage || infos_[s].origin != StorageInfo::Origin::Captured) continue;
    if (!states_[s].range.overlaps(range)) continue;
    if (storage >= 0) return -1;
    storage = s;
  }
  if (storage < 0) {
    storage = add({.origin = StorageInfo::Origin::Captured, .first = capture}, State());
  }
  // As for arguments: the base is found from the data of `first`.
  if (states_[storage].range.empty()) infos_[storage].first = capture;
  states_[storage].range.cover(range);
  if (find(tensor) < 0) hold(tensor, storage);
  return storage;
}

void Storages::add_alias(const c10::TensorImpl& tensor, int storage) {
  hold(tensor, storage);
}

int Storages::argument_at(const Range& range) const {
  for (int s = 0; s < static_cast<int>(states_.size()); ++s) {
    if (infos_[s].origin != StorageInfo::Origin::Argument) return -1;  // arguments come first
    if (states_[s].range.overlaps(range)) return s;
  }
  return -1;
}

std::optional<std::string> Storages::settle(std::vector<TensorInfo>& tensors) {
  for (size_t s = 0; s < infos_.size(); ++s) {
    if (infos_[s].origin != StorageInfo::Origin::Made) {
      infos_[s].bytes = states_[s].range.last - states_[s].range.first;
    }
  }
  std::optional<std::string> broken;
  for (TensorInfo& tensor : tensors) {
    if (tensor.storage < 0) continue;
    const StorageInfo& info = infos_[tensor.storage];
    if (info.origin == StorageInfo::Origin::Made) continue;
    const int64_t bytes = reach_bytes(tensor);
    // A tensor without elements may stand anywhere, and its address may be null.
    tensor.byte_offset = bytes == 0 ? 0 : tensor.byte_offset - states_[tensor.storage].range.first;
    if (broken || (tensor.byte_offset >= 0 && tensor.byte_offset + bytes <= info.bytes)) continue;
    const bool argument = info.origin == StorageInfo::Origin::Argument;
    broken = c10::str("a view of ", argument ? "argument " : "captured tensor ", info.first,
                      " reaches bytes ", tensor.byte_offset, " to ", tensor.byte_offset + bytes,
                      " of its memory, of which the ", argument ? "arguments" : "captured tensors",
                      " themselves reach only 0 to ", info.bytes,
                      "; pass a tensor that covers all of what the function uses");
  }
  return broken;
}

}  // namespace graft::record
