// The identity of memory during a run.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <optional>
#include <string>
#include <vector>

#include "record/pointer_map.h"
#include "record/trace.h"

namespace graft::record {

/// Addresses [first, last).
struct Range {
  int64_t first = 0;
  int64_t last = 0;
  bool empty() const { return first >= last; }
  bool overlaps(const Range& other) const {
    return !empty() && !other.empty() && first < other.last && other.first < last;
  }
  bool contains(const Range& other) const {
    return other.empty() || (first <= other.first && other.last <= last);
  }
  void cover(const Range& other);
};

/// Bytes that elements of a strided tensor occupy; empty for a tensor without elements.
Range reach(const c10::TensorImpl& tensor);
/// Bytes from the first to the last element's end of a strided tensor.
int64_t reach_bytes(const TensorInfo& tensor);

/// Storages by StorageImpl. Each is held weakly, so that its address is not used again in the run
/// while its data is freed as without Graft.
///
/// Offsets are bytes from the start of the StorageImpl for memory made in the run. For arguments
/// and captures they are addresses until settle(), because the lowest address is known only once
/// all of them are.
class Storages {
 public:
  explicit Storages(std::vector<StorageInfo>& infos) : infos_(infos) {}

  struct State {
    Range range;          ///< what arguments or captured tensors reach in it
    bool written = true;  ///< something the recorder saw, or that was before the run, filled it
    int newest = -1;      ///< the tensor described last in it
    size_t holder = 0;    ///< Made: index into holders_
    /// Made from nothing but numbers of the function: its content is the same at every call.
    bool constant = false;
    /// Computed of arguments or captured tensors. Other memory may be one that the function's own
    /// code fills, unseen.
    bool derived = false;
    bool of_numbers = false;         ///< made by at::tensor({…}), which fills it unseen
    std::vector<char> content = {};  ///< of a constant, when an operator wrote it last
  };

  /// Groups the memory of the arguments from `first` on: one storage for one StorageImpl, or for
  /// ranges that overlap.
  void add_arguments(const std::vector<at::Tensor>& arguments, size_t first = 0);
  int add_made(const c10::TensorImpl& tensor, int maker, bool written);
  /// The storage of a captured tensor that has none yet; -1 if it connects two storages that were
  /// apart.
  int add_captured(const c10::TensorImpl& tensor, int capture);
  /// Another StorageImpl over the memory of `storage` (from_blob).
  void add_alias(const c10::TensorImpl& tensor, int storage);

  /// -1: not seen.
  int find(const c10::TensorImpl& tensor);
  /// The storage of arguments that this memory lies in; -1 if in none.
  int argument_at(const Range& range) const;
  State& state(int storage) { return states_[storage]; }

  /// How many TensorImpls (or others) still hold the memory of a storage made in the run.
  size_t owners(int storage) const { return holders_[states_[storage].holder].use_count(); }
  const c10::StorageImpl* made(int storage) const {
    return holders_[states_[storage].holder]._unsafe_get_target();
  }
  /// Turns addresses into offsets. Returns an error text when a tensor reaches outside the memory
  /// of the arguments or captures.
  std::optional<std::string> settle(std::vector<TensorInfo>& tensors);

 private:
  int add(const StorageInfo& info, const State& state);
  void hold(const c10::TensorImpl& tensor, int storage);

  std::vector<StorageInfo>& infos_;
  std::vector<State> states_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> holders_;
  PointerMap<int> by_impl_;
};

}  // namespace graft::record
