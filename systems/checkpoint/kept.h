// Results of expensive operators that are kept, and used in their place when a function runs again.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace graft::systems::checkpointing {

/// Of one run of a function, in the order of its operators.
class KeptResults {
 public:
  /// Bytes of storages that are kept, each once, those of `but` not.
  int64_t bytes(const std::vector<at::Tensor>& but) const;
  /// Forgets results that were changed in place since.
  void forget_changed();

 private:
  friend class KeepScope;
  struct Result {
    c10::OperatorName op;
    std::vector<at::Tensor> tensors;  // aliases that share the version counter; empty: forgotten
    std::vector<uint32_t> versions;
    bool is_unchanged() const;
  };
  std::vector<Result> results_;
};

/// While it lives, this thread's operators below autograd go through it: Record keeps results,
/// Replay gives those that were kept, with no operator run. Scopes nest; the inner one counts.
class KeepScope {
 public:
  enum class Mode { Record, Replay };
  KeepScope(KeptResults& results, Mode mode);
  ~KeepScope();
  KeepScope(const KeepScope&) = delete;
  KeepScope& operator=(const KeepScope&) = delete;

  /// Fails if the second run did not come by all operators of the first.
  void check_complete() const;

 private:
  static void intercept(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                        torch::jit::Stack* stack);
  static void install();
  void record(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
  bool replay(const c10::OperatorHandle& op, torch::jit::Stack& stack);

  KeptResults& results_;
  const Mode mode_;
  size_t next_ = 0;
  KeepScope* const outer_;
  const bool was_included_;
};

}  // namespace graft::systems::checkpointing
