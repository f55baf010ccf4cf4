// Whether GPTQ with a compiled block gives the same layers, and the same model, as without.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

#include "lab/progress.h"
#include "quantizer/experiment/scenario.h"

namespace graft::cli {

/// Each layer quantised both ways, twice with the compiled block, and compared bit for bit. Of
/// tiny-decoder also two whole models: their logits, tokens and perplexities. Compiled code runs
/// here even where it is no faster. `passed`: nothing differs, and compiled code did run; otherwise
/// `where` says what differs first, layer by layer.
nlohmann::json check_gptq_numerics(const GptqChoice& choice, const GptqScenario& scenario,
                                   lab::Progress& progress);
constexpr size_t gptq_numerics_steps(bool decoder) {
  return decoder ? 3 : 1;
}

}  // namespace graft::cli
