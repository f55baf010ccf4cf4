// Trains the small decoder of tiny.h from random weights: batches of random windows of a text,
// AdamW, ATen's autograd.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lab/progress.h"
#include "workloads/decoder/model.h"
#include "workloads/decoder/tiny.h"

namespace graft::workloads::decoder {

/// A decoder with random weights, without biases, whose head is not tied to the embedding.
Decoder random_decoder(const Config& config, const at::Generator& generator);

/// Every weight of such a decoder with Hugging Face's name for it.
std::vector<std::pair<std::string, at::Tensor>> named(const Decoder& decoder);

/// How many steps `train` begins in its progress.
int64_t report_count(const TinySettings& settings);

/// Trains the decoder's weights in place on a text of ids [N] (int64). `progress` may be nullptr.
/// Returns the loss of each step, in nats per token. Throws std::runtime_error if one is not
/// finite.
std::vector<double> train(Decoder& decoder, const TinySettings& settings, const at::Tensor& text,
                          const at::Generator& generator, lab::Progress* progress);

}  // namespace graft::workloads::decoder
