// What the GPTQ experiment quantises: linear layers with their calibration inputs, in the order in
// which a quantiser meets them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "quantizer/model/layer.h"
#include "workloads/decoder/model.h"

namespace graft::cli {

/// Selects a scenario. Equal values give equal tensors, in any process.
struct GptqChoice {
  std::string scenario;
  int64_t layers = 0;  ///< of the model; 0: the scenario's default
  int64_t tokens = 0;  ///< about how many for calibration; 0: the scenario's default
  uint64_t seed = 0;
  bool small = false;           ///< tiny sizes: to try the command
  std::filesystem::path model;  ///< folder of MiniLM, or of the small decoder
};
nlohmann::json to_json(const GptqChoice& choice);
GptqChoice gptq_choice_from(const nlohmann::json& json);

struct GptqLinear {
  std::string name;  ///< "model.layers.0.self_attn.q_proj"
  std::string kind;  ///< its row in tables: "q/o"
  at::Tensor weight;
};

/// Linear layers that read the same inputs, so that one Hessian serves them.
struct GptqGroup {
  at::Tensor inputs;  ///< [tokens, columns]
  std::vector<GptqLinear> linears;
};

/// Returns the quantised weights of the group's linears.
using QuantiseGroup = std::function<std::vector<at::Tensor>(const GptqGroup& group)>;

struct GptqScenario {
  std::string name;
  std::string about;  ///< one line: shapes, weights, calibration inputs
  quantizer::Settings settings;
  int64_t layers = 0;  ///< of the model
  int64_t linears = 0;
  double work = 0;  ///< sum of work_of over its linears
  /// Calls `quantise` with each group once. In a scenario with random weights, only one group is in
  /// memory at a time.
  std::function<void(const QuantiseGroup& quantise)> run;
  /// The same, and returns the model with its quantised weights: only for tiny-decoder.
  std::function<workloads::decoder::Decoder(const QuantiseGroup& quantise)> run_decoder;
};

/// The names that --scenario takes.
const std::vector<std::string>& gptq_scenarios();

/// The choice with the scenario's defaults where no numbers and folder were given (except
/// tiny-decoder's folder). Throws std::runtime_error naming what is missing or does not apply.
GptqChoice resolved(GptqChoice choice);

/// `choice` must be resolved.
GptqScenario make_gptq_scenario(const GptqChoice& choice);

/// An estimate of the operations of quantising a linear layer [rows, columns], to forecast times.
double work_of(int64_t rows, int64_t columns);

/// A scenario on the small decoder (decoder.cpp).
GptqScenario decoder_scenario(const GptqChoice& choice);

}  // namespace graft::cli
