#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "workloads/hand/buffer.h"
#include "workloads/hand/hand.h"
#include "workloads/hand/simd.h"

namespace graft::workloads::hand {
namespace {

constexpr float kScale = 0.125f;
constexpr float kLowest = -std::numeric_limits<float>::infinity();
constexpr int64_t kRows = 32;  // rows of the mask kept in L2 while all heads pass over them

template <bool Stream>
struct SoftmaxKernel {
  static constexpr bool kContract = true;  // kScale is a power of two: its product is exact

  template <int W>
  GRAFT_HAND_INLINE F<W> logit(const float* score, const float* mask, float* row) {
    const F<W> t = load<W>(score) * kScale + load<W>(mask);
    store<W>(row, t);
    return t;
  }
  template <int W>
  GRAFT_HAND_INLINE F<W> power(float* row, float largest) {
    const F<W> e = exp<W>(load<W>(row) - largest);
    store<W>(row, e);
    return e;
  }

  /// One row; `row` is scratch for it. Several accumulators, as one would wait for itself at each
  /// step.
  template <int W>
  GRAFT_HAND_INLINE void run(const float* score, const float* mask, float* out, float* row,
                             int64_t columns) {
    constexpr int kParts = 4;
    F<W> part[kParts];
    for (F<W>& highest : part) highest = splat<W>(kLowest);
    int64_t j = 0;
    for (; j + kParts * W <= columns; j += kParts * W) {
      for (int u = 0; u < kParts; ++u) {
        part[u] = max<W>(part[u], logit<W>(score + j + u * W, mask + j + u * W, row + j + u * W));
      }
    }
    float largest = kLowest;
    for (; j < columns; ++j) largest = std::max(largest, logit<1>(score + j, mask + j, row + j)[0]);
    const F<W> highest = max<W>(max<W>(part[0], part[1]), max<W>(part[2], part[3]));
    for (int lane = 0; lane < W; ++lane) largest = std::max(largest, highest[lane]);

    for (F<W>& sum : part) sum = splat<W>(0);
    for (j = 0; j + kParts * W <= columns; j += kParts * W) {
      for (int u = 0; u < kParts; ++u) {
        part[u] += power<W>(row + j + u * W, largest);
        __builtin_prefetch(score + columns + j +
                           u * W);  // the next row: a page that the CPU does not foresee
      }
    }
    float total = 0;
    for (; j < columns; ++j) total += power<1>(row + j, largest)[0];
    const F<W> sum = (part[0] + part[1]) + (part[2] + part[3]);
    for (int lane = 0; lane < W; ++lane) total += sum[lane];

    const float factor = 1 / total;
    for (j = 0; j + W <= columns; j += W) put<W, Stream>(out + j, load<W>(row + j) * factor);
    for (; j < columns; ++j) out[j] = row[j] * factor;
  }
};

template <bool Stream>
void softmax_all(const float* scores, const float* masks, float* out, int64_t heads, int64_t rows,
                 int64_t columns) {
  at::parallel_for(0, (rows + kRows - 1) / kRows, 1, [&](int64_t first, int64_t last) {
    std::vector<float> row(static_cast<size_t>(columns));
    for (int64_t begin = first * kRows; begin < std::min(last * kRows, rows); begin += kRows) {
      for (int64_t head = 0; head < heads; ++head) {
        for (int64_t i = begin; i < std::min(begin + kRows, rows); ++i) {
          const int64_t at = (head * rows + i) * columns;
          run_best<SoftmaxKernel<Stream>>(scores + at, masks + i * columns, out + at, row.data(),
                                          columns);
        }
      }
    }
  });
}

}  // namespace

Call softmax_mask(const at::Tensor& scores, const at::Tensor& mask) {
  TORCH_CHECK(scores.dim() == 3 && mask.sizes() == scores.sizes().slice(1),
              "hand::softmax_mask: came scores ", scores.sizes(), " and mask ", mask.sizes(),
              "; expected (H, S, T) and (S, T)");
  const Tensors inputs{scores, mask};
  const at::Tensor result = warm_like(scores);
  const int64_t heads = scores.size(0), rows = scores.size(1), columns = scores.size(2);
  const bool stream = columns % 16 == 0 && worth_streaming(scores.nbytes());
  const float *from = floats(scores), *masks = floats(mask);
  float* to = mutable_floats(result);
  const auto run = [=] {
    stream ? softmax_all<true>(from, masks, to, heads, rows, columns)
           : softmax_all<false>(from, masks, to, heads, rows, columns);
  };
  return call_into({result}, inputs, run);
}

}  // namespace graft::workloads::hand
