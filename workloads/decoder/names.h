// The linear layers of a decoder that a quantiser may replace, with Hugging Face's names for their
// tensors, in the order in which the model runs them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/decoder/model.h"

namespace graft::workloads::decoder {

struct LinearName {
  std::string tensor;       ///< "model.layers.3.self_attn.k_proj.weight"
  int64_t layer = 0;        ///< 3
  std::string_view linear;  ///< "k_proj": the name that an Observer gets
  /// The first linear layer that reads the same inputs, so that one Hessian serves all of them:
  /// "q_proj" of k_proj, "gate_proj" of up_proj, else itself.
  std::string_view inputs;
  int64_t rows = 0, columns = 0;  ///< of the weight: out and in features

  /// "model.layers.3.self_attn.k_proj": the tensor without ".weight", as quantised checkpoints name
  /// what belongs to it.
  std::string module() const;
};

/// The seven linear layers of one layer: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj,
/// down_proj. Embeddings, norms and the head are not among them. `layer` may be any number from 0.
std::vector<LinearName> layer_linears(const Config& config, int64_t layer);

/// Those of all layers, in order.
std::vector<LinearName> linears(const Config& config);

/// The member for that linear layer. Throws std::invalid_argument for any other name.
at::Tensor& weight_of(LayerWeights& weights, std::string_view linear);
const at::Tensor& weight_of(const LayerWeights& weights, std::string_view linear);

}  // namespace graft::workloads::decoder
