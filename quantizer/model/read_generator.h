// Reads a decoder to generate with: a Llama or Qwen2 checkpoint of plain weights, or what
// `graft quantize` made of one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>

#include "workloads/decoder/session.h"

namespace graft::quantizer {

struct GeneratorOptions {
  at::ScalarType dtype = at::kFloat;  ///< of activations, and of weights that are no codes
  /// 4 or 8: plain weights, the head's among them, become their nearest codes; 0: they stay.
  int bits = 0;
  /// Columns that share a scale, at most: of a layer whose columns it does not divide, the largest
  /// divisor below.
  int64_t group = 128;
};

/// Quantised weights keep their codes. Throws std::runtime_error naming the file (GptqError or
/// formats::SafetensorsError for what does not fit in it).
workloads::decoder::Generator read_generator(const std::filesystem::path& folder,
                                             const GeneratorOptions& options = {});

}  // namespace graft::quantizer
