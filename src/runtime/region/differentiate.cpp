#include "runtime/region/differentiate.h"

#include <ATen/EmptyTensor.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <string_view>
#include <typeinfo>
#include <unordered_set>
#include <utility>

#include "ir/overlap.h"
#include "runtime/communication/tape.h"
#include "runtime/region/border.h"

namespace graft::runtime {

using torch::autograd::Edge;
using torch::autograd::Node;

namespace {

template <class T>
void fill(at::Tensor& tensor) {
  T* data = static_cast<T*>(tensor.mutable_data_ptr());
  const auto count = static_cast<int64_t>(tensor.storage().nbytes() / sizeof(T));
  uint32_t state = 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    data[i] = static_cast<T>(static_cast<float>(state >> 8) * 0x1p-23f - 1.0f);
  }
}

bool is_differentiable(c10::ScalarType type) {
  return type == c10::ScalarType::Float || type == c10::ScalarType::Double ||
         type == c10::ScalarType::Half || type == c10::ScalarType::BFloat16;
}

bool has_hooks(Node& node) {
  return !node.pre_hooks().empty() || !node.post_hooks().empty() ||
         !node.tensor_pre_hooks().empty() || !node.retains_grad_hooks().empty();
}

bool overlap(const at::Tensor& a, const at::Tensor& b) {
  if (!a.is_alias_of(b)) return false;
  auto view = [](const at::Tensor& t) {
    return View{0, t.scalar_type(), t.storage_offset() * static_cast<int64_t>(t.element_size()),
                t.sizes().vec(), t.strides().vec()};
  };
  return ir::overlap(view(a), view(b));
}

/// Is it of the user's code, as a torch::autograd::Function's? Others, but for those that
/// accumulate into leaves, are pure: what they are asked besides changes nothing.
bool is_users(const Node& node) {
  const std::string_view name = typeid(node).name();
  return name.starts_with("N5torch8autograd7CppNode") ||
         !(name.starts_with("N5torch8autograd") || name.starts_with("N5graft7runtime"));
}

/// Would autograd call a function of the user's when it computes this tensor's gradient?
bool has_gradient_hooks(const at::Tensor& tensor) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta != nullptr && !meta->hooks_.empty();
}

/// What came to a result in backward: numbers between -1 and 1, the same each time.
at::Tensor synthetic_gradient(const at::Tensor& result, c10::IntArrayRef strides) {
  at::Tensor made = at::detail::empty_strided_cpu(result.sizes(), strides, result.scalar_type());
  switch (result.scalar_type()) {
    case c10::ScalarType::Double:
      fill<double>(made);
      break;
    case c10::ScalarType::Half:
      fill<c10::Half>(made);
      break;
    case c10::ScalarType::BFloat16:
      fill<c10::BFloat16>(made);
      break;
    default:
      fill<float>(made);
  }
  return made;
}

}  // namespace

Differentiation::Differentiation(const detail::FlatArgs& args, IncomingLayouts expected)
    : args_(args), expected_(std::move(expected)) {
  if (!c10::GradMode::is_enabled()) return;
  behind_.resize(args.tensors.size());
  for (size_t k = 0; k < args.tensors.size(); ++k) {
    const at::Tensor& argument = *args.tensors[k];
    const bool differentiable = argument.defined() && argument.requires_grad();
    edges_.push_back(differentiable ? torch::autograd::impl::gradient_edge(argument) : Edge());
    if (!differentiable || argument.is_leaf() || dynamic_cast<Border*>(edges_[k].function.get()))
      continue;
    behind_[k] = std::exchange(edges_[k], Edge(make_border(argument, edges_[k]), 0));
    torch::autograd::impl::set_gradient_edge(argument, edges_[k]);
  }
}

Differentiation::~Differentiation() {
  for (size_t k = 0; k < behind_.size(); ++k) {
    if (!behind_[k].is_valid()) continue;
    const at::Tensor& argument = *args_.tensors[k];
    if (torch::autograd::impl::gradient_edge(argument) == edges_[k])
      torch::autograd::impl::set_gradient_edge(argument, behind_[k]);
  }
}

bool Differentiation::begin(const std::vector<at::Tensor>& results) {
  if (!c10::GradMode::is_enabled()) return false;
  for (size_t i = 0; i < results.size() && !refused_; ++i) {
    const at::Tensor& result = results[i];
    if (!result.defined() || !result.requires_grad()) continue;
    const auto known = [&](int p) { return results[static_cast<size_t>(p)].is_same(result); };
    if (std::any_of(places_.begin(), places_.end(), known)) continue;
    const std::string who = c10::str("result ", i, ", which requires grad, ");
    if (!is_differentiable(result.scalar_type()))
      refused_ = who + "is no floating number; return its real and imaginary parts";
    else if (result.is_leaf())
      refused_ = who + "was computed by no operator; return a tensor computed in the function";
    for (const at::Tensor* argument : args_.tensors)
      if (argument->defined() && result.is_alias_of(*argument))
        refused_ = who +
                   "shares memory with an argument; take views (Flatten) outside of the function, "
                   "and do not change an argument in place (ReLU with inplace)";
    for (int p : places_)
      if (overlap(results[static_cast<size_t>(p)], result))
        refused_ = who + "shares memory with another; take views outside of the function";
    places_.push_back(static_cast<int>(i));
  }
  if (places_.empty()) return false;
  results_ = results;
  if (!refused_ && torch::autograd::AnomalyMode::is_enabled())
    refused_ = "autograd's anomaly mode is on, which looks at each operator";
  for (size_t k = 0; k < edges_.size() && !refused_; ++k) {
    const at::Tensor& argument = *args_.tensors[k];
    if (edges_[k].is_valid() && torch::autograd::impl::gradient_edge(argument) != edges_[k])
      refused_ = c10::str("argument ", k,
                          ", which requires grad, is changed in place, and the backward after the "
                          "call is not compiled then; return the new tensor instead");
  }
  if (!refused_) find_inputs();
  if (refused_) return false;
  const bool known = expected_.size() == places_.size();
  for (size_t p = 0; p < places_.size(); ++p) {
    const at::Tensor& result = results[static_cast<size_t>(places_[p])];
    if (known && !expected_[p]) {
      incoming_.emplace_back();
    } else if (known && expected_[p]->size() == static_cast<size_t>(result.dim())) {
      incoming_.push_back(synthetic_gradient(result, *expected_[p]));
    } else {
      c10::DimVector strides(result.strides());
      if (!result.is_non_overlapping_and_dense()) strides = c10::contiguous_strides(result.sizes());
      incoming_.push_back(synthetic_gradient(result, strides));
    }
  }
  return true;
}

/// The arguments that require grad, then the leaves that the graph ends in.
void Differentiation::find_inputs() {
  for (size_t k = 0; k < edges_.size(); ++k) {
    const at::Tensor& argument = *args_.tensors[k];
    if (!edges_[k].is_valid() || std::any_of(inputs_.begin(), inputs_.end(), [&](const auto& seen) {
          return seen.is_same(argument);
        }))
      continue;
    inputs_.push_back(argument);
    argument_of_.push_back(static_cast<int>(k));
  }
  std::unordered_set<Node*> seen;
  std::vector<Node*> left;
  auto reach = [&](const Edge& edge) {
    if (!edge.is_valid() || std::find(edges_.begin(), edges_.end(), edge) != edges_.end()) return;
    if (seen.insert(edge.function.get()).second) left.push_back(edge.function.get());
  };
  for (int place : places_) {
    const at::Tensor& result = results_[static_cast<size_t>(place)];
    reach(Edge(result.grad_fn(), static_cast<uint32_t>(result.output_nr())));
  }
  while (!left.empty() && !refused_) {
    Node* node = left.back();
    left.pop_back();
    if (auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) {
      inputs_.push_back(leaf->variable);
      argument_of_.push_back(-1);
      continue;
    }
    if (is_users(*node))
      refused_ =
          "a torch::autograd::Function is inside, whose backward would be called when nobody "
          "asked, to prove a plan's; write it as operators (x + (f(x) - x).detach()), or put "
          "backward() inside the compiled function, as whole steps of training do";
    if (has_hooks(*node))
      refused_ =
          "a tensor that it computes has hooks, which autograd calls in backward and a plan "
          "would not; register them on results";
    for (const Edge& next : node->next_edges()) reach(next);
  }
  for (const at::Tensor& input : inputs_)
    if (!refused_ && input.is_leaf() && has_gradient_hooks(input))
      refused_ =
          "a leaf that it differentiates with respect to has hooks; the proof of a plan would "
          "call them";
}

void Differentiation::run() {
  std::vector<at::Tensor> outputs, incoming;
  for (size_t p = 0; p < places_.size(); ++p) {
    if (!incoming_[p].defined()) continue;
    outputs.push_back(results_[static_cast<size_t>(places_[p])]);
    incoming.push_back(incoming_[p]);
  }
  ClosedBorders::Nodes borders;
  for (size_t k = 0; k < behind_.size(); ++k)
    if (behind_[k].is_valid()) borders.push_back(edges_[k].function);
  const ClosedBorders closed(std::move(borders));
  Tape nobody_hears;  // a backward that nobody asked for
  const Tape::Scope scope(&nobody_hears, Tape::Mode::Mute);
  outgoing_ = torch::autograd::grad(outputs, inputs_, incoming, /*retain_graph=*/true,
                                    /*create_graph=*/false, /*allow_unused=*/true);
  if (outputs.size() < places_.size()) return;
  // What no result depends on is no input of the region's: autograd would go on behind it.
  for (size_t i = inputs_.size(); i-- > 0;) {
    if (outgoing_[i].defined()) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    inputs_.erase(inputs_.begin() + at);
    argument_of_.erase(argument_of_.begin() + at);
    outgoing_.erase(outgoing_.begin() + at);
  }
}

std::vector<at::Tensor> Differentiation::all_results() const {
  std::vector<at::Tensor> all;
  for (size_t i = 0; i < results_.size(); ++i) {
    if (!results_[i].defined() || !results_[i].requires_grad()) {
      all.push_back(results_[i]);
      continue;
    }
    size_t same = 0;
    while (!results_[same].defined() || !results_[same].is_same(results_[i])) ++same;
    all.push_back(same < i ? all[same] : results_[i].tensor_data());
  }
  all.insert(all.end(), outgoing_.begin(), outgoing_.end());
  return all;
}

void Differentiation::describe(record::Trace& trace, int operators) const {
  record::Trace::Backward made;
  made.arguments = args_.tensors.size();
  made.results = results_.size();
  made.operators = operators;
  made.places = places_;
  for (const at::Tensor& gradient : incoming_) made.comes.push_back(gradient.defined());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (argument_of_[i] >= 0) {
      made.inputs.push_back({false, argument_of_[i]});
      continue;
    }
    const auto found =
        std::find_if(trace.captured.begin(), trace.captured.end(),
                     [&](const at::Tensor& captured) { return captured.is_same(inputs_[i]); });
    if (found != trace.captured.end())
      made.inputs.push_back({true, static_cast<int>(found - trace.captured.begin())});
  }
  const bool outside =
      made.inputs.size() != inputs_.size() ||
      std::any_of(trace.captured.begin(), trace.captured.end(), [](const at::Tensor& captured) {
        return captured.defined() && captured.requires_grad() && !captured.is_leaf();
      });
  if (outside)
    trace.broken =
        "a captured tensor was itself computed from tensors that require grad, outside of the "
        "function; pass it as an argument, or compute it inside";
  trace.backward = std::move(made);
}

}  // namespace graft::runtime
