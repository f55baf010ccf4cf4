// The parts of `graft lm`, each of which makes a section of its report.
#pragma once

#include <filesystem>

#include "experiments/frame/experiment.h"

namespace graft::experiments::language_model {

/// Mean times of ten steps after none, one and five warm-up steps, eager and compiled.
lab::Section warm_up(const Config& config, const Settings& settings, const Say& say);
/// Operators of a step by range: forward, its attention, backward, optimizer; eager.
lab::Section kernels(const Config& config, const Settings& settings, const Say& say);
/// Live memory over a step, eager and compiled, and the largest allocations with their origin.
lab::Section memory(const Config& config, const Settings& settings, const Say& say);
/// Adding 0.01 a thousand times in fp32, fp16 and both.
lab::Section accumulation();
/// Which dtype autocast gives each part of a training step.
lab::Section autocast_dtypes();

struct LearningSizes {
  int64_t layers = 4, width = 128, heads = 4, context = 128, batch = 16, steps = 240;
};
/// Trains on bytes of installed texts, eagerly and compiled from one start: losses of both, the
/// validation loss, and a run that is stopped at half, read from its checkpoint, and goes on.
/// `checkpoints`: the folder for these; empty: a temporary one that is removed.
lab::Section learning(const LearningSizes& sizes, const std::filesystem::path& checkpoints,
                      const Settings& settings, const Say& say);

}  // namespace graft::experiments::language_model
