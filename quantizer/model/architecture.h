// What the quantiser needs to know of a model: its linear layers by name, and how to run it a layer
// at a time. BERT-like encoders and Llama/Qwen2-like decoders.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/safetensors.h"
#include "quantizer/model/checkpoint.h"

namespace graft::workloads::gptq {

/// One linear layer that may be quantised.
struct LinearSpec {
  std::string module;  ///< "model.layers.3.self_attn.k_proj": its tensors' names, less ".weight"
  std::string key;     ///< "k_proj": what an Observer is told
  std::string inputs;  ///< the key of the first linear layer with the same inputs
  int64_t rows = 0, columns = 0;
};

/// Told each linear layer's inputs [tokens, columns] before it runs.
using Observer = std::function<void(std::string_view key, const at::Tensor& inputs)>;

/// One layer's weights in memory, as fp32.
class Layer {
 public:
  virtual ~Layer() = default;
  /// Hidden states [B, S, hidden] → those after the layer.
  virtual at::Tensor forward(const at::Tensor& hidden, const Observer& observe) const = 0;
  /// May be replaced. Throws std::invalid_argument for an unknown key.
  virtual at::Tensor& weight(std::string_view key) = 0;
};

class Architecture {
 public:
  virtual ~Architecture() = default;

  std::string type;  ///< model_type of config.json
  int64_t layers = 0, hidden = 0, intermediate = 0, heads = 0, vocabulary = 0;
  int64_t positions = 0;         ///< longest sequence
  int64_t usual_sequence = 512;  ///< of calibration samples, where none is asked for
  bool word_piece = false;       ///< ids are those of BERT's tokenizer, with a vocab.txt

  /// "encoder.layer.3.": what all tensors of that layer begin with.
  virtual std::string prefix(int64_t layer) const = 0;
  virtual std::vector<LinearSpec> linears(int64_t layer) const = 0;
  /// The names, less a layer's prefix, of what a layer holds beside its `linears`' weights.
  virtual std::vector<std::string> other_tensors() const = 0;
  /// Linear layers outside of `linears`, which a reader must be told to leave alone.
  virtual std::vector<std::string> other_linears() const = 0;
  /// Token ids [B, S] (int64) → fp32 hidden states [B, S, hidden]. Looks at the rows that are asked
  /// for, not at the whole table.
  virtual at::Tensor embed(const Checkpoint& checkpoint, const at::Tensor& ids) const = 0;
  virtual std::unique_ptr<Layer> read_layer(const lab::Safetensors& tensors,
                                            int64_t layer) const = 0;
  /// What the model is used for, out of the last hidden states: vectors [N, n] to compare. A
  /// sentence's embedding for an encoder, each token's hidden state for a decoder.
  virtual at::Tensor vectors(const at::Tensor& hidden) const = 0;
};

/// Reads `config.json` beside the checkpoint and checks that it fits it: every linear layer is
/// there with its shape and a floating type, and every layer has the tensors that it is run with,
/// of the first one's shapes, and no others, which running it would leave out. Throws
/// std::runtime_error saying what came, for an architecture that is not known, a model that is
/// quantised already, or tensors that are missing.
std::unique_ptr<Architecture> read_architecture(const Checkpoint& checkpoint);

/// The two, for read_architecture alone.
std::unique_ptr<Architecture> make_bert(const Checkpoint& checkpoint);
std::unique_ptr<Architecture> make_decoder(const Checkpoint& checkpoint);

}  // namespace graft::workloads::gptq
