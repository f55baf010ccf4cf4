// What a plan computes of captured tensors alone (passes/fold.h): once, and again after these
// changed.
//
// A change is seen by the tensor's version counter, as autograd sees it, and by its memory: another
// storage, or other data in it. What goes around the counter (writes through `tensor.data()` or a
// raw pointer) is seen where it changes one of a few numbers that are compared at each call, as an
// optimizer's step does; a change of single elements is not. Tensors without a counter (made under
// InferenceMode) make the plan compute all at each call.
#pragma once

#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/process/kept.h"

namespace graft::runtime {

/// Thread-safe. Plans that compute the same of the same tensors share it.
class Folded {
 public:
  struct FoldedBlock {
    size_t block;
    int64_t bytes;
  };
  struct Source {
    size_t captured;
    int64_t back;       ///< bytes from its block's base to its data
    int64_t low, high;  ///< bytes that it reaches, from its data on
  };
  struct Parts {
    std::vector<FoldedBlock> blocks;
    std::vector<const KernelStep*> kernels;  ///< the plan's, in order
    std::vector<Source> sources;
  };
  explicit Folded(Parts parts);

  const Parts& parts() const { return parts_; }
  int64_t bytes() const;

  /// Of the sources: where they lie, their versions, and a few of their numbers; and whether the
  /// thread flushes subnormal numbers.
  using State = c10::SmallVector<uint64_t, 64>;
  /// None where a source has no version counter.
  std::optional<State> state(const at::Tensor* captured) const;

  /// In the order of Parts::blocks.
  using Memory = std::vector<c10::Storage>;
  /// What was computed of sources in that state; null where it was not, or is no longer held.
  std::shared_ptr<const Memory> find(const State& state) const;
  void put(const State& state, const at::Tensor* captured, Memory memory) const;

 private:
  struct Values {
    State state;
    /// They hold no memory, but keep these objects' addresses from being used for others.
    std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> sources;
    Memory memory;
  };
  /// Of all plans, while one holds them.
  static Kept<std::vector<uint64_t>, std::weak_ptr<const Values>>& all();
  std::vector<uint64_t> key(const State& state) const;

  Parts parts_;
  std::vector<uint64_t> kernels_key_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Values> newest_;
};

}  // namespace graft::runtime
