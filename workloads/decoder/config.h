// The configuration of a Llama or Qwen2 decoder, read from a Hugging Face config.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace graft::workloads::decoder {

/// How rotary frequencies are scaled for sequences longer than those of training.
struct RopeScaling {
  enum class Kind { None, Linear, Llama3 };
  Kind kind = Kind::None;
  double factor = 1;
  // Llama3 only: frequencies with wavelengths above positions / low_factor are divided by `factor`,
  // those with wavelengths below positions / high_factor are kept, and those between are blended.
  double low_factor = 1, high_factor = 4;
  int64_t positions = 0;  ///< the longest sequence of training, before scaling
};

struct Config {
  std::string model_type;  ///< "llama" or "qwen2"
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  ///< divides heads
  int64_t head_dim = 0;  ///< even; heads * head_dim need not be hidden
  int64_t intermediate = 0;
  int64_t vocabulary = 0;
  int64_t positions = 0;  ///< longest sequence
  double eps = 0;         ///< of the RMS norms
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  bool tie_embeddings = false;  ///< the head is the word embeddings
  bool qkv_bias = false;        ///< Qwen2
  bool quantized = false;       ///< the file has a quantization_config

  /// Reads a `config.json` as transformers 4 and 5 write it. Keys for which transformers has a
  /// default may be missing. Throws std::runtime_error naming the file and the key that is missing,
  /// out of range, or asks for what this model does not support.
  static Config read(const std::filesystem::path& file);
};

}  // namespace graft::workloads::decoder
