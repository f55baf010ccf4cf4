#include "workloads/minilm/regions.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sum.h>

#include <utility>

namespace graft::workloads::minilm {

using at::Tensor;

Tensor embed_norm(const Tensor& ids, const Tensor& words, const Tensor& positions,
                  const Tensor& types, const Tensor& gamma, const Tensor& beta, double eps) {
  const Tensor sum =
      at::embedding(words, ids) + types.select(0, 0) + positions.slice(0, 0, ids.size(1));
  return at::layer_norm(sum, {sum.size(-1)}, gamma, beta, eps);
}

Tensor gelu(const Tensor& x) {
  return at::gelu(x);
}

Tensor residual_norm(const Tensor& x, const Tensor& residual, const Tensor& gamma,
                     const Tensor& beta, double eps) {
  return at::layer_norm(x + residual, {x.size(-1)}, gamma, beta, eps);
}

Tensor masked_softmax(const Tensor& scores, const Tensor& bias, double scale) {
  return at::softmax(scores * scale + bias, -1);
}

Tensor pool_normalize(const Tensor& hidden, const Tensor& mask) {
  const Tensor keep = mask.unsqueeze(-1).to(hidden.scalar_type());
  const Tensor mean = at::sum(hidden * keep, 1) / at::clamp_min(at::sum(keep, 1), 1e-9);
  return mean / at::clamp_min(at::linalg_vector_norm(mean, 2, 1, /*keepdim=*/true), 1e-12);
}

Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return minilm::gelu(at::linear(x, weight, bias));
}

Tensor linear_residual_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& residual, const Tensor& gamma, const Tensor& beta,
                            double eps) {
  return residual_norm(at::linear(x, weight, bias), residual, gamma, beta, eps);
}

Qkv linear_qkv(const Tensor& x, const Tensor& query_weight, const Tensor& query_bias,
               const Tensor& key_weight, const Tensor& key_bias, const Tensor& value_weight,
               const Tensor& value_bias) {
  return {at::linear(x, query_weight, query_bias), at::linear(x, key_weight, key_bias),
          at::linear(x, value_weight, value_bias)};
}

Regions Regions::eager(Attention attention) {
  Regions out;
  out.attention = attention;
  out.embed_norm = minilm::embed_norm;
  out.linear_qkv = minilm::linear_qkv;
  out.masked_softmax = minilm::masked_softmax;
  out.linear_gelu = minilm::linear_gelu;
  out.linear_residual_norm = minilm::linear_residual_norm;
  out.pool_normalize = minilm::pool_normalize;
  return out;
}

Regions Regions::compiled(const graft::Options& options, Cut cut, Attention attention) {
  Regions out = eager(attention);
  const auto compile = [&](auto* function, const char* name) {
    graft::Options named = options;
    named.name = name;
    auto compiled = graft::compile(function, named);
    out.compiled_functions.push_back({name, [compiled] { return compiled.report(); },
                                      [compiled] { return compiled.explain(); },
                                      [compiled] { compiled.wait(); }});
    return compiled;
  };

  out.embed_norm = compile(minilm::embed_norm, "embed_norm");
  if (cut == Cut::Blocks) out.linear_qkv = compile(minilm::linear_qkv, "linear_qkv");
  if (attention == Attention::Explicit)
    out.masked_softmax = compile(minilm::masked_softmax, "masked_softmax");
  if (cut == Cut::Blocks) {
    out.linear_residual_norm = compile(minilm::linear_residual_norm, "linear_residual_norm");
    out.linear_gelu = compile(minilm::linear_gelu, "linear_gelu");
  } else {
    out.linear_residual_norm = [norm = compile(minilm::residual_norm, "residual_norm")](
                                   const Tensor& x, const Tensor& weight, const Tensor& bias,
                                   const Tensor& residual, const Tensor& gamma, const Tensor& beta,
                                   double eps) {
      return norm(at::linear(x, weight, bias), residual, gamma, beta, eps);
    };
    out.linear_gelu = [gelu = compile(minilm::gelu, "gelu")](const Tensor& x, const Tensor& weight,
                                                             const Tensor& bias) {
      return gelu(at::linear(x, weight, bias));
    };
  }
  out.pool_normalize = compile(minilm::pool_normalize, "pool_normalize");
  return out;
}

}  // namespace graft::workloads::minilm
