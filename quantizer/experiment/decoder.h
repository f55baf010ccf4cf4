// The GPTQ experiment on a language model: trains a small decoder on real text, and compares two
// quantised versions of it.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "quantizer/experiment/scenario.h"
#include "workloads/decoder/model.h"

namespace graft::cli {

/// Trains the decoder of `choice` and saves it in the folder choice.model, unless it is there.
/// Takes minutes, with progress on stderr.
void prepare_decoder(const GptqChoice& choice);

/// Compares logits and greedy tokens of the two quantised models on held-out text, with each other
/// and with the original model, and gives the perplexities of all three.
nlohmann::json compare_decoders(const GptqChoice& choice, const workloads::decoder::Decoder& eager,
                                const workloads::decoder::Decoder& compiled);

}  // namespace graft::cli
