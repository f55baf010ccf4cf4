// Tiny random checkpoints of the architectures that the quantiser knows, for tests.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace graft::test {

/// A model's folder before it is written, for a test to damage.
struct TinyCheckpoint {
  nlohmann::json config;
  std::map<std::string, at::Tensor> tensors;

  /// hidden 32, 2 heads, intermediate 64, 3 layers, vocabulary of 50 words with a vocab.txt.
  static TinyCheckpoint bert();
  /// hidden 32, 4 heads, 2 key-value heads, intermediate 64, 3 layers, bf16, vocabulary of 256.
  static TinyCheckpoint qwen2();

  /// Writes config.json, model.safetensors or that many shards with an index, and, for a BERT, a
  /// vocab.txt.
  void write(const std::filesystem::path& folder, int shards = 1) const;
};

}  // namespace graft::test
