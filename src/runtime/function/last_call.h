// Mode::ReduceOverhead: a call that is like one of the last ones is served without a key, a look-up
// or an allocation.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "runtime/function/entry.h"
#include "runtime/plan/replay.h"

namespace graft::runtime {

/// Thread-safe: one thread at a time is served so, others take the usual way.
class LastCalls {
 public:
  /// Serves the call if it is like one that was noted, under the same version of the function's
  /// table. False: nothing happened.
  bool serve(detail::CallBase& call, uint64_t version);
  /// `entry`'s plan has served a call.
  void note(const std::shared_ptr<Entry>& entry, uint64_t version) noexcept;
  void clear();
  int64_t served() const { return served_.load(std::memory_order_relaxed); }

 private:
  struct Known {
    std::shared_ptr<Entry> entry;
    uint64_t version = 0;
    std::unique_ptr<Replay> replay;
  };
  static bool is_like(const Known& known, const detail::CallBase& call, uint64_t version);

  std::atomic<bool> busy_{false};
  std::array<Known, 3> known_;
  size_t next_ = 0;
  const Entry* newest_ = nullptr;           ///< noted last; may be gone
  std::vector<c10::TensorImpl*> captured_;  ///< working memory
  std::vector<at::Tensor> results_;         ///< likewise
  std::atomic<int64_t> served_{0};
};

}  // namespace graft::runtime
