#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "graft/systems/checkpointing.h"
#include "systems/checkpoint/measure.h"

namespace graft::systems {

using at::Tensor;

CheckpointedLayers::CheckpointedLayers(std::vector<Layer> layers, Policy policy)
    : layers_(std::move(layers)), policy_(policy) {
  TORCH_CHECK_VALUE(!layers_.empty(), "CheckpointedLayers were given no layers");
  for (size_t i = 0; i < layers_.size(); ++i)
    TORCH_CHECK_VALUE(layers_[i] != nullptr, "layer ", i, " of CheckpointedLayers is empty");
  TORCH_CHECK_VALUE(policy_.kind != Policy::Kind::Segments || policy_.segment > 0, "Policy::every(",
                    policy_.segment, "): a segment has at least 1 layer");
  TORCH_CHECK_VALUE(policy_.kind != Policy::Kind::Budget || policy_.bytes > 0, "Policy::budget(",
                    policy_.bytes, "): the budget must be positive");
  if (policy_.kind == Policy::Kind::Budget) return;
  choice_.assign(layers_.size(), policy_.kind == Policy::Kind::Nothing ? Recompute::Nothing
                                 : policy_.kind == Policy::Kind::Segments
                                     ? Recompute::Everything
                                     : Recompute::CheapOperators);
}

Tensor CheckpointedLayers::operator()(const Tensor& input) {
  if (policy_.kind == Policy::Kind::Budget && c10::GradMode::is_enabled() &&
      input.sizes() != at::IntArrayRef(measured_sizes_))
    measure(input);
  const bool plain = choice_.empty();  // no gradients were asked for yet
  const auto length =
      static_cast<size_t>(policy_.kind == Policy::Kind::Segments ? policy_.segment : 1);
  Tensor x = input;
  for (size_t begin = 0; begin < layers_.size(); begin += length) {
    // The graph may outlive this object: the function has layers of its own.
    std::vector<Layer> part(
        layers_.begin() + static_cast<ptrdiff_t>(begin),
        layers_.begin() + static_cast<ptrdiff_t>(std::min(begin + length, layers_.size())));
    x = checkpoint(
        plain ? Recompute::Nothing : choice_[begin],
        [part = std::move(part)](const Tensor& in) {
          Tensor out = in;
          for (const Layer& layer : part) out = layer(out);
          return out;
        },
        x);
  }
  return x;
}

void CheckpointedLayers::measure(const Tensor& input) {
  costs_ = checkpointing::measure_layers(layers_, input);
  choice_ = choose_recompute(costs_, policy_.bytes);
  measured_sizes_ = input.sizes().vec();
}

}  // namespace graft::systems
