// GPTQ for a whole model: a checkpoint in, a checkpoint in compressed-tensors' `pack-quantized`
// form out, a layer at a time, so that memory stays at about one layer and the activations.
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

namespace graft::workloads::gptq {

struct QuantizeOptions {
  std::filesystem::path model;  ///< folder with config.json and safetensors
  std::filesystem::path out;    ///< a new folder, or one with a run that was cut short
  Settings settings;
  std::string targets;  ///< regular expression searched in module names; empty: all linear layers
  CalibrationOptions calibration;
  bool compiled = true;  ///< quantize_block through graft::compile, rather than eagerly
  /// Bytes that may be taken; -1: what the system has. More than that is an error ahead.
  int64_t available_memory = -1;
  /// Called before the work begins, with what a user should know. May be empty.
  std::function<void(const std::string& text)> warning;
  /// Called often: the layer at hand (the number of layers: what comes after them), the part of it
  /// that is done, 0 to 1, and what is being done. Before the first layer also the part of the
  /// weights that has been checked. May be empty.
  std::function<void(int64_t layer, double done, const std::string& what)> progress;
  /// Called when a layer is finished and on the disk. What it throws ends the run, which can be
  /// taken up again. May be empty.
  std::function<void(const LayerReport&, int64_t layers)> layer_done;
};

/// How near the quantised model's results (Architecture::vectors) are to the original's, on some of
/// the calibration samples.
struct Similarity {
  int64_t vectors = 0;
  double mean = 0, least = 0;  ///< cosine
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

/// Nothing is written under a final name before every layer is done; what is done stays in
/// `out/.graft-quantize` when a run ends early, for whatever reason, and an equal call goes on from
/// there with the same results. Throws std::runtime_error (GptqError, lab::SafetensorsError) saying
/// which tensor or file, what is wrong, and what to do.
QuantizeReport quantize_model(const QuantizeOptions& options);

}  // namespace graft::workloads::gptq
