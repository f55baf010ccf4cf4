// A decoder that generates: keys and values of earlier tokens are kept, so that a token costs one
// run over the weights, which may be codes of few bits (weight.h). Eager, or compiled by Graft.
#pragma once

#include <ATen/core/Tensor.h>
#include <graft/graft.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "workloads/decoder/model.h"
#include "workloads/decoder/weight.h"

namespace graft::workloads::decoder {

/// One layer.
struct Layer {
  Weight q, k, v, o, gate, up, down;
  at::Tensor input_norm, post_norm;  ///< [hidden]

  /// In the order of layer_linears() (names.h).
  std::array<Weight*, 7> weights() { return {&q, &k, &v, &o, &gate, &up, &down}; }
  std::array<const Weight*, 7> weights() const { return {&q, &k, &v, &o, &gate, &up, &down}; }
  /// Every tensor that is there, in one order.
  std::vector<at::Tensor> tensors() const;
  /// A layer of the same forms with these in place of its own.
  Layer with(const std::vector<at::Tensor>& tensors) const;
  int64_t bytes() const;
};
Layer layer_of(const LayerWeights& weights);

/// Immutable once made; sessions share it.
struct Generator {
  Config config;
  at::Tensor embedding;  ///< [vocabulary, hidden]
  at::Tensor norm;       ///< [hidden]
  Weight head;
  std::vector<Layer> layers;

  int64_t bytes_per_token() const;  ///< of weights: the layers, the norm and the head
};

/// One layer on tokens that stand at `positions` (int64 [T]): hidden states [T, hidden] → a new
/// tensor of that shape. Writes the tokens' keys and values into `keys` and `values`
/// [kv_heads, S, head_dim] at their positions, which must be below S, and reads those of all
/// positions up to each token's own. `cos`, `sin`: rotations() of at least S positions.
at::Tensor layer_step(const Config& config, const Layer& layer, const at::Tensor& hidden,
                      const at::Tensor& positions, const at::Tensor& cos, const at::Tensor& sin,
                      const at::Tensor& keys, const at::Tensor& values);

/// One sequence. Not thread-safe.
class Session {
 public:
  /// For at most `capacity` tokens. `compiled`: single tokens run through Graft; else all eagerly.
  /// Throws std::invalid_argument if the model has fewer positions.
  Session(std::shared_ptr<const Generator> model, int64_t capacity, bool compiled = true);

  /// Puts ids (int64 [T]) behind those before; the logits [vocabulary] after the last. Throws
  /// std::invalid_argument for another type or shape, an id that is not in the vocabulary, and
  /// more tokens than fit.
  at::Tensor feed(const at::Tensor& ids);

  int64_t length() const { return length_; }  ///< tokens so far
  void clear();                               ///< a new sequence; what is compiled stays
  void wait() const;                          ///< until what is being compiled is
  /// Of the compiled functions: "layer", or "layer form 1" and so on where layers differ in what
  /// their weights are, and "head".
  std::map<std::string, Report> reports() const;

 private:
  using Step = Compiled<std::function<at::Tensor(
      const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
      const at::Tensor&, const std::vector<at::Tensor>&)>>;
  using Head = Compiled<std::function<at::Tensor(const at::Tensor&)>>;

  at::Tensor run(const at::Tensor& ids);

  std::shared_ptr<const Generator> model_;
  int64_t capacity_, length_ = 0;
  at::Tensor cos_, sin_;
  std::vector<at::Tensor> keys_, values_;  ///< by layer: [kv_heads, capacity, head_dim]
  std::vector<Step> steps_;                ///< by form of layer
  std::vector<size_t> step_of_;            ///< by layer
  std::optional<Head> head_;               ///< if compiled
};

}  // namespace graft::workloads::decoder
