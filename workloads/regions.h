// The regions that are measured: plain LibTorch functions, as a user would write them.
// tools/peers/inductor.py holds the same functions in Python, for other compilers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>
#include <vector>

namespace graft::workloads {

/// Cosines and sines (S, D) of the angles of rotary position embedding, to base 10000.
std::tuple<at::Tensor, at::Tensor> rope_tables(int64_t sequence, int64_t head_size,
                                               at::ScalarType dtype);

/// Rotary position embedding of queries and keys (B, H, S, D) by tables (S, D).
std::tuple<at::Tensor, at::Tensor> rope(const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& cos, const at::Tensor& sin);

/// Splits a fused projection (B, S, 3 H D) into heads and rotates q and k. Results are contiguous
/// (B, H, S, D).
std::tuple<at::Tensor, at::Tensor, at::Tensor> qkv_rope(const at::Tensor& qkv,
                                                        const at::Tensor& cos,
                                                        const at::Tensor& sin, int64_t heads);

/// Normalises by the root mean square, in fp32 or fp64: norm(x) * w.
at::Tensor rmsnorm(const at::Tensor& x, const at::Tensor& w);

/// rmsnorm() after the residual is added: (x + r, norm(x + r) * w).
std::tuple<at::Tensor, at::Tensor> rmsnorm_residual(const at::Tensor& x, const at::Tensor& r,
                                                    const at::Tensor& w);

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

/// Attention's softmax: scores (H, S, S) times 1/8 plus a mask (S, S).
at::Tensor softmax_mask(const at::Tensor& scores, const at::Tensor& mask);

/// A linear layer in components, some masked out: ((x @ V) * mask) @ U.
at::Tensor component(const at::Tensor& x, const at::Tensor& V, const at::Tensor& mask,
                     const at::Tensor& U);

/// gelu(x W^T + b) by the routine that torch.compile calls, with gelu at its end.
at::Tensor onednn_linear_gelu(const at::Tensor& x, const at::Tensor& weight,
                              const at::Tensor& bias);

/// GPTQ's inner loop over one block of columns, 4 bits: (quantised, errors, losses), each like W
/// (rows, columns).
std::tuple<at::Tensor, at::Tensor, at::Tensor> gptq_block(const at::Tensor& weights,
                                                          const at::Tensor& Hinv,
                                                          const at::Tensor& scale,
                                                          const at::Tensor& zero);

/// One AdamW step over a parameter list. Returns for each parameter in turn its new value, first
/// and second moment.
std::vector<at::Tensor> adamw(const std::vector<at::Tensor>& parameters,
                              const std::vector<at::Tensor>& gradients,
                              const std::vector<at::Tensor>& first,
                              const std::vector<at::Tensor>& second);

/// softmax(q k^T / sqrt(D)) v over (B, H, S, D), written out.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

/// A pre-norm transformer block of x (B, S, W): attention and a GELU layer, each with its residual.
/// `weights`: norm, QKV, output, norm, up, down, each followed by its bias; linear ones are (out,
/// in).
at::Tensor block(const at::Tensor& x, const std::vector<at::Tensor>& weights, int64_t heads);
/// block() with ATen's fused attention.
at::Tensor block_sdpa(const at::Tensor& x, const std::vector<at::Tensor>& weights, int64_t heads);

}  // namespace graft::workloads
