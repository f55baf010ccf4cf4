// The backward of an eager run, by autograd itself: recorded with the run that it belongs to, and
// run again where a plan's gradients are compared with it.
//
// A backward that the user asks for later cannot be foreseen, but what it will do can: the results'
// gradients come in, those of the arguments and of captured leaves go out. So autograd is asked for
// just that, with gradients of ours, which changes nothing of the user's: no leaf's gradient, and
// the graph stays.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <optional>
#include <string>
#include <vector>

#include "graft/detail/core.h"
#include "record/trace.h"

namespace graft::runtime {

/// Per distinct result that requires grad: the strides of the gradient that comes, if one does.
using IncomingLayouts = std::vector<std::optional<std::vector<int64_t>>>;

class Differentiation {
 public:
  /// Before the run. Until it ends, arguments that were computed themselves seem to come
  /// from nodes of ours, where the run's graph ends: autograd would go on behind them and find,
  /// say, an argument that another one was computed from. The tensors outlive it.
  /// `expected`: what comes; empty: a gradient for each result, in its layout where that is dense.
  explicit Differentiation(const detail::FlatArgs& args, IncomingLayouts expected = {});
  /// Gives the arguments their own place in autograd's graph back.
  ~Differentiation();
  Differentiation(const Differentiation&) = delete;
  Differentiation& operator=(const Differentiation&) = delete;

  /// After it. False where autograd has nothing to do, or refused() says why it is not asked.
  bool begin(const std::vector<at::Tensor>& results);
  const std::optional<std::string>& refused() const { return refused_; }

  /// One per distinct result that requires grad; undefined where none comes.
  const std::vector<at::Tensor>& incoming() const { return incoming_; }
  /// Asks autograd for the outgoing gradients.
  void run();
  const std::vector<at::Tensor>& outgoing() const { return outgoing_; }
  /// The run's results as tensors that autograd does not know, then the outgoing gradients.
  std::vector<at::Tensor> all_results() const;
  /// What the trace says of it; where that does not hold all that it differentiates with respect
  /// to, the trace is broken.
  void describe(record::Trace& trace, int operators) const;

 private:
  void find_inputs();

  const detail::FlatArgs& args_;
  const IncomingLayouts expected_;
  std::vector<torch::autograd::Edge> edges_;   ///< one per argument, during the run
  std::vector<torch::autograd::Edge> behind_;  ///< per argument that was computed: its own
  std::vector<at::Tensor> results_;
  std::vector<int> places_;  ///< distinct results that require grad
  std::vector<at::Tensor> incoming_;
  std::vector<at::Tensor> inputs_;  ///< arguments and leaves
  std::vector<int> argument_of_;    ///< per input; -1: a captured leaf
  std::vector<at::Tensor> outgoing_;
  std::optional<std::string> refused_;
};

}  // namespace graft::runtime
