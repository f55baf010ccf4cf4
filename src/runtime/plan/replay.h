// A plan with memory of its own, for calls of microseconds: runs one after another allocate
// nothing, and results are tensors that were given before and that nobody holds any more.
#pragma once

#include <array>
#include <vector>

#include "runtime/plan/plan.h"

namespace graft::runtime {

/// Not thread-safe.
class Replay {
 public:
  /// Kernels alone, whose results are tensors of their own or arguments, and which need little
  /// memory.
  static bool serves(const Plan& plan);
  /// Of a plan that it serves; it must outlive the Replay. Throws c10::Error where there is no
  /// memory.
  explicit Replay(const Plan& plan);
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  /// As Plan::run. `captured`: alive for as long as the run takes. GivenUp also where there is no
  /// memory; nothing was written then.
  Plan::Outcome run(const detail::FlatArgs& args, c10::TensorImpl* const* captured,
                    at::Tensor* results);

 private:
  /// Results of one run, to be given again.
  struct Slot {
    std::vector<c10::Storage> storages;  ///< of outputs_
    std::vector<at::Tensor> tensors;     ///< of the plan's results; undefined where they are others
  };
  void fill(Slot& slot) const;
  /// Does nobody but the slot hold its tensors and their memory, and are they as they were made?
  bool is_free(const Slot& slot) const;

  const Plan& plan_;
  std::vector<char*> bases_, pointers_;
  std::vector<c10::DataPtr> memory_;  ///< of the arena and temporaries
  std::vector<size_t> callers_;       ///< blocks of arguments and captured tensors
  std::vector<size_t> outputs_;       ///< blocks
  std::vector<size_t> holders_;       ///< per output: results in it, and the slot
  /// A result is free again when the caller dropped it; the caller of a chain drops it in the call
  /// after next.
  std::array<Slot, 3> slots_;
  size_t next_ = 0;
};

}  // namespace graft::runtime
