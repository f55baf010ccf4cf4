// One pass of the GPTQ experiment over a scenario's layers, with the time of each part.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "lab/progress.h"
#include "quantizer/experiment/scenario.h"
#include "quantizer/model/layer.h"

namespace graft::cli {

struct GptqLayerTime {
  std::string name, kind;
  int64_t rows = 0, columns = 0;
  quantizer::LayerTimes times;
  double hessian_ms = 0;  ///< at the first of the layers that share a Hessian; 0 at the others
  double loss = 0;
};

struct GptqPass {
  std::vector<GptqLayerTime> layers;

  double total_ms() const;  ///< quantising, without the Hessians
  double hessian_ms() const;
  /// Quantising, without the Cholesky factors and the matmuls between blocks.
  double outside_ms() const;
};
nlohmann::json to_json(const GptqPass& pass);

/// Statistics over passes with equal layers: of whole passes, and one row per kind of layer with
/// the mean milliseconds of one layer of that kind.
nlohmann::json gptq_statistics(std::span<const GptqPass> passes);

/// Called with each layer's result.
using OnGptqResult =
    std::function<void(const GptqLinear& linear, const quantizer::LayerResult& result)>;

/// The argument for a scenario's run(): quantises each group, adds its layers to `pass` and tells
/// `progress` how much is done. The references must outlive it.
QuantiseGroup gptq_quantiser(const GptqScenario& scenario, const quantizer::QuantizeBlock& process,
                             lab::Progress& progress, GptqPass& pass, OnGptqResult on_result = {});

/// Runs a whole pass, as one step of `progress`.
GptqPass run_gptq_pass(const GptqScenario& scenario, const std::string& label,
                       const quantizer::QuantizeBlock& process, lab::Progress& progress,
                       OnGptqResult on_result = {});

}  // namespace graft::cli
