// The type-erased half of graft::Compiled. Not for users.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <string>
#include <vector>

#include "graft/options.h"
#include "graft/report.h"

namespace graft::detail {

/// The caller's arguments, flattened in order. Tensors by pointer (never null; may be undefined);
/// everything else a plan depends on (scalar bits, container sizes, string bytes) as words in
/// `statics`.
struct FlatArgs {
  c10::SmallVector<const at::Tensor*, 8> tensors;
  c10::SmallVector<uint64_t, 8> statics;
};

/// One call, as the core sees it.
class CallBase {
 public:
  FlatArgs args;

  /// Runs the wrapped function on the caller's own arguments and keeps its result. May throw what
  /// the function throws.
  virtual void run_eager() = 0;
  /// The tensors of the kept result, flattened. Only after run_eager.
  virtual std::vector<at::Tensor> result_tensors() const = 0;
  /// Everything else of the kept result (numbers, container sizes), as words: a plan takes them for
  /// constants.
  virtual std::vector<uint64_t> result_words() const = 0;
  /// The kept result with its tensors undefined: what a plan fills in at a later call. Scalars in
  /// it are constants.
  virtual std::shared_ptr<const void> result_prototype() const = 0;
  /// Makes the result: the prototype with its tensors replaced, in flattening order.
  virtual void set_result(const void* prototype, at::Tensor* tensors) = 0;

 protected:
  ~CallBase() = default;
};

/// Plans, tiers and reports of one function. Thread-safe.
class Core {
 public:
  explicit Core(Options options);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  /// Leaves a result in `call`: by a plan or eagerly.
  void call(CallBase& call);
  Report report() const;
  std::string explain() const;
  void wait() const;
  void reset();

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;  // shared with the background compilation
};

}  // namespace graft::detail
