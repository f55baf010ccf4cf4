// Does GPTQ with a compiled block give the same layers, and the same model, as without?
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

#include "lab/progress.h"
#include "quantizer/experiment/scenario.h"

namespace graft::cli {

/// Quantises each layer eagerly and twice with the compiled block, and compares the results bit for
/// bit. For tiny-decoder it also compares the two whole models: logits, tokens and perplexities.
/// Compiled code runs here even if it is not faster. `passed`: nothing differs and compiled code
/// did run; otherwise `where` says what differs first, layer by layer.
nlohmann::json check_gptq_numerics(const GptqChoice& choice, const GptqScenario& scenario,
                                   lab::Progress& progress);
constexpr size_t gptq_numerics_steps(bool decoder) {
  return decoder ? 3 : 1;
}

}  // namespace graft::cli
