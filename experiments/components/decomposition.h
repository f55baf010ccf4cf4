// A decomposition that is trained: the linear layers of a small decoder become masked components.
#pragma once

#include <cstdint>

#include "experiments/frame/experiment.h"

namespace graft::experiments {

struct DecompositionSizes {
  int64_t layers = 4, hidden = 128, intermediate = 344;
  int64_t tokens = 1024, parts = 160;
  int64_t training = 200;  ///< steps that train the decoder
  int64_t steps = 60;      ///< that train components and masks
};

/// Trains a byte-level decoder on installed texts, then V, U and a mask for each of its linear
/// layers until ((x V) mask) U is what the layer gives, eagerly and compiled from the same start.
/// Losses are compared step by step.
lab::Section decomposition(const DecompositionSizes& sizes, const Settings& settings,
                           const Say& say);

}  // namespace graft::experiments
