// How the small decoder of tiny.h is trained: random weights, batches of random windows of a text,
// AdamW, with ATen's autograd.
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

/// A decoder without biases, with a head of its own, and with random weights.
Decoder random_decoder(const Config& config, const at::Generator& generator);

/// Every weight of such a decoder under the name that Hugging Face gives it.
std::vector<std::pair<std::string, at::Tensor>> named(const Decoder& decoder);

/// How many steps `train` reports to its progress.
int64_t report_count(const TinySettings& settings);

/// Trains the decoder's weights in place on a text of ids [N] (int64). `progress` may be nullptr.
/// Returns the loss of each step, in nats a token. Throws std::runtime_error if one is not finite.
std::vector<double> train(Decoder& decoder, const TinySettings& settings, const at::Tensor& text,
                          const at::Generator& generator, lab::Progress* progress);

}  // namespace graft::workloads::decoder
