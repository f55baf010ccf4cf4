// MiniLM's regions: the functions of tensors between its matmuls, eager or compiled.
#pragma once

#include <ATen/core/Tensor.h>
#include <graft/graft.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace graft::workloads::minilm {

struct Linear {
  at::Tensor weight, bias;
};
struct Norm {
  at::Tensor weight, bias;
};

// --- The regions as plain functions, as a user hands them to graft::compile ---

/// layer_norm of the sum of the three embeddings. ids [B, S] → [B, S, H].
at::Tensor embed_norm(const at::Tensor& ids, const at::Tensor& words, const at::Tensor& positions,
                      const at::Tensor& types, const at::Tensor& gamma, const at::Tensor& beta,
                      double eps);
/// The exact form, with erf.
at::Tensor gelu(const at::Tensor& x);
/// layer_norm(x + residual).
at::Tensor residual_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& gamma,
                         const at::Tensor& beta, double eps);
/// softmax(scores * scale + bias) over the last axis. scores [B, heads, S, S], bias [B, 1, 1, S].
at::Tensor masked_softmax(const at::Tensor& scores, const at::Tensor& bias, double scale);
/// The mean over the tokens that the mask keeps, scaled to unit length. [B, S, H], [B, S] → [B, H].
at::Tensor pool_normalize(const at::Tensor& hidden, const at::Tensor& mask);

// The same, including the matmul before them.
at::Tensor linear_gelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);
at::Tensor linear_residual_norm(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& bias, const at::Tensor& residual,
                                const at::Tensor& gamma, const at::Tensor& beta, double eps);
using Qkv = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
Qkv linear_qkv(const at::Tensor& x, const at::Tensor& query_weight, const at::Tensor& query_bias,
               const at::Tensor& key_weight, const at::Tensor& key_bias,
               const at::Tensor& value_weight, const at::Tensor& value_bias);

// --- Which of them run compiled ---

enum class Attention {
  Sdpa,      ///< at::scaled_dot_product_attention
  Explicit,  ///< matmul, masked_softmax, matmul
};

/// Where the compiled parts begin and end.
enum class Cut {
  /// Between the matmuls, which stay eager calls of at::linear: surgical, and bit for bit eager's.
  Elementwise,
  Blocks,  ///< each with the matmuls that feed it, for which Graft may choose the routine
};

/// The functions that MiniLM::encode calls for everything except views. All are set.
struct Regions {
  Attention attention = Attention::Sdpa;
  std::function<decltype(minilm::embed_norm)> embed_norm;
  std::function<decltype(minilm::linear_qkv)> linear_qkv;
  std::function<decltype(minilm::masked_softmax)> masked_softmax;  ///< for Attention::Explicit
  std::function<decltype(minilm::linear_gelu)> linear_gelu;
  std::function<decltype(minilm::linear_residual_norm)> linear_residual_norm;
  std::function<decltype(minilm::pool_normalize)> pool_normalize;

  /// The compiled functions, in the order in which encode calls them. Empty when eager.
  struct Handle {
    std::string name;
    std::function<Report()> report;
    std::function<std::string()> explain;
    std::function<void()> wait;
  };
  std::vector<Handle> compiled_functions;

  static Regions eager(Attention attention = Attention::Sdpa);
  /// Each region through graft::compile with `options`, named after its function.
  static Regions compiled(const graft::Options& options = {}, Cut cut = Cut::Elementwise,
                          Attention attention = Attention::Sdpa);
};

}  // namespace graft::workloads::minilm
