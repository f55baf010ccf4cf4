// A plan with memory of its own, for calls of microseconds: temporaries stay, and results lie in
// memory of earlier ones that nobody holds any more.
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
  /// The memory of one run's results, to be used again. Tensor objects are new at each run: what
  /// refers to one weakly must see when the caller drops it.
  struct Memory {
    c10::Storage storage;
    const void* data = nullptr;  ///< as it was made, and
    c10::DeleterFnPtr deleter = nullptr;
  };
  using Slot = std::vector<Memory>;  ///< per output

  void fill(Slot& slot) const;
  /// Does nobody but the slot hold its memory, and is that as it was made?
  bool is_free(const Slot& slot) const;

  const Plan& plan_;
  std::vector<char*> bases_, pointers_;
  std::vector<c10::DataPtr> memory_;  ///< of the arena and temporaries
  std::vector<size_t> callers_;       ///< blocks of arguments and captured tensors
  std::vector<size_t> outputs_;       ///< blocks
  std::vector<size_t> output_of_;     ///< per result that is its own: into outputs_
  /// Memory is free again when the caller dropped the results; the caller of a chain does in the
  /// call after next.
  std::array<Slot, 3> slots_;
  size_t next_ = 0;
};

}  // namespace graft::runtime
