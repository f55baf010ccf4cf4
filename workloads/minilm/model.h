// all-MiniLM-L6-v2, a sentence encoder with real pretrained weights, as plain LibTorch code: a BERT
// of 6 layers, mean pooling, unit vectors. The parts that are functions of tensors alone
// (regions.h) can each be compiled.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <vector>

#include "workloads/minilm/regions.h"

namespace graft::workloads::minilm {

struct Config {
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t layers = 0;
  int64_t intermediate = 0;
  int64_t vocabulary = 0;
  int64_t positions = 0;
  int64_t token_types = 0;
  double eps = 0;  ///< of the layer norms

  /// Reads a Hugging Face `config.json`. Throws std::runtime_error naming the file and the key that
  /// is missing, out of range, or asks for another architecture.
  static Config read(const std::filesystem::path& file);
};

struct Layer {
  Linear query, key, value, output, up, down;
  Norm attention_norm, output_norm;
};

class MiniLM {
 public:
  /// Reads `config.json` and the safetensors in `folder`. Throws std::runtime_error
  /// (SafetensorsError for the weights).
  explicit MiniLM(const std::filesystem::path& folder);

  /// Embeds token ids [B, S] (int64) under a mask [B, S] (int64, 1 = a token, 0 = padding) as unit
  /// vectors [B, hidden]. Reads no data on the host, so the whole call is one that graft::compile
  /// can take.
  at::Tensor encode(const at::Tensor& ids, const at::Tensor& mask, const Regions& regions) const;

  /// A copy with weights of another dtype.
  MiniLM to(at::ScalarType dtype) const;

  const Config& config() const { return config_; }
  const Layer& layer(size_t i) const { return layers_.at(i); }

  // The stages of encode, for measuring one alone.
  at::Tensor embed(const at::Tensor& ids, const Regions& regions) const;
  /// The bias that attention adds to its scores: 0 for a token, the lowest float for padding;
  /// [B, 1, 1, S].
  static at::Tensor attention_bias(const at::Tensor& mask);
  at::Tensor attend(const Layer& layer, const at::Tensor& hidden, const at::Tensor& bias,
                    const Regions& regions) const;

 private:
  Config config_;
  at::Tensor words_, positions_, types_;
  Norm embedding_norm_;
  std::vector<Layer> layers_;
};

/// The folder with the model: $GRAFT_MINILM_DIR, else the folder set when this was built, else
/// where tools/setup.sh puts it. The folder need not exist.
std::filesystem::path default_folder();

}  // namespace graft::workloads::minilm
