// The type-erased half of graft::Compiled. Not for users.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graft/export.h"
#include "graft/options.h"
#include "graft/report.h"

namespace graft::detail {

/// The caller's arguments, flattened in order. Tensors are pointers (never null; the tensor may be
/// undefined); everything else that a plan depends on (scalar bits, container sizes, string bytes)
/// is words in `statics`.
struct FlatArgs {
  c10::SmallVector<const at::Tensor*, 8> tensors;
  c10::SmallVector<uint64_t, 8> statics;
};

/// A call that can be made again after it has returned.
class GRAFT_API KeptCall {
 public:
  virtual ~KeptCall() = default;
  /// Runs the wrapped function on these tensors and what else the call's arguments were. Gives the
  /// tensors of its result.
  virtual std::vector<at::Tensor> run(const at::Tensor* tensors) = 0;
};

/// One call, as the core sees it.
class GRAFT_API CallBase {
 public:
  FlatArgs args;

  /// Runs the wrapped function on the caller's own arguments and keeps its result. May throw what
  /// the function throws.
  virtual void run_eager() = 0;
  /// The arguments as they are now, one element per parameter of the call. `args` is how they were
  /// before; its pointers may have gone when run_eager returns.
  virtual std::vector<FlatArgs> arguments() const = 0;
  /// The tensors of the kept result, flattened. Only after run_eager.
  virtual std::vector<at::Tensor> result_tensors() const = 0;
  /// Everything else of the kept result (numbers, container sizes), as words. A plan treats them as
  /// constants.
  virtual std::vector<uint64_t> result_words() const = 0;
  /// The kept result with its tensors undefined, which later calls fill in. Its scalars are
  /// constants of the plan.
  virtual std::shared_ptr<const void> result_prototype() const = 0;
  /// Makes the result: a copy of the prototype that takes `tensors`, in flattening order.
  virtual void set_result(const void* prototype, at::Tensor* tensors) = 0;
  /// Holds no tensor. Null where an argument refers to what the caller owns.
  virtual std::shared_ptr<KeptCall> keep() const = 0;
  /// The wrapped function's own bytes, among them the addresses of what it captured.
  virtual std::span<const std::byte> function_memory() const { return {}; }
  /// This object's own bytes.
  virtual std::span<const std::byte> own_memory() const { return {}; }

 protected:
  ~CallBase() = default;
};

/// Plans, tiers and reports of one function. Thread-safe.
class GRAFT_API Core {
 public:
  explicit Core(Options options);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  /// Computes the call's result, by a plan or eagerly, and keeps it in `call`.
  void call(CallBase& call);
  Report report() const;
  std::string explain() const;
  std::vector<Decision> decisions() const;
  void wait() const;
  void reset();
  void save(const std::string& path) const;

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;  // shared with the background compilation
};

}  // namespace graft::detail
