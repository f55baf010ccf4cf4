// GPTQ for a whole model: from a checkpoint to one in compressed-tensors' `pack-quantized` format.
// It works one layer at a time, so that only about one layer and the activations are in memory.
#pragma once

#include <graft/graft.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "quantizer/model/calibration.h"
#include "quantizer/model/layer.h"
#include "quantizer/model/memory_need.h"
#include "quantizer/model/workspace.h"

namespace graft::quantizer {

struct QuantizeOptions {
  std::filesystem::path model;  ///< folder with config.json and safetensors
  std::filesystem::path out;    ///< a new folder, or one with an interrupted run
  Settings settings;
  std::string targets;  ///< regular expression searched in module names; empty: all linear layers
  CalibrationOptions calibration;
  bool compiled = true;  ///< run quantize_block through graft::compile rather than eagerly
  /// Bytes that may be used; -1: what the system has. A model that needs more is an error at once.
  int64_t available_memory = -1;
  /// Called before the work begins, with what a user should know. May be empty.
  std::function<void(const std::string& text)> warning;
  /// Called often with the current layer, the part of it that is done, 0 to 1, and what is being
  /// done. Before the first layer it tells which part of the weights is checked; after the last
  /// one, `layer` is the number of layers. May be empty.
  std::function<void(int64_t layer, double done, const std::string& what)> progress;
  /// Called when a layer is finished and on the disk. An exception from it ends the run, which can
  /// be resumed. May be empty.
  std::function<void(const LayerReport&, int64_t layers)> layer_done;
};

/// How close the quantised model's results (Architecture::vectors) are to the original's, on some
/// of the calibration samples.
struct Similarity {
  int64_t vectors = 0;
  double mean = 0, least = 0;  ///< cosine similarity
};

struct QuantizeReport {
  std::string architecture;
  std::vector<LayerReport> layers;
  int64_t source_bytes = 0;                             ///< of all tensors
  int64_t bytes = 0;                                    ///< of all tensors that were written
  int64_t linears_source_bytes = 0, linears_bytes = 0;  ///< of what was quantised, before and after
  int64_t samples = 0, tokens = 0;
  std::string calibration;
  std::vector<std::string> warnings;
  Similarity similarity;
  MemoryNeed memory;
  double seconds = 0;
  std::optional<Report> compiled;  ///< what graft::compile did; empty when eager

  double loss() const;
};
nlohmann::json to_json(const QuantizeReport& report);

/// No file gets its final name before every layer is done. When a run ends early, for whatever
/// reason, finished layers stay in `out/.graft-quantize`, and an equal call continues from there
/// with the same results. Throws std::runtime_error (GptqError, formats::SafetensorsError) naming
/// the tensor or file, what is wrong, and what to do.
QuantizeReport quantize_model(const QuantizeOptions& options);

}  // namespace graft::quantizer
