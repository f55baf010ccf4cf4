#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "workloads/hand/buffer.h"
#include "workloads/hand/hand.h"
#include "workloads/hand/simd.h"

namespace graft::workloads::hand {
namespace {

struct Block {
  const float *weights, *Hinv, *scale, *zero;
  float *quantised, *errors, *losses;
  int64_t rows, columns;
};

/// W rows at once, one per lane. Eager updates all later columns at each step; here a column
/// fetches its updates when its turn comes, in the same order, so that it stays in a register: the
/// same bits without storing it each time.
struct GptqKernel {
  static constexpr bool kContract = false;

  /// Columns first to first + Count, their earlier errors known. Scratch holds W values per column.
  template <int W, int Count>
  GRAFT_HAND_INLINE void columns(const Block& b, const F<W>& scale, const F<W>& zero, int64_t first,
                                 float* w, float* e, float* l) {
    F<W> value[Count];
    for (int c = 0; c < Count; ++c) value[c] = load<W>(w + (first + c) * W);
    const float* h = b.Hinv + first;
    for (int64_t i = 0; i < first; ++i, h += b.columns) {
      const F<W> error = load<W>(e + i * W);
      for (int c = 0; c < Count; ++c) value[c] -= error * h[c];
    }
    for (int c = 0; c < Count; ++c, h += b.columns) {
      const float d = h[c];
      F<W> q = round_even<W>(value[c] / scale) + zero;
      q = q < 0.0f ? splat<W>(0) : q;
      q = q > 15.0f ? splat<W>(15) : q;
      q = scale * (q - zero);
      const F<W> difference = value[c] - q, error = difference / d;
      for (int later = c + 1; later < Count; ++later) value[later] -= error * h[later];
      store<W>(w + (first + c) * W, q);
      store<W>(e + (first + c) * W, error);
      store<W>(l + (first + c) * W, difference * difference / (d * d));
    }
  }

  template <int W>
  GRAFT_HAND_INLINE void rows(const Block& b, int64_t row, float* scratch) {
    float *w = scratch, *e = w + b.columns * W, *l = e + b.columns * W;
    for (int64_t j = 0; j < b.columns; ++j) {
      for (int lane = 0; lane < W; ++lane)
        w[j * W + lane] = b.weights[(row + lane) * b.columns + j];
    }
    const F<W> scale = load<W>(b.scale + row), zero = load<W>(b.zero + row);
    constexpr int kAtOnce = W >= 16 ? 16 : 4;  // as registers allow
    int64_t j = 0;
    for (; j + kAtOnce <= b.columns; j += kAtOnce) columns<W, kAtOnce>(b, scale, zero, j, w, e, l);
    for (; j < b.columns; ++j) columns<W, 1>(b, scale, zero, j, w, e, l);
    for (int lane = 0; lane < W; ++lane) {
      const int64_t at = (row + lane) * b.columns;
      for (j = 0; j < b.columns; ++j) b.quantised[at + j] = w[j * W + lane];
      for (j = 0; j < b.columns; ++j) b.errors[at + j] = e[j * W + lane];
      for (j = 0; j < b.columns; ++j) b.losses[at + j] = l[j * W + lane];
    }
  }

  template <int W>
  GRAFT_HAND_INLINE void run(const Block* b, float* scratch, int64_t begin, int64_t end) {
    int64_t row = begin;
    for (; row + W <= end; row += W) rows<W>(*b, row, scratch);
    for (; row < end; ++row) rows<1>(*b, row, scratch);
  }
};

}  // namespace

Call gptq_block(const at::Tensor& weights, const at::Tensor& Hinv, const at::Tensor& scale,
                const at::Tensor& zero) {
  TORCH_CHECK(weights.dim() == 2 && Hinv.dim() == 2 && Hinv.size(0) == weights.size(1) &&
                  Hinv.size(1) == weights.size(1) && scale.numel() == weights.size(0) &&
                  zero.numel() == weights.size(0),
              "hand::gptq_block: came weights ", weights.sizes(), ", Hinv ", Hinv.sizes(),
              ", scale ", scale.sizes(), ", zero ", zero.sizes(),
              "; expected (R, C), (C, C), (R), (R)");
  const Tensors inputs{weights, Hinv, scale, zero};
  const Tensors results{warm_like(weights), warm_like(weights), warm_like(weights)};
  const Block block{floats(weights),
                    floats(Hinv),
                    floats(scale),
                    floats(zero),
                    mutable_floats(results[0]),
                    mutable_floats(results[1]),
                    mutable_floats(results[2]),
                    weights.size(0),
                    weights.size(1)};
  const auto run = [block] {
    constexpr int64_t kRows = 16;  // a multiple of every width
    at::parallel_for(0, (block.rows + kRows - 1) / kRows, 1, [&](int64_t first, int64_t last) {
      std::vector<float> scratch(static_cast<size_t>(3 * block.columns * kRows));
      run_best<GptqKernel>(&block, scratch.data(), first * kRows,
                           std::min(last * kRows, block.rows));
    });
  };
  return call_into(results, inputs, run);
}

}  // namespace graft::workloads::hand
