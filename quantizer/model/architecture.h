// What the quantiser needs to know about a model: its linear layers by name, and how to run it one
// layer at a time. BERT-like encoders and Llama/Qwen2-like decoders.
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

namespace graft::quantizer {

/// One linear layer that may be quantised.
struct LinearSpec {
  std::string module;  ///< "model.layers.3.self_attn.k_proj": its weight's name without ".weight"
  std::string key;     ///< "k_proj": the name that an Observer gets
  std::string inputs;  ///< the key of the first linear layer with the same inputs
  int64_t rows = 0, columns = 0;
};

/// Gets each linear layer's inputs [tokens, columns] before it runs.
using Observer = std::function<void(std::string_view key, const at::Tensor& inputs)>;

/// One layer's weights in memory, as fp32.
class Layer {
 public:
  virtual ~Layer() = default;
  /// Hidden states before the layer → those after it, both [B, S, hidden].
  virtual at::Tensor forward(const at::Tensor& hidden, const Observer& observe) const = 0;
  /// A linear layer's weight, which may be replaced. Throws std::invalid_argument for an unknown
  /// key.
  virtual at::Tensor& weight(std::string_view key) = 0;
};

class Architecture {
 public:
  virtual ~Architecture() = default;

  std::string type;  ///< model_type of config.json
  int64_t layers = 0, hidden = 0, intermediate = 0, heads = 0, vocabulary = 0;
  int64_t positions = 0;         ///< longest sequence
  int64_t usual_sequence = 512;  ///< default length of calibration samples
  bool word_piece = false;       ///< ids are those of BERT's tokenizer, with a vocab.txt

  /// "encoder.layer.3.": the prefix of the names of that layer's tensors.
  virtual std::string prefix(int64_t layer) const = 0;
  virtual std::vector<LinearSpec> linears(int64_t layer) const = 0;
  /// The names, without the prefix, of a layer's tensors other than the weights of its `linears`.
  virtual std::vector<std::string> other_tensors() const = 0;
  /// The linear layers that are not in `linears`; a reader must be told that they are not
  /// quantised.
  virtual std::vector<std::string> other_linears() const = 0;
  /// Token ids [B, S] (int64) → fp32 hidden states [B, S, hidden]. Reads only the rows of the
  /// embedding that occur.
  virtual at::Tensor embed(const Checkpoint& checkpoint, const at::Tensor& ids) const = 0;
  virtual std::unique_ptr<Layer> read_layer(const formats::Safetensors& tensors,
                                            int64_t layer) const = 0;
  /// The vectors [N, n] by which two models are compared, from the last hidden states: each
  /// sentence's embedding for an encoder, each token's hidden state for a decoder.
  virtual at::Tensor vectors(const at::Tensor& hidden) const = 0;
};

/// Reads `config.json` beside the checkpoint and checks that the two match: every linear layer is
/// there with its shape and a floating type, and every layer has exactly the tensors that running
/// it uses, with the shapes of the first layer. Throws std::runtime_error saying what came, for an
/// unknown architecture, a model that is already quantised, or missing tensors.
std::unique_ptr<Architecture> read_architecture(const Checkpoint& checkpoint);

/// The two architectures; read_architecture selects one.
std::unique_ptr<Architecture> make_bert(const Checkpoint& checkpoint);
std::unique_ptr<Architecture> make_decoder(const Checkpoint& checkpoint);

}  // namespace graft::quantizer
