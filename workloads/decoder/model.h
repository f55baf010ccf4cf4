// A Llama or Qwen2 decoder as plain LibTorch code, with Hugging Face's numerics: RMS norms, rotary
// embeddings, causal grouped-query attention, SwiGLU. It runs whole, or a layer at a time with
// weights that the caller brings, and shows the inputs of each linear layer to an observer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/safetensors.h"
#include "workloads/decoder/config.h"

namespace graft::workloads::decoder {

struct LinearName;

/// The weights [out, in] of a layer's linear layers, their biases [out] (undefined if the model has
/// none), and the norms' weights [hidden], all of one floating type.
struct LayerWeights {
  at::Tensor q, q_bias, k, k_bias, v, v_bias, o, gate, up, down, input_norm, post_norm;
};

/// The weights before and after the layers.
struct OuterWeights {
  at::Tensor embedding;  ///< [vocabulary, hidden]
  at::Tensor norm;       ///< [hidden], after the last layer
  at::Tensor head;       ///< [vocabulary, hidden]; `embedding` itself where the two are tied
};

/// Called once for each of a layer's linear layers, in the order q_proj, k_proj, v_proj, o_proj,
/// gate_proj, up_proj, down_proj, before it runs. `inputs` is [tokens, columns]; it is the same
/// tensor for q, k and v, and for gate and up (see `LinearName::inputs` in names.h).
using Observer = std::function<void(std::string_view linear, const at::Tensor& inputs)>;

/// Runs one layer on hidden states [B, S, hidden] at positions 0 to S - 1; a new tensor of that
/// shape. Reads nothing on the host. Autograd passes through. Thread-safe.
at::Tensor layer_forward(const Config& config, const LayerWeights& weights,
                         const at::Tensor& hidden, const Observer& observe = {});

/// Token ids [B, S] (int64) → hidden states [B, S, hidden]. Throws std::invalid_argument for other
/// types, shapes and lengths, and for an id that is not in the vocabulary.
at::Tensor embed(const Config& config, const OuterWeights& weights, const at::Tensor& ids);

/// The final norm and the head: hidden states [B, S, hidden] → logits [B, S, vocabulary].
at::Tensor logits(const Config& config, const OuterWeights& weights, const at::Tensor& hidden);

/// A layer's weights from a checkpoint, converted to `dtype` and copied, so that they do not depend
/// on the file. Throws formats::SafetensorsError naming the tensor that is missing, has another
/// shape, or is not F64, F32, F16 or BF16.
LayerWeights read_layer(const Config& config, const formats::Safetensors& file, int64_t layer,
                        at::ScalarType dtype = at::kFloat);
/// Its biases and norms alone.
LayerWeights read_small_weights(const Config& config, const formats::Safetensors& file,
                                int64_t layer, at::ScalarType dtype = at::kFloat);
/// One linear layer's weight alone.
at::Tensor read_linear(const formats::Safetensors& file, const LinearName& name,
                       at::ScalarType dtype = at::kFloat);
OuterWeights read_outer(const Config& config, const formats::Safetensors& file,
                        at::ScalarType dtype = at::kFloat);

/// A whole model in memory. Its members may be changed, for instance to replace weights by
/// quantised ones. Thread-safe while nobody changes them.
struct Decoder {
  Config config;
  OuterWeights outer;
  std::vector<LayerWeights> layers;  ///< config.layers of them

  /// Reads `config.json` and the safetensors in `folder`, to compute in `dtype`. Throws
  /// std::runtime_error (formats::SafetensorsError for the weights).
  static Decoder read(const std::filesystem::path& folder, at::ScalarType dtype = at::kFloat);

  /// Token ids [B, S] (int64) → logits [B, S, vocabulary].
  at::Tensor forward(const at::Tensor& ids) const;
};

/// Token ids [B, S] (int64) → logits [B, S, vocabulary]: a decoder's, or what stands for it.
struct Forward {
  std::function<at::Tensor(const at::Tensor& ids)> logits;
  int64_t positions = 0;  ///< the longest sequence

  Forward(std::function<at::Tensor(const at::Tensor& ids)> function, int64_t longest)
      : logits(std::move(function)), positions(longest) {}
  Forward(const Decoder& decoder)  // NOLINT: which must outlive it
      : Forward([&decoder](const at::Tensor& ids) { return decoder.forward(ids); },
                decoder.config.positions) {}
};

/// Continues a prompt of ids [S] by `count` tokens, each the most likely one (the first of equals).
/// Returns the new ids [count]. It has no cache: each token runs the whole sequence. Throws
/// std::invalid_argument for an empty prompt, or if the sequence becomes longer than the model's
/// positions.
at::Tensor greedy(const Forward& forward, const at::Tensor& prompt, int64_t count);

/// exp of the mean negative log likelihood of ids [N]. The ids are cut into windows of `window`
/// tokens (0: the longest sequence, 512 at most), the last one shorter; every token but a window's
/// first is scored. Throws std::invalid_argument for fewer than two ids.
double perplexity(const Forward& forward, const at::Tensor& ids, int64_t window = 0);

}  // namespace graft::workloads::decoder
