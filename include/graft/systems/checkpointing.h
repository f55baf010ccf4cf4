// Activation checkpointing: what backward needs of a function is computed again instead of kept.
//
//     at::Tensor y = checkpoint(Recompute::Everything, block, x);     // any callable, containers
//     CheckpointedLayers model(layers, Policy::budget(64 << 20));     // a chain; chooses by itself
//     model(x).sum().backward();
//
// Results and gradients have the bits of the function without it: the state of ATen's generator
// (dropout) and autocast are as they were, and captured parameters get their gradients. The first
// run builds the function's graph, notes at which tensors outside of it that ends, and drops it;
// backward runs the function again, and gives the gradients of those tensors to autograd. So
// parameters' hooks run once and after all uses, a function whose arguments need no gradient may
// have parameters that do, and torch::autograd::grad works as without.
//
// The function must do the same each time: no effects beside its results (a BatchNorm's running
// statistics move twice), no generator but ATen's default. No backward of the backward
// (create_graph). Backward passes on several threads at once must not share captured tensors that
// have hooks. A function of graft::compile may be called inside, by the same plan both times; under
// Recompute::CheapOperators it runs eagerly. Under autocast each function casts weights for itself:
// where several share a weight, its gradients are added up in the weight's precision and not in
// that of the casts, which is the one case in which bits differ.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "graft/graft.h"

namespace graft::systems {

/// What backward computes again of a function.
enum class Recompute {
  Nothing,         ///< all is kept: the function is called as it is
  CheapOperators,  ///< all but results of products of matrices, convolutions and attention
  Everything       ///< only arguments are kept
};

namespace detail {
using TensorFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;
GRAFT_API std::vector<at::Tensor> checkpoint(Recompute what, const TensorFunction& function,
                                             const std::vector<at::Tensor>& inputs);
}  // namespace detail

/// f(args...), of which backward computes `what` again. Arguments and result: tensors, numbers and
/// standard containers of them, as graft::compile's. Copies of f and of the arguments live as long
/// as the graph, and tensors that f captures, too. Arguments that are not needed for gradients are
/// kept all the same, and must not be changed in place before backward; nor must tensors that f
/// captures (both are checked, with c10::Error in backward). With gradients off, a plain call.
/// Thread-safe as f is.
template <class F, class... Args>
auto checkpoint(Recompute what, F f, const Args&... args) {
  using Arguments = std::tuple<std::decay_t<Args>...>;
  using Result = std::decay_t<std::invoke_result_t<const F&, const std::decay_t<Args>&...>>;
  graft::detail::check_arguments<std::decay_t<Args>...>();
  graft::detail::check_result<Result>();
  static_assert(!std::is_void_v<Result>, "graft: checkpoint's function must return its results");
  Arguments arguments(args...);
  std::vector<at::Tensor> inputs;
  graft::detail::Flatten<Arguments>::visit(arguments, graft::detail::CollectTensors{inputs});
  graft::detail::Flatten<Arguments>::visit(arguments, graft::detail::ClearTensors{});
  const auto result = std::make_shared<std::optional<Result>>();
  const std::weak_ptr<std::optional<Result>> first = result;  // gone when backward runs f again
  std::vector<at::Tensor> outputs = detail::checkpoint(
      what,
      [f = std::move(f), arguments, first](const std::vector<at::Tensor>& tensors) {
        Arguments own = arguments;
        graft::detail::Flatten<Arguments>::visit(own, graft::detail::CopyTensors{tensors.data()});
        Result value = std::apply(f, std::as_const(own));
        std::vector<at::Tensor> out;
        graft::detail::Flatten<Result>::visit(value, graft::detail::CollectTensors{out});
        if (const auto keep = first.lock()) {
          graft::detail::Flatten<Result>::visit(value, graft::detail::ClearTensors{});
          keep->emplace(std::move(value));
        }
        return out;
      },
      inputs);
  graft::detail::Flatten<Result>::visit(**result, graft::detail::FillTensors{outputs.data()});
  return std::move(**result);
}

/// How a chain of layers is checkpointed.
struct Policy {
  enum class Kind { Nothing, Segments, CheapOperators, Budget };
  Kind kind = Kind::Nothing;
  int64_t segment = 1;
  int64_t bytes = 0;

  static Policy none() { return {}; }
  /// Each `length` layers in a row are one checkpoint; 1: per layer. The root of the number of
  /// layers keeps least.
  static Policy every(int64_t length = 1) { return {Kind::Segments, length, 0}; }
  /// Each layer by Recompute::CheapOperators.
  static Policy selective() { return {Kind::CheapOperators, 1, 0}; }
  /// For each layer what costs the least time in all, while activations take at most `bytes` at
  /// any time of forward and backward: those kept, and those of the layer that runs, with what its
  /// forward frees again. Gradients, what a backward frees again, and parameters are not counted.
  /// Layers are timed and their activations counted at the first call with gradients, and again
  /// when sizes change: each runs six more times there.
  static Policy budget(int64_t bytes) { return {Kind::Budget, 1, bytes}; }
};

/// Of one layer, measured.
struct LayerCost {
  double everything_ms = 0, cheap_ms = 0;  ///< to compute again
  int64_t bytes = 0;                       ///< its activations, the output included
  int64_t output_bytes = 0,
          cheap_bytes = 0;    ///< kept if Everything or CheapOperators is recomputed
  int64_t running_bytes = 0;  ///< most at any time of its forward, temporaries included
  int64_t kept_bytes(Recompute what) const {
    return what == Recompute::Nothing      ? bytes
           : what == Recompute::Everything ? output_bytes
                                           : cheap_bytes;
  }
  double recompute_ms(Recompute what) const {
    return what == Recompute::Nothing      ? 0
           : what == Recompute::Everything ? everything_ms
                                           : cheap_ms;
  }
};

/// Most bytes of activations at any time under a choice for each layer.
GRAFT_API int64_t activation_peak(const std::vector<LayerCost>& costs,
                                  const std::vector<Recompute>& choice);
/// The choice of least time whose peak is at most `budget`; exact but for the budget's thousandths.
/// Throws c10::ValueError naming the least budget that is enough where there is none.
GRAFT_API std::vector<Recompute> choose_recompute(const std::vector<LayerCost>& costs,
                                                  int64_t budget);

/// Layers in a row, each taking the result of the one before. Copies of the layers are held.
/// Calls from several threads at once are safe as the layers are, except under Policy::budget.
class GRAFT_API CheckpointedLayers {
 public:
  using Layer = std::function<at::Tensor(const at::Tensor&)>;
  /// Throws c10::ValueError for no layers, empty ones, or a segment or budget below 1.
  CheckpointedLayers(std::vector<Layer> layers, Policy policy);

  at::Tensor operator()(const at::Tensor& input);
  /// Under Policy::budget, of the last measurement; else empty.
  const std::vector<LayerCost>& costs() const { return costs_; }
  /// What is computed again of each layer; under Policy::budget empty before the first call.
  const std::vector<Recompute>& choice() const { return choice_; }

 private:
  void measure(const at::Tensor& input);

  std::vector<Layer> layers_;
  Policy policy_;
  std::vector<LayerCost> costs_;
  std::vector<Recompute> choice_;
  std::vector<int64_t> measured_sizes_;
};

}  // namespace graft::systems
