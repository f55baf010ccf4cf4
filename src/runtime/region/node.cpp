// The node of autograd's graph that stands for a call of a region.
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "ir/builder.h"
#include "record/recorder.h"
#include "runtime/proof/arguments.h"
#include "runtime/region/border.h"
#include "runtime/region/region.h"
#include "runtime/region/thread_modes.h"

namespace graft::runtime {

using torch::autograd::Edge;
using torch::autograd::variable_list;

namespace {

/// Some of a tensor's elements, of all parts of it. Optimizers that write through `data()`, as
/// torch::optim::SGD does, change nearly all of them, and no version counter.
std::vector<char> sample_of(const at::Tensor& tensor) {
  constexpr int64_t kSamples = 32;
  const int64_t count = tensor.numel(), samples = std::min(count, kSamples);
  const size_t size = tensor.element_size();
  const auto* data = static_cast<const char*>(tensor.const_data_ptr());
  std::vector<char> bytes(static_cast<size_t>(samples) * size);
  for (int64_t n = 0; n < samples; ++n) {
    int64_t left = n * count / samples, offset = 0;
    for (int64_t d = tensor.dim(); d-- > 0; left /= tensor.size(d))
      offset += left % tensor.size(d) * tensor.stride(d);
    std::memcpy(bytes.data() + static_cast<size_t>(n) * size,
                data + offset * static_cast<int64_t>(size), size);
  }
  return bytes;
}

/// A tensor as it was at the call: its memory and its version counter, without its place in
/// autograd's graph, so that no graph holds itself.
struct Saved {
  Saved() = default;
  /// `recomputes`: the backward computes from it again what eager would have kept.
  explicit Saved(const at::Tensor& from, bool recomputes = false)
      : tensor(from.defined() ? from.tensor_data() : at::Tensor()), version(version_of(from)) {
    if (recomputes && from.requires_grad() && from.is_leaf()) sample = sample_of(tensor);
  }

  /// Throws eager's error where an in-place operator changed it since.
  void check() const {
    const uint32_t now = version_of(tensor);
    TORCH_CHECK(now == version,
                "one of the variables needed for gradient computation has been modified by an "
                "inplace operation: [",
                tensor.toString(), " ", tensor.sizes(), "] is at version ", now,
                "; expected version ", version,
                " instead. (A region that Graft compiled uses it in its backward. Change a copy of "
                "it, or run the backward first.)");
    TORCH_CHECK(
        sample.empty() || sample == sample_of(tensor), "graft: a leaf, [", tensor.toString(), " ",
        tensor.sizes(),
        "], was changed through data() between a region's forward and its backward, as "
        "torch::optim::SGD's step does. The backward computes from it what eager would have kept. "
        "Run the backward before the step, or call the function uncompiled.");
  }

  at::Tensor tensor;
  uint32_t version = 0;
  std::vector<char> sample;  ///< empty: nothing is computed again of it
};

/// Takes the hooks of leaves away for a while: autograd will call them where the gradient arrives.
class HookFree {
 public:
  explicit HookFree(const std::vector<at::Tensor>& leaves) : lock_(mutex()), leaves_(leaves) {
    for (const at::Tensor& leaf : leaves_) {
      hooks_.emplace_back();
      if (leaf.defined()) hooks_.back().swap(torch::autograd::impl::hooks(leaf));
    }
  }
  ~HookFree() {
    for (size_t i = 0; i < leaves_.size(); ++i)
      if (leaves_[i].defined()) hooks_[i].swap(torch::autograd::impl::hooks(leaves_[i]));
  }
  HookFree(const HookFree&) = delete;
  HookFree& operator=(const HookFree&) = delete;

 private:
  static std::recursive_mutex& mutex() {
    static auto* one = new std::recursive_mutex;  // a thread may outlive static objects
    return *one;
  }
  std::lock_guard<std::recursive_mutex> lock_;
  const std::vector<at::Tensor>& leaves_;
  std::vector<std::vector<std::unique_ptr<torch::autograd::FunctionPreHook>>> hooks_;
};

class RegionNode final : public torch::autograd::Node {
 public:
  RegionNode(std::shared_ptr<const Region> region, const detail::FlatArgs& args,
             const at::Tensor* captured, size_t captures, const at::Tensor* results,
             std::shared_ptr<detail::KeptCall> call)
      : region_(std::move(region)), call_(std::move(call)) {
    for (size_t k = 0; k < region_->facts.arguments; ++k)
      arguments_.push_back(call_ || reads_argument(*region_, k)
                               ? Saved(*args.tensors[k], region_->recomputes_argument[k])
                               : Saved());
    for (size_t k = 0; k < captures; ++k)
      captured_.push_back(call_ || reads_captured(*region_, k)
                              ? Saved(captured[k], region_->recomputes_captured[k])
                              : Saved());
    for (size_t k = 0; call_ && k < arguments_.size(); ++k) {
      size_t first = 0;
      while (!args.tensors[first]->is_same(*args.tensors[k])) ++first;
      first_.push_back(first);
    }
    for (size_t k = 0; k < region_->kept_of.size(); ++k) {
      const at::Tensor& kept = results[region_->first_kept + k];
      if (const int of = region_->kept_of[k]; of >= 0)
        kept.unsafeGetTensorImpl()->set_version_counter(
            results[of].unsafeGetTensorImpl()->version_counter());
      kept_.emplace_back(kept);
    }
    torch::autograd::edge_list edges;
    for (const CallersTensor& input : region_->facts.inputs) {
      const auto k = static_cast<size_t>(input.index);
      edges.push_back(
          torch::autograd::impl::gradient_edge(input.captured ? captured[k] : *args.tensors[k]));
      leaves_.push_back(input.captured ? captured[k] : at::Tensor());
    }
    set_next_edges(std::move(edges));
  }

  std::string name() const override { return "GraftRegionBackward"; }

  variable_list apply(variable_list&& incoming) override {
    std::lock_guard lock(mutex_);
    TORCH_CHECK(!released_, torch::autograd::ERR_BACKWARD_TWICE);
    // Eager's nodes may take a sparse gradient, and give sparse ones.
    bool sparse = false;
    for (at::Tensor& gradient : incoming) {
      if (!gradient.defined() || gradient.layout() == at::kStrided) continue;
      sparse = call_ != nullptr;
      if (!sparse) gradient = gradient.to_dense();
    }
    const bool twice = c10::GradMode::is_enabled() && !c10::InferenceMode::is_enabled();
    const bool plain =
        std::all_of(incoming.begin(), incoming.end(), [](const at::Tensor& gradient) {
          return !gradient.defined() || record::is_plain(*gradient.unsafeGetTensorImpl());
        });
    if (std::none_of(incoming.begin(), incoming.end(),
                     [](const at::Tensor& gradient) { return gradient.defined(); }))
      return variable_list(num_outputs());
    variable_list outgoing =
        twice || sparse || !plain ? run_again(incoming, twice) : run_or_note(incoming);
    if (!twice && !sparse) part(incoming, outgoing);
    return outgoing;
  }

  void release_variables() override {
    std::lock_guard lock(mutex_);
    released_ = true;
    arguments_.clear();
    captured_.clear();
    kept_.clear();
    call_.reset();
  }

 private:
  variable_list run_or_note(const variable_list& incoming) {
    bool same_places = true, same_strides = true;
    for (size_t p = 0; p < incoming.size(); ++p) {
      const bool comes = region_->facts.comes[p];
      same_places = same_places && comes == incoming[p].defined();
      if (!comes || !incoming[p].defined()) continue;
      // One that is expanded is not worth a plan of its own, for which no other could be copied.
      same_strides =
          same_strides && (!incoming[p].is_non_overlapping_and_dense() ||
                           incoming[p].strides() == c10::IntArrayRef(region_->incoming[p].strides));
    }
    if (!same_strides || (!same_places && call_)) note(incoming);
    return same_places || !call_ ? run_plan(incoming) : run_again(incoming, /*twice=*/false);
  }

  /// A leaf keeps the gradient that it is given where nobody else holds that tensor, whoever holds
  /// its memory: what shares memory with others is copied for it, as eager's nodes, which hand one
  /// tensor to several, make it do.
  void part(const variable_list& incoming, variable_list& outgoing) const {
    for (size_t i = 0; i < outgoing.size(); ++i) {
      const at::Tensor& own = outgoing[i];
      if (!own.defined() ||
          dynamic_cast<torch::autograd::AccumulateGrad*>(next_edge(i).function.get()) == nullptr)
        continue;
      const auto shares = [&](const at::Tensor& other) {
        return other.defined() && &other != &own && other.is_alias_of(own);
      };
      if (std::any_of(incoming.begin(), incoming.end(), shares) ||
          std::any_of(outgoing.begin(), outgoing.end(), shares))
        outgoing[i] = own.clone();
    }
  }

  void note(const variable_list& incoming) const {
    IncomingLayouts came;
    for (size_t p = 0; p < incoming.size(); ++p) {
      const at::Tensor& gradient = incoming[p];
      if (gradient.defined() && gradient.is_non_overlapping_and_dense())
        came.emplace_back(gradient.strides().vec());
      else if (region_->facts.comes[p] && (gradient.defined() || !call_))
        // What cannot run again needs a plan that takes gradients for all results.
        came.emplace_back(region_->incoming[p].strides);
      else if (gradient.defined())
        came.emplace_back(ir::contiguous_strides(gradient.sizes().vec()));
      else
        came.emplace_back(std::nullopt);
    }
    region_->feedback.note(std::move(came));
  }

  variable_list run_plan(const variable_list& incoming) {
    std::vector<at::Tensor> arguments, captured, kept;
    for (size_t k = 0; k < arguments_.size(); ++k) {
      const bool reads = reads_argument(*region_, k);
      if (reads) arguments_[k].check();
      arguments.push_back(reads ? arguments_[k].tensor : at::Tensor());
    }
    for (size_t k = 0; k < captured_.size(); ++k) {
      if (reads_captured(*region_, k)) captured_[k].check();
      captured.push_back(captured_[k].tensor);
    }
    for (const Saved& saved : kept_) {
      saved.check();
      kept.push_back(saved.tensor);
    }
    const BackwardArguments given(*region_, std::move(arguments), incoming, kept.data());
    variable_list outgoing(region_->backward->result_count());
    if (region_->backward->run(given.args(), captured.data(), outgoing.data()) ==
        Plan::Outcome::GivenUp)
      return run_again(incoming, /*twice=*/false);
    outgoing.resize(num_outputs());
    return outgoing;
  }

  /// The function itself, once more, and its backward by autograd.
  variable_list run_again(const variable_list& incoming, bool twice) {
    TORCH_CHECK(
        call_, "graft: this backward needs the region's function to run again (",
        twice ? "create_graph is set" : "an operator of its plan gave up",
        "), and it cannot: it draws random numbers, changes its arguments in place, or takes "
        "arguments that cannot be kept. Call the function uncompiled.");
    std::vector<at::Tensor> arguments;
    for (const Saved& saved : arguments_) {
      if (saved.tensor.defined()) saved.check();
      arguments.push_back(saved.tensor);
    }
    for (const Saved& saved : captured_) saved.check();
    // The graph above the arguments is none of this backward's.
    std::vector<at::Tensor> inputs;
    std::vector<NodePointer> borders;
    for (size_t i = 0; i < leaves_.size(); ++i) {
      inputs.push_back(leaves_[i]);
      if (inputs.back().defined()) continue;
      at::Tensor& argument = arguments[static_cast<size_t>(region_->facts.inputs[i].index)];
      argument = argument.tensor_data();
      borders.push_back(make_border(argument, next_edge(i)));
      torch::autograd::impl::set_gradient_edge(argument, Edge(borders.back(), 0));
      inputs.back() = argument;
    }
    // The same tensor may be several arguments.
    for (size_t k = 0; k < arguments.size(); ++k) arguments[k] = arguments[first_[k]];
    const std::vector<at::Tensor> results = [&] {
      const ThreadModes::Scope as_then(modes_);
      const at::AutoGradMode differentiable(true);
      return call_->run(arguments.data());
    }();
    std::vector<at::Tensor> outputs, gradients;
    for (size_t p = 0; p < incoming.size(); ++p) {
      if (!incoming[p].defined()) continue;
      outputs.push_back(results.at(static_cast<size_t>(region_->facts.places[p])));
      gradients.push_back(incoming[p]);
    }
    const ClosedBorders closed(borders);
    const HookFree quiet(leaves_);
    const c10::InferenceMode normal(false);
    return torch::autograd::grad(outputs, inputs, gradients, /*retain_graph=*/twice,
                                 /*create_graph=*/twice, /*allow_unused=*/true);
  }

  const std::shared_ptr<const Region> region_;
  std::vector<Saved> arguments_, captured_, kept_;
  std::vector<size_t> first_;       ///< per argument: the first one that is the same tensor
  std::vector<at::Tensor> leaves_;  ///< per input: the captured leaf; undefined: an argument
  std::shared_ptr<detail::KeptCall> call_;
  const ThreadModes modes_;  ///< of the call
  bool released_ = false;
};

}  // namespace

void Feedback::note(IncomingLayouts came) {
  constexpr int kOften = 3;
  std::lock_guard lock(mutex_);
  if (ready()) return;
  times_ = came == seen_ ? times_ + 1 : 1;
  seen_ = std::move(came);
  if (times_ >= kOften) ready_.store(true, std::memory_order_release);
}

IncomingLayouts Feedback::seen() const {
  std::lock_guard lock(mutex_);
  return seen_;
}

BackwardArguments::BackwardArguments(const Region& region, std::vector<at::Tensor> arguments,
                                     std::vector<at::Tensor> incoming, const at::Tensor* kept)
    : tensors_(std::move(arguments)) {
  for (size_t p = 0; p < incoming.size(); ++p) {
    const View& layout = region.incoming[p];
    at::Tensor& gradient = incoming[p];
    if (!region.facts.comes[p]) continue;
    if (!gradient.defined() || gradient.strides() != c10::IntArrayRef(layout.strides)) {
      const at::Tensor fitting = at::empty_strided(layout.sizes, layout.strides, layout.dtype);
      gradient = gradient.defined() ? fitting.copy_(gradient) : fitting.zero_();
    }
    tensors_.push_back(gradient);
  }
  tensors_.insert(tensors_.end(), kept, kept + region.kept_of.size());
  for (const at::Tensor& tensor : tensors_) args_.tensors.push_back(&tensor);
}

void connect(std::shared_ptr<const Region> region, const detail::FlatArgs& args,
             const at::Tensor* captured, size_t captures, at::Tensor* results,
             std::shared_ptr<detail::KeptCall> call) {
  const std::vector<int>& places = region->facts.places;
  const NodePointer node =
      make_node<RegionNode>(region, args, captured, captures, results, std::move(call));
  for (int place : places) torch::autograd::set_history(results[place], node);
}

}  // namespace graft::runtime
