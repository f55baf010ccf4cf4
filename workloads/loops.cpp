#include "workloads/loops.h"

#include <ATen/ATen.h>

namespace graft::workloads {

at::Tensor recurrence(const at::Tensor& x, const at::Tensor& a, const at::Tensor& b) {
  at::Tensor states = at::empty_like(x), h = at::zeros_like(x.select(1, 0));
  for (int64_t t = 0; t < x.size(1); ++t) {
    h = a * h + b * x.select(1, t);
    states.select(1, t).copy_(h);
  }
  return states;
}

at::Tensor cholesky(const at::Tensor& matrices) {
  at::Tensor L = matrices.clone();
  const int64_t n = L.size(-1);
  for (int64_t k = 0; k < n; ++k) {
    const at::Tensor pivot = L.select(1, k).select(1, k);
    pivot.sqrt_();
    if (k + 1 == n) break;
    const at::Tensor column = L.slice(1, k + 1).select(2, k);
    column.div_(pivot.unsqueeze(1));
    L.slice(1, k + 1).slice(2, k + 1).sub_(column.unsqueeze(2) * column.unsqueeze(1));
  }
  return L.tril_();
}

at::Tensor codebook(const at::Tensor& W, const at::Tensor& codes, double carry) {
  at::Tensor rest = W.clone(), Q = at::empty_like(W);
  const int64_t columns = W.size(1);
  for (int64_t i = 0; i < columns; ++i) {
    const at::Tensor w = rest.select(1, i), code = codes.select(0, i);
    const at::Tensor nearest = (w.unsqueeze(1) - code.unsqueeze(0)).abs().argmin(1);
    const at::Tensor q = code.index_select(0, nearest);
    Q.select(1, i).copy_(q);
    if (i + 1 < columns) rest.select(1, i + 1).add_(w - q, carry);
  }
  return Q;
}

}  // namespace graft::workloads
