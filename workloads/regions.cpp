#include "workloads/regions.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cmath>

namespace graft::workloads {
namespace {

at::Tensor rotate_half(const at::Tensor& x) {
  const auto halves = x.chunk(2, -1);
  return at::cat({-halves[1], halves[0]}, -1);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> rope_tables(int64_t sequence, int64_t head_size,
                                               at::ScalarType dtype) {
  const at::Tensor frequency =
      1.0 / at::pow(10000.0, at::arange(0, head_size, 2, at::kFloat) / head_size);
  const at::Tensor angle = at::outer(at::arange(sequence, at::kFloat), frequency);
  const at::Tensor both = at::cat({angle, angle}, -1);
  return {both.cos().to(dtype), both.sin().to(dtype)};
}

std::tuple<at::Tensor, at::Tensor> rope(const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& cos, const at::Tensor& sin) {
  const at::Tensor c = cos.unsqueeze(0).unsqueeze(0), s = sin.unsqueeze(0).unsqueeze(0);
  return {q * c + rotate_half(q) * s, k * c + rotate_half(k) * s};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> qkv_rope(const at::Tensor& qkv,
                                                        const at::Tensor& cos,
                                                        const at::Tensor& sin, int64_t heads) {
  const int64_t batch = qkv.size(0), sequence = qkv.size(1), head_size = qkv.size(2) / 3 / heads;
  const auto parts =
      qkv.view({batch, sequence, 3, heads, head_size}).permute({2, 0, 3, 1, 4}).unbind(0);
  const auto [q, k] = rope(parts[0], parts[1], cos, sin);
  return {q.contiguous(), k.contiguous(), parts[2].contiguous()};
}

at::Tensor rmsnorm(const at::Tensor& x, const at::Tensor& w) {
  const at::Tensor f = x.to(at::promote_types(x.scalar_type(), at::kFloat));
  const at::Tensor scale = at::rsqrt(f.pow(2).mean(-1, /*keepdim=*/true) + 1e-5);
  return (f * scale).to(x.scalar_type()) * w;
}

std::tuple<at::Tensor, at::Tensor> rmsnorm_residual(const at::Tensor& x, const at::Tensor& r,
                                                    const at::Tensor& w) {
  const at::Tensor h = x + r;
  return {h, rmsnorm(h, w)};
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  return at::silu(gate) * up;
}

at::Tensor softmax_mask(const at::Tensor& scores, const at::Tensor& mask) {
  return at::softmax(scores * 0.125 + mask, -1);
}

at::Tensor component(const at::Tensor& x, const at::Tensor& V, const at::Tensor& mask,
                     const at::Tensor& U) {
  return at::matmul(at::matmul(x, V) * mask, U);
}

at::Tensor onednn_linear_gelu(const at::Tensor& x, const at::Tensor& weight,
                              const at::Tensor& bias) {
  using Signature = at::Tensor(
      const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, std::string_view,
      c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);
  static const auto routine = c10::Dispatcher::singleton()
                                  .findSchemaOrThrow("mkldnn::_linear_pointwise", "")
                                  .typed<Signature>();
  return routine.call(x, weight, bias, "gelu", c10::List<std::optional<at::Scalar>>(), "none");
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> gptq_block(const at::Tensor& weights,
                                                          const at::Tensor& Hinv,
                                                          const at::Tensor& scale,
                                                          const at::Tensor& zero) {
  at::Tensor W = weights.clone();
  at::Tensor Q = at::zeros_like(W), E = at::zeros_like(W), L = at::zeros_like(W);
  for (int64_t i = 0; i < W.size(1); ++i) {
    const at::Tensor w = W.select(1, i), d = Hinv.select(0, i).select(0, i);
    at::Tensor q = at::clamp(at::round(w / scale) + zero, 0, 15);
    q = scale * (q - zero);
    Q.select(1, i).copy_(q);
    L.select(1, i).copy_((w - q).pow(2) / d.pow(2));
    const at::Tensor e = (w - q) / d;
    W.slice(1, i) -= e.unsqueeze(1) * Hinv.select(0, i).slice(0, i).unsqueeze(0);
    E.select(1, i).copy_(e);
  }
  return {Q, E, L};
}

std::vector<at::Tensor> adamw(const std::vector<at::Tensor>& parameters,
                              const std::vector<at::Tensor>& gradients,
                              const std::vector<at::Tensor>& first,
                              const std::vector<at::Tensor>& second) {
  std::vector<at::Tensor> out;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor &p = parameters[i], &g = gradients[i];
    const at::Tensor m = 0.9 * first[i] + 0.1 * g;
    const at::Tensor v = 0.95 * second[i] + 0.05 * g * g;
    out.push_back(p * (1 - 1e-5) - 1e-3 * (m / 0.1) / ((v / 0.05).sqrt() + 1e-8));
    out.push_back(m);
    out.push_back(v);
  }
  return out;
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  return at::matmul(at::softmax(at::matmul(q, k.transpose(-2, -1)) * scale, -1), v);
}

namespace {

template <class Attention>
at::Tensor block_with(const Attention& attend, const at::Tensor& x,
                      const std::vector<at::Tensor>& w, int64_t heads) {
  const int64_t batch = x.size(0), sequence = x.size(1), width = x.size(2);
  const at::Tensor qkv = at::linear(at::layer_norm(x, {width}, w[0], w[1]), w[2], w[3]);
  const auto parts =
      qkv.view({batch, sequence, 3, heads, width / heads}).permute({2, 0, 3, 1, 4}).unbind(0);
  const at::Tensor mixed =
      attend(parts[0], parts[1], parts[2]).transpose(1, 2).reshape({batch, sequence, width});
  const at::Tensor h = x + at::linear(mixed, w[4], w[5]);
  const at::Tensor up = at::gelu(at::linear(at::layer_norm(h, {width}, w[6], w[7]), w[8], w[9]));
  return h + at::linear(up, w[10], w[11]);
}

}  // namespace

at::Tensor block(const at::Tensor& x, const std::vector<at::Tensor>& weights, int64_t heads) {
  return block_with(attention, x, weights, heads);
}

at::Tensor block_sdpa(const at::Tensor& x, const std::vector<at::Tensor>& weights, int64_t heads) {
  const auto attend = [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    return at::scaled_dot_product_attention(q, k, v);
  };
  return block_with(attend, x, weights, heads);
}

}  // namespace graft::workloads
