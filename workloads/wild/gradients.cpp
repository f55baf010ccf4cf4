// Gradients written by hand, as fused training code has them: of losses, activations, softmax,
// embeddings; those of biases are column sums.

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

/// Cross entropy's gradient by the logits (T, V), averaged over the tokens.
at::Tensor cross_entropy_backward(const at::Tensor& logits, const at::Tensor& targets) {
  const at::Tensor index = targets.unsqueeze(1);
  at::Tensor gradient = at::softmax(logits, -1);
  gradient.scatter_add_(1, index, at::full(index.sizes(), -1, logits.options()));
  return gradient.div_(static_cast<double>(logits.size(0)));
}

/// The gradient by attention's scores (H, S, S), through dropout (`kept`) and softmax; the scale of
/// 1/8 is the scores'.
at::Tensor attention_backward(const at::Tensor& gradient, const at::Tensor& weights,
                              const at::Tensor& kept) {
  const at::Tensor inner = gradient * kept / 0.9;
  const at::Tensor along = (inner * weights).sum(-1, /*keepdim=*/true);
  return weights * (inner - along) * 0.125;
}

/// The gradients of gelu(x + bias) by tanh, in bf16 (R, C): by x, and by the bias in fp32.
std::tuple<at::Tensor, at::Tensor> gelu_bias_backward(const at::Tensor& gradient,
                                                      const at::Tensor& x, const at::Tensor& bias) {
  const double k = std::sqrt(2 / std::numbers::pi);
  const at::Tensor z = wide(x) + wide(bias), cube = 0.044715 * z * z * z;
  const at::Tensor t = at::tanh(k * (z + cube));
  const at::Tensor slope = 0.5 * (1 + t) + 0.5 * (1 - t * t) * k * (z + 3 * cube);
  const at::Tensor by_x = wide(gradient) * slope;
  return {by_x.to(gradient.scalar_type()), by_x.sum(0)};
}

/// The gradients of a * sigmoid(b), where x (R, 2 C) is a beside b: by x, and by its bias.
std::tuple<at::Tensor, at::Tensor> glu_backward(const at::Tensor& gradient, const at::Tensor& x) {
  const auto halves = x.chunk(2, -1);
  const at::Tensor gate = at::sigmoid(halves[1]);
  const at::Tensor by_a = gradient * gate, by_b = by_a * halves[0] * (1 - gate);
  const at::Tensor by_x = at::cat({by_a, by_b}, -1);
  return {by_x, by_x.sum(0)};
}

/// A weighted Huber loss over predictions (B, D), its gradient, and that of the last layer's bias.
std::tuple<at::Tensor, at::Tensor, at::Tensor> huber_backward(const at::Tensor& prediction,
                                                              const at::Tensor& target,
                                                              const at::Tensor& weight) {
  const at::Tensor error = prediction - target, size = error.abs(), small = size <= 1;
  const at::Tensor loss = at::where(small, 0.5 * error * error, size - 0.5) * weight;
  const double count = static_cast<double>(error.numel());
  const at::Tensor gradient = at::where(small, error, error.sign()) * weight / count;
  return {loss.mean(), gradient, gradient.sum(0)};
}

/// The gradient of an embedding (V, D), where tokens (T) come often and token 0 is padding.
at::Tensor embedding_backward(const at::Tensor& gradient, const at::Tensor& tokens,
                              int64_t vocabulary) {
  const at::Tensor counts = (tokens != 0).to(gradient.scalar_type()).unsqueeze(1);
  return at::zeros({vocabulary, gradient.size(1)}, gradient.options())
      .index_add_(0, tokens, gradient * counts);
}

Instance cross_entropy_backward_case(const Options& o) {
  const int64_t tokens = o.integer("tokens"), vocabulary = o.integer("vocabulary");
  Draw draw(o);
  return bounded(instance_of(cross_entropy_backward, draw.normal({tokens, vocabulary}),
                             draw.integers({tokens}, vocabulary)),
                 8 * tokens * vocabulary + 8 * tokens, (kFunction + 4) * tokens * vocabulary);
}

Instance attention_backward_case(const Options& o) {
  const int64_t heads = o.integer("heads"), tokens = o.integer("tokens"),
                count = heads * tokens * tokens;
  Draw draw(o);
  const at::Tensor gradient = draw.normal({heads, tokens, tokens});
  const at::Tensor weights = at::softmax(draw.normal({heads, tokens, tokens}), -1);
  const at::Tensor kept = draw.uniform({heads, tokens, tokens}) < 0.9;
  return bounded(instance_of(attention_backward, gradient, weights, kept), (4 + 4 + 1 + 4) * count,
                 7 * count);
}

Instance gelu_bias_backward_case(const Options& o) {
  const int64_t rows = o.integer("rows"), columns = o.integer("columns");
  Draw draw(o);
  const auto matrix = [&] { return draw.normal({rows, columns}, at::kBFloat16); };
  const at::Tensor gradient = matrix(), x = matrix();
  return bounded(
      instance_of(gelu_bias_backward, gradient, x, draw.normal({columns}, at::kBFloat16)),
      2 * 3 * rows * columns + (2 + 4) * columns, (18 + kFunction) * rows * columns);
}

Instance glu_backward_case(const Options& o) {
  const int64_t rows = o.integer("rows"), columns = o.integer("columns");
  Draw draw(o);
  const at::Tensor gradient = draw.normal({rows, columns}), x = draw.normal({rows, 2 * columns});
  return bounded(instance_of(glu_backward, gradient, x), 4 * (5 * rows * columns + 2 * columns),
                 (8 + kFunction) * rows * columns);
}

Instance huber_backward_case(const Options& o) {
  const int64_t rows = o.integer("rows"), columns = o.integer("columns");
  Draw draw(o);
  const at::Tensor prediction = draw.normal({rows, columns}), target = draw.normal({rows, columns});
  return bounded(instance_of(huber_backward, prediction, target, draw.uniform({rows, 1})),
                 4 * (3 * rows * columns + rows + columns + 1), 12 * rows * columns);
}

Instance embedding_backward_case(const Options& o) {
  const int64_t tokens = o.integer("tokens"), vocabulary = o.integer("vocabulary"),
                width = o.integer("width");
  Draw draw(o);
  // As in texts: low tokens come most often.
  const at::Tensor ids =
      (draw.uniform({tokens}).pow(4) * static_cast<double>(vocabulary)).to(at::kLong);
  return bounded(instance_of(embedding_backward, draw.normal({tokens, width}),
                             ids.clamp_max(vocabulary - 1), vocabulary),
                 4 * width * (tokens + vocabulary) + 8 * tokens, 2 * tokens * width);
}

std::vector<Axis> batch_axes(const char* rows, const char* columns) {
  return {{"rows", rows, "67", "tokens or samples"}, {"columns", columns, "45", "features"}};
}

}  // namespace

std::vector<Workload> gradient_cases() {
  return {
      {"cross_entropy_backward_f32",
       "cross entropy's gradient by the logits",
       {{"tokens", "1024", "37", "tokens"}, {"vocabulary", "16384", "211", "tokens there are"}},
       cross_entropy_backward_case,
       kSums},
      {"attention_backward_f32",
       "the gradient through attention's dropout and softmax",
       {{"heads", "8", "3", "heads"}, {"tokens", "1024", "67", "tokens"}},
       attention_backward_case,
       kSums},
      {"gelu_bias_backward_bf16", "gelu's gradients by input and bias", batch_axes("4096", "3072"),
       gelu_bias_backward_case, kSums},
      {"glu_backward_f32", "a gated unit's gradients by input and bias", batch_axes("4096", "1536"),
       glu_backward_case, kSums},
      {"huber_backward_f32", "a weighted Huber loss with its gradients", batch_axes("65536", "64"),
       huber_backward_case, kSums},
      {"embedding_backward_f32",
       "an embedding's gradient, tokens added up",
       {{"tokens", "16384", "211", "tokens"},
        {"vocabulary", "8192", "67", "embeddings"},
        {"width", "256", "13", "of an embedding"}},
       embedding_backward_case,
       kSums},
  };
}

}  // namespace graft::workloads::wild
