// The GPTQ experiment on a language model: a small decoder trained here on real text, and what two
// quantised versions of it say.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "quantizer/experiment/scenario.h"
#include "workloads/decoder/model.h"

namespace graft::cli {

/// Trains the decoder of `choice` into choice.model, unless it is there. Minutes, with progress on
/// stderr.
void prepare_decoder(const GptqChoice& choice);

/// Logits and greedy tokens of the two quantised models on held-out text, each against the other
/// and against the original model, and the three perplexities.
nlohmann::json compare_decoders(const GptqChoice& choice, const workloads::decoder::Decoder& eager,
                                const workloads::decoder::Decoder& compiled);

}  // namespace graft::cli
