// The node that stands for a whole function in autograd's graph, and runs it again.
#include <ATen/SequenceNumber.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "graft/systems/checkpointing.h"
#include "systems/checkpoint/kept.h"
#include "systems/checkpoint/surroundings.h"

namespace graft::systems {
namespace {

using at::Tensor;
using checkpointing::KeepScope;
using checkpointing::KeptResults;
using checkpointing::OwnCasts;
using checkpointing::Surroundings;
using checkpointing::SurroundingsGuard;
using detail::TensorFunction;
using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using torch::autograd::impl::gradient_edge;

bool needs_gradient(const Tensor& tensor) {
  return tensor.defined() && tensor.requires_grad();
}

// A leaf of the function's own graph.
Tensor leaf_of(const Tensor& tensor, bool needs) {
  return tensor.defined() ? tensor.detach().set_requires_grad(needs) : tensor;
}

/// Where the function's graph ends outside of it: at the tensors that it captures.
class Captured {
 public:
  /// `leaves`: the arguments that the function was given. `first`: the sequence number that this
  /// thread's next node had before it ran.
  Captured(const std::vector<Tensor>& outputs, const std::vector<Tensor>& leaves, uint64_t first) {
    const uint64_t thread = at::RecordFunction::currentThreadId();
    std::unordered_set<const Node*> seen;
    for (const Tensor& leaf : leaves)
      if (needs_gradient(leaf)) seen.insert(gradient_edge(leaf).function.get());
    edge_list stack;
    for (const Tensor& output : outputs)
      if (needs_gradient(output)) stack.push_back(gradient_edge(output));
    while (!stack.empty()) {
      const Edge edge = std::move(stack.back());
      stack.pop_back();
      Node* node = edge.function.get();
      if (node == nullptr || seen.contains(node)) continue;
      auto* leaf = dynamic_cast<AccumulateGrad*>(node);
      if (leaf != nullptr || node->sequence_nr() < first || node->thread_id() != thread) {
        if (std::ranges::find(edges_, edge) != edges_.end()) continue;
        edges_.push_back(edge);
        if (leaf != nullptr) versions_.emplace_back(leaf->variable, leaf->variable._version());
      } else if (seen.insert(node).second) {
        for (const Edge& next : node->next_edges()) stack.push_back(next);
      }
    }
  }

  const edge_list& edges() const { return edges_; }
  /// Fails if a leaf was changed in place since: what is recomputed would be something else.
  void check_versions() const {
    for (const auto& [tensor, version] : versions_)
      TORCH_CHECK(tensor._version() == version, "a tensor of sizes ", tensor.sizes(),
                  " that a checkpointed function captures was changed in place between forward and "
                  "backward (it is at version ",
                  tensor._version(), ", and was at ", version,
                  "); change it after backward, or let the function take a copy");
  }

 private:
  edge_list edges_;
  std::vector<std::pair<Tensor, int64_t>> versions_;
};

/// While it lives, gradients come to these edges without calling their tensors' hooks: the outer
/// backward calls them, with the sum of all gradients.
class HooksAside {
 public:
  explicit HooksAside(const edge_list& edges) : edges_(edges), kept_(edges.size()) { swap(); }
  ~HooksAside() { swap(); }
  HooksAside(const HooksAside&) = delete;
  HooksAside& operator=(const HooksAside&) = delete;

 private:
  struct Hooks {
    std::vector<std::unique_ptr<torch::autograd::FunctionPreHook>> tensor;
    std::unordered_map<size_t, std::unique_ptr<torch::autograd::FunctionPreHook>> retains;
  };
  // Edges to one node come after each other's swap in one order, and back in the reverse one.
  void swap() {
    for (size_t i = 0; i < edges_.size(); ++i) {
      const size_t at = out_ ? edges_.size() - 1 - i : i;
      edges_[at].function->tensor_pre_hooks().swap(kept_[at].tensor);
      edges_[at].function->retains_grad_hooks().swap(kept_[at].retains);
    }
    out_ = true;
  }

  const edge_list& edges_;
  std::vector<Hooks> kept_;
  bool out_ = false;
};

class RecomputeBackward final : public Node {
 public:
  RecomputeBackward(TensorFunction function, const std::vector<Tensor>& inputs,
                    Surroundings surroundings, std::optional<KeptResults> kept, Captured captured)
      : function_(std::move(function)),
        surroundings_(std::move(surroundings)),
        kept_(std::move(kept)),
        captured_(std::move(captured)) {
    for (const Tensor& input : inputs) {
      inputs_.emplace_back(input, false);
      input_needs_.push_back(needs_gradient(input));
      if (input_needs_.back()) add_next_edge(gradient_edge(input));
    }
    for (const Edge& edge : captured_.edges()) add_next_edge(edge);
  }

  std::string name() const override { return "graft::RecomputeBackward"; }

  /// The output is the next one that a gradient comes for, and number `index` of the function's.
  void add_output(const Tensor& output, size_t index) {
    torch::autograd::set_history(output, getptr());
    outputs_.push_back(index);
  }

  variable_list apply(variable_list&& gradients) override {
    TORCH_CHECK(!c10::GradMode::is_enabled(),
                "a checkpointed function has no backward of its backward (create_graph = true); "
                "call it without checkpoint for that");
    TORCH_CHECK(function_ != nullptr,
                "backward came to a checkpointed function a second time, and what it needs was "
                "freed; set retain_graph = true for the first backward");
    captured_.check_versions();
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < inputs_.size(); ++i)
      inputs.push_back(leaf_of(inputs_[i].unpack(), input_needs_[i]));
    const std::vector<Tensor> outputs = run_again(inputs);
    edge_list roots, leaves;
    variable_list root_gradients;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const Tensor& output = outputs[outputs_[i]];
      if (!gradients[i].defined() || !needs_gradient(output)) continue;
      roots.push_back(gradient_edge(output));
      root_gradients.push_back(std::move(gradients[i]));
    }
    for (const Tensor& input : inputs)
      if (needs_gradient(input)) leaves.push_back(gradient_edge(input));
    leaves.insert(leaves.end(), captured_.edges().begin(), captured_.edges().end());
    if (roots.empty()) return variable_list(leaves.size());
    const HooksAside aside(captured_.edges());
    return torch::autograd::Engine::get_default_engine().execute(roots, root_gradients, false,
                                                                 false, false, leaves);
  }

  void release_variables() override {
    function_ = nullptr;
    inputs_.clear();
    kept_.reset();
  }

 private:
  std::vector<Tensor> run_again(const std::vector<Tensor>& inputs) {
    const SurroundingsGuard as_then(surroundings_);
    const c10::AutoGradMode with_graph(true);
    if (!kept_) return function_(inputs);
    KeepScope scope(*kept_, KeepScope::Mode::Replay);
    std::vector<Tensor> outputs = function_(inputs);
    scope.check_complete();
    return outputs;
  }

  TensorFunction function_;
  const Surroundings surroundings_;
  std::optional<KeptResults> kept_;
  const Captured captured_;
  std::vector<SavedVariable> inputs_;
  std::vector<bool> input_needs_;
  std::vector<size_t> outputs_;
};

}  // namespace

std::vector<Tensor> detail::checkpoint(Recompute what, const TensorFunction& function,
                                       const std::vector<Tensor>& inputs) {
  if (what == Recompute::Nothing || !c10::GradMode::is_enabled() ||
      c10::InferenceMode::is_enabled())
    return function(inputs);
  Surroundings surroundings;
  std::optional<KeptResults> kept;
  if (what == Recompute::CheapOperators) kept.emplace();
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) leaves.push_back(leaf_of(input, needs_gradient(input)));
  const uint64_t first = at::sequence_number::peek();
  std::vector<Tensor> own;
  {
    const OwnCasts casts;
    std::optional<KeepScope> scope;
    if (kept) scope.emplace(*kept, KeepScope::Mode::Record);
    own = function(leaves);
  }
  std::vector<Tensor> outputs;
  for (const Tensor& output : own) outputs.push_back(output.defined() ? output.detach() : output);
  if (std::ranges::none_of(own, needs_gradient)) return outputs;
  if (kept) kept->forget_changed();
  surroundings.forget_generator_if_unused();
  const auto node = std::make_shared<RecomputeBackward>(
      function, inputs, std::move(surroundings), std::move(kept), Captured(own, leaves, first));
  for (size_t i = 0; i < outputs.size(); ++i)
    if (needs_gradient(own[i])) node->add_output(outputs[i], i);
  return outputs;
}

}  // namespace graft::systems
