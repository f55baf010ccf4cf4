// A Llama as Transformer Engine lays it out: fused layers (LayerNormLinear, LayerNormMLP) and
// attention, with functions of tensors between and inside of them that can be compiled one by one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "graft/workload.h"

namespace graft::workloads::llama {

enum class Head {
  None,    ///< hidden states come in and go out
  Tied,    ///< tokens come in, logits go out, by the embedding's weights
  Untied,  ///< by weights of their own
};

enum class Precision { F32, Bf16, Fp8 };  ///< Fp8: linear layers' factors; all else in bf16

struct Shape {
  int64_t layers = 4, hidden = 1024, heads = 8, kv_heads = 8, intermediate = 2816,
          vocabulary = 32000;
  Head head = Head::None;
  Precision precision = Precision::Bf16;

  int64_t head_dim() const { return hidden / heads; }
  int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_dim(); }
  at::ScalarType dtype() const { return precision == Precision::F32 ? at::kFloat : at::kBFloat16; }
  /// Weights of the layers, and of embedding and head where there are some.
  double parameters() const;
  /// Of a forward over so many tokens in sequences of that length: multiply-adds count as two.
  double flops(int64_t tokens, int64_t sequence) const;
  /// Throws graft::Error naming the sizes that do not fit together.
  void check() const;
};

/// x + branch, and the norm of it.
using Sum = std::tuple<at::Tensor, at::Tensor>;
using Heads = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// The functions of tensors around matmuls and attention, as a user hands them to graft::compile.
/// B, S, H heads of queries, G of keys and values, D.
struct Regions {
  /// The RMS norm of x (B, S, W): what begins the first fused layer.
  std::function<at::Tensor(const at::Tensor& x, const at::Tensor& weight)> norm;
  /// The residual is added, and the sum normalised: what begins every other fused layer.
  std::function<Sum(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight)>
      add_norm;
  /// Splits (B, S, (H + 2 G) D) into heads (B, H or G, S, D), and rotates queries and keys. Values
  /// are copied, so that all three are contiguous.
  std::function<Heads(const at::Tensor& qkv, const at::Tensor& cos, const at::Tensor& sin)>
      split_rope;
  /// Causal attention of heads, (B, H, S, D).
  std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)> attend;
  /// Heads (B, H, S, D) side by side: (B, S, H D). A view of what ATen's attention leaves.
  std::function<at::Tensor(const at::Tensor& context)> combine;
  /// split_rope, attend and combine as one; where it is set, it is called in their place.
  std::function<at::Tensor(const at::Tensor& qkv, const at::Tensor& cos, const at::Tensor& sin)>
      mix;
  /// silu(gate) * up of both side by side (B, S, 2 I).
  std::function<at::Tensor(const at::Tensor& gate_up)> swiglu;

  static Regions eager(const Shape& shape);
  /// With `mix`, whose attention is graft::flex_attention.
  static Regions with_attention(const Shape& shape);

  /// visit(name, function) for each.
  template <class Visit>
  void each(const Visit& visit) {
    visit("norm", norm), visit("add_norm", add_norm), visit("split_rope", split_rope);
    visit("attend", attend), visit("combine", combine), visit("mix", mix);
    visit("swiglu", swiglu);
  }
};

/// A weight (out, in): in fp8 codes of e4m3 and their scale, a number in a tensor.
struct Linear {
  at::Tensor weight, scale;
  /// x (…, in) → (…, out). Codes: x is rounded to e4m3 by its own largest value, the product is
  /// at::_scaled_mm's.
  at::Tensor operator()(const at::Tensor& x) const;
};

/// A norm and the linear layer behind it, as one module.
struct LayerNormLinear {
  at::Tensor norm;
  Linear linear;
  /// `branch` undefined: none is added. Returns (x + branch, linear(norm(x + branch))).
  Sum operator()(const at::Tensor& x, const at::Tensor& branch, const Regions& regions) const;
};

/// A norm and a SwiGLU feed-forward layer behind it, as one module.
struct LayerNormMlp {
  at::Tensor norm;
  Linear gate_up, down;
  /// Returns (x + branch, what is to be added to it).
  Sum operator()(const at::Tensor& x, const at::Tensor& branch, const Regions& regions) const;
};

struct Layer {
  LayerNormLinear qkv;
  Linear out;
  LayerNormMlp mlp;
};

/// Thread-safe while nobody changes its members.
struct Model {
  Shape shape;
  std::vector<Layer> layers;
  at::Tensor embedding, norm;  ///< where there is a head
  Linear head;

  /// From tensors in the order of parameter_sizes(), in fp32; they are converted.
  static Model of(const Shape& shape, const std::vector<at::Tensor>& parameters);
  /// x: hidden states (B, S, W), or ids (B, S) where there is a head.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin,
                     const Regions& regions) const;
};

/// A model with random weights, and what it reads.
struct System {
  Shape shape;
  std::vector<at::Tensor> parameters;  ///< as Model::of takes them, of the shape's dtype
  at::Tensor x, target;                ///< of a training step: hidden states, or ids
  at::Tensor cos, sin;

  /// From the axes of `llama_forward`. Throws graft::Error for values that do not fit.
  static System of(const Options& options);
  static Shape shape_of(const Options& options);
  /// The same numbers in fp64, computed without fp8.
  System in_double() const;
  Model model() const { return Model::of(shape, parameters); }
};

/// The loss of a model's result: the mean squared distance of hidden states to `target`, or the
/// cross-entropy of the ids in it.
at::Tensor loss_of(const at::Tensor& result, const at::Tensor& target);

/// Sizes of all weights in their order: of each layer norm, QKV, output, norm, gate and up, down;
/// then, where there is a head, embedding, norm and, if it is untied, the head's.
std::vector<std::vector<int64_t>> parameter_sizes(const Shape& shape);

}  // namespace graft::workloads::llama
