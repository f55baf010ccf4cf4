// A region: a compiled function whose results take part in autograd. Its plan computes the results
// and what the backward will need, and a node of autograd's graph runs the backward's plan when
// gradients come.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "graft/detail/core.h"
#include "record/trace.h"
#include "runtime/plan/plan.h"
#include "runtime/proof/shadow.h"
#include "runtime/region/differentiate.h"

namespace graft::runtime {

/// What backwards saw that a region was not recorded for. Thread-safe.
class Feedback {
 public:
  /// Gradients came so.
  void note(IncomingLayouts came);
  /// They came so several times, one after another.
  bool ready() const { return ready_.load(std::memory_order_acquire); }
  IncomingLayouts seen() const;

 private:
  mutable std::mutex mutex_;
  IncomingLayouts seen_;
  int times_ = 0;
  std::atomic<bool> ready_{false};
};

/// What a region has beside the plan of its forward. Immutable once proven, but for `feedback`.
struct Region {
  record::Trace::Backward facts;
  /// Arguments: the function's, then the gradients that come, then what is kept. Results:
  /// one gradient per input of `facts`.
  std::unique_ptr<Plan> backward;
  Tolerance tolerance;  ///< of the backward's results
  Scales scales;
  std::vector<View> incoming;  ///< per place: the gradient's layout; of no dtype where none comes
  /// Per tensor that is kept: the result whose memory it is; -1: it is nobody else's.
  std::vector<int> kept_of;
  size_t first_kept = 0;   ///< their place among the results of the forward's plan; they are last
  int64_t kept_bytes = 0;  ///< of those that are nobody else's
  /// Per argument (captured tensor) of the function: does the backward compute from it again what
  /// eager would have kept of the forward?
  std::vector<bool> recomputes_argument, recomputes_captured;
  /// The forward changes the caller's memory or draws random numbers: it cannot run again.
  bool has_effects = false;
  mutable Feedback feedback;
};

/// Does the backward's plan read that argument (captured tensor)?
inline bool reads_argument(const Region& region, size_t k) {
  return region.backward->argument_view(k).place.block >= 0;
}
inline bool reads_captured(const Region& region, size_t k) {
  return region.backward->captured_view(k).place.block >= 0;
}

/// The arguments of the backward's plan.
class BackwardArguments {
 public:
  /// `kept`: as many as the region keeps. Undefined gradients become zeros, others are copied where
  /// their layout is another than the plan's.
  BackwardArguments(const Region& region, std::vector<at::Tensor> arguments,
                    std::vector<at::Tensor> incoming, const at::Tensor* kept);
  const detail::FlatArgs& args() const { return args_; }

 private:
  std::vector<at::Tensor> tensors_;
  detail::FlatArgs args_;
};

/// Makes the results of the forward's plan that require grad outputs of a new node of autograd's
/// graph. `results`: that plan's. `call`: for gradients that the plan does not compute; null where
/// the call cannot be made again.
void connect(std::shared_ptr<const Region> region, const detail::FlatArgs& args,
             const at::Tensor* captured, size_t captures, at::Tensor* results,
             std::shared_ptr<detail::KeptCall> call);

}  // namespace graft::runtime
