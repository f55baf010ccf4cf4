#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <vector>

#include "workloads/hand/buffer.h"
#include "workloads/hand/hand.h"
#include "workloads/hand/simd.h"

namespace graft::workloads::hand {
namespace {

constexpr float kEpsilon = 1e-5f;

template <int W>
GRAFT_HAND_INLINE F<W> sum_bf16(const F<W>& x, const F<W>& r) {
  return round_bf16<W>(x + r);
}
template <int W>
GRAFT_HAND_INLINE F<W> scaled_bf16(const F<W>& h, float factor, const F<W>& w) {
  return round_bf16<W>(round_bf16<W>(h * factor) * w);
}

template <bool Stream>
struct RmsNormKernel {
  static constexpr bool kContract = true;  // only the sum of squares adds to a product

  /// One row; `row` is scratch for it.
  template <int W>
  GRAFT_HAND_INLINE void run(const uint16_t* x, const uint16_t* r, const uint16_t* w, uint16_t* sum,
                             uint16_t* out, uint16_t* row, int64_t columns) {
    F<W> even = splat<W>(0), odd = splat<W>(0);
    int64_t j = 0;
    for (; j + 2 * W <= columns; j += 2 * W) {
      const Pair<W> a = load_pair<W>(x + j), b = load_pair<W>(r + j);
      const Pair<W> h{sum_bf16<W>(a.even, b.even), sum_bf16<W>(a.odd, b.odd)};
      put_pair<W, Stream>(sum + j, h);
      put_pair<W, false>(row + j, h);
      even += h.even * h.even;
      odd += h.odd * h.odd;
    }
    float total = 0;
    for (; j < columns; ++j) {
      const F<1> h = sum_bf16<1>(load<1>(x + j), load<1>(r + j));
      store<1>(sum + j, h);
      store<1>(row + j, h);
      total += h[0] * h[0];
    }
    for (int lane = 0; lane < W; ++lane) total += even[lane] + odd[lane];

    const float factor = 1 / std::sqrt(total / static_cast<float>(columns) + kEpsilon);
    for (j = 0; j + 2 * W <= columns; j += 2 * W) {
      const Pair<W> h = load_pair<W>(row + j), by = load_pair<W>(w + j);
      put_pair<W, Stream>(out + j, {scaled_bf16<W>(h.even, factor, by.even),
                                    scaled_bf16<W>(h.odd, factor, by.odd)});
    }
    for (; j < columns; ++j)
      store<1>(out + j, scaled_bf16<1>(load<1>(row + j), factor, load<1>(w + j)));
  }
};

template <bool Stream>
void rmsnorm_all(const uint16_t* x, const uint16_t* r, const uint16_t* w, uint16_t* sum,
                 uint16_t* out, int64_t rows, int64_t columns) {
  at::parallel_for(0, rows, 1, [&](int64_t first, int64_t last) {
    std::vector<uint16_t> row(static_cast<size_t>(columns));
    for (int64_t at = first * columns; at < last * columns; at += columns) {
      run_best<RmsNormKernel<Stream>>(x + at, r + at, w, sum + at, out + at, row.data(), columns);
    }
  });
}

}  // namespace

Call rmsnorm_residual(const at::Tensor& x, const at::Tensor& r, const at::Tensor& w) {
  TORCH_CHECK(x.sizes() == r.sizes() && w.dim() == 1 && x.size(-1) == w.size(0),
              "hand::rmsnorm_residual: came x ", x.sizes(), ", r ", r.sizes(), ", w ", w.sizes(),
              "; expected x and r alike, w as their last dimension");
  const Tensors inputs{x, r, w}, results{warm_like(x), warm_like(x)};
  const int64_t columns = w.size(0), rows = x.numel() / columns;
  const bool stream = columns % 32 == 0 && worth_streaming(x.nbytes());
  const uint16_t *from_x = bf16s(x), *from_r = bf16s(r), *from_w = bf16s(w);
  uint16_t *to_sum = mutable_bf16s(results[0]), *to_out = mutable_bf16s(results[1]);
  const auto run = [=] {
    stream ? rmsnorm_all<true>(from_x, from_r, from_w, to_sum, to_out, rows, columns)
           : rmsnorm_all<false>(from_x, from_r, from_w, to_sum, to_out, rows, columns);
  };
  return call_into(results, inputs, run);
}

}  // namespace graft::workloads::hand
