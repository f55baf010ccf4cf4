// What each layer of a chain takes: time to compute again, and bytes that are kept for backward.
#pragma once

#include <vector>

#include "graft/systems/checkpointing.h"

namespace graft::systems::checkpointing {

/// Runs each layer six times, with the generator set back each time: the layers see it as it was.
std::vector<LayerCost> measure_layers(const std::vector<CheckpointedLayers::Layer>& layers,
                                      const at::Tensor& input);

}  // namespace graft::systems::checkpointing
