// The eager program: plain LibTorch operators, in the reference's order.
#include "quantizer/model/process_block.h"

#include <ATen/ATen.h>

namespace graft::quantizer {

std::tuple<at::Tensor, at::Tensor, at::Tensor> process_block(
    const at::Tensor& W1, const at::Tensor& Hinv1, const at::Tensor& scale, const at::Tensor& zero,
    const at::Tensor& mask, int64_t qmin, int64_t qmax, bool sym) {
  at::Tensor W = W1.clone(at::MemoryFormat::Contiguous);
  at::Tensor Q = at::zeros_like(W), losses = at::zeros_like(W), errors = at::zeros_like(W);
  for (int64_t i = 0; i < W.size(1); ++i) {
    const at::Tensor w = W.select(1, i), d = Hinv1.select(0, i).select(0, i);
    const at::Tensor s = scale.dim() == 2 ? scale.select(1, i) : scale;
    at::Tensor q;
    if (sym) {
      q = at::clamp(at::round(w / s), qmin, qmax) * s;
    } else {
      const at::Tensor z = zero.dim() == 2 ? zero.select(1, i) : zero;
      q = (at::clamp(at::round(w / s) + z, qmin, qmax) - z) * s;
    }
    if (mask.defined()) q = q.masked_fill(mask.select(1, i), 0);
    const at::Tensor e = (w - q) / d;
    Q.select(1, i).copy_(q);
    losses.select(1, i).copy_((w - q).pow(2) / d.pow(2));
    W.slice(1, i) -= e.unsqueeze(1) * Hinv1.select(0, i).slice(0, i).unsqueeze(0);
    errors.select(1, i).copy_(e);
  }
  return {Q, losses, errors};
}

std::tuple<at::Tensor, at::Tensor> quantize_block(const at::Tensor& block, const at::Tensor& Hinv1,
                                                  const at::Tensor& scale, const at::Tensor& zero,
                                                  const at::Tensor& mask, const at::Tensor& codes,
                                                  int64_t qmin, int64_t qmax, bool sym) {
  const auto [Q, losses, errors] = process_block(block, Hinv1, scale, zero, mask, qmin, qmax, sym);
  const auto a_column = [](const at::Tensor& t) { return t.dim() == 1 ? t.unsqueeze(1) : t; };
  at::Tensor code = at::round(Q / a_column(scale));
  if (!sym) code = code + a_column(zero);
  codes.copy_(code);
  block.copy_(Q + 0);  // -0 becomes 0, which is what its code says
  return {losses, errors};
}

}  // namespace graft::quantizer
