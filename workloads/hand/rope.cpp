#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <type_traits>

#include "workloads/hand/buffer.h"
#include "workloads/hand/hand.h"
#include "workloads/hand/simd.h"

namespace graft::workloads::hand {
namespace {

/// Rounds as an eager operator on bf16 does at its end; in fp32 there is nothing left to round.
template <int W, bool Bf16>
GRAFT_HAND_INLINE F<W> rounded(const F<W>& value) {
  if constexpr (Bf16) return round_bf16<W>(value);
  return value;
}
template <int W, bool Bf16>
GRAFT_HAND_INLINE F<W> first_half(const F<W>& a, const F<W>& b, const F<W>& cos, const F<W>& sin) {
  return rounded<W, Bf16>(rounded<W, Bf16>(a * cos) - rounded<W, Bf16>(b * sin));
}
template <int W, bool Bf16>
GRAFT_HAND_INLINE F<W> second_half(const F<W>& a, const F<W>& b, const F<W>& cos, const F<W>& sin) {
  return rounded<W, Bf16>(rounded<W, Bf16>(b * cos) + rounded<W, Bf16>(a * sin));
}

template <class T, bool Stream>
struct RopeKernel {
  static constexpr bool kContract = false;
  static constexpr bool kBf16 = !std::is_same_v<T, float>;

  /// W columns at j and at j + half of one row x.
  template <int W>
  GRAFT_HAND_INLINE void step(const T* x, T* y, const T* cos, const T* sin, int64_t half) {
    const F<W> a = load<W>(x), b = load<W>(x + half);
    store<W>(y, first_half<W, kBf16>(a, b, load<W>(cos), load<W>(sin)));
    store<W>(y + half, second_half<W, kBf16>(a, b, load<W>(cos + half), load<W>(sin + half)));
  }
  /// As many columns as fill a vector of T: the same, streamed where asked.
  template <int W>
  GRAFT_HAND_INLINE void wide_step(const T* x, T* y, const T* cos, const T* sin, int64_t half) {
    if constexpr (!kBf16) {
      const F<W> a = load<W>(x), b = load<W>(x + half);
      put<W, Stream>(y, first_half<W, false>(a, b, load<W>(cos), load<W>(sin)));
      put<W, Stream>(y + half,
                     second_half<W, false>(a, b, load<W>(cos + half), load<W>(sin + half)));
    } else {
      const Pair<W> a = load_pair<W>(x), b = load_pair<W>(x + half);
      Pair<W> c = load_pair<W>(cos), s = load_pair<W>(sin);
      put_pair<W, Stream>(y, {first_half<W, true>(a.even, b.even, c.even, s.even),
                              first_half<W, true>(a.odd, b.odd, c.odd, s.odd)});
      c = load_pair<W>(cos + half), s = load_pair<W>(sin + half);
      put_pair<W, Stream>(y + half, {second_half<W, true>(a.even, b.even, c.even, s.even),
                                     second_half<W, true>(a.odd, b.odd, c.odd, s.odd)});
    }
  }

  /// Positions begin to end of every head.
  template <int W>
  GRAFT_HAND_INLINE void run(const T* x, T* y, const T* cos, const T* sin, int64_t heads,
                             int64_t sequence, int64_t half, int64_t begin, int64_t end) {
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t s = begin; s < end; ++s) {
        const int64_t at = (head * sequence + s) * 2 * half, table = s * 2 * half;
        constexpr int kWide = kBf16 ? 2 * W : W;
        int64_t j = 0;
        for (; j + kWide <= half; j += kWide)
          wide_step<W>(x + at + j, y + at + j, cos + table + j, sin + table + j, half);
        for (; j < half; ++j)
          step<1>(x + at + j, y + at + j, cos + table + j, sin + table + j, half);
      }
    }
  }
};

template <class T>
struct RopeArgs {
  const T *q, *k, *cos, *sin;
  T *q_out, *k_out;
  int64_t heads, sequence, half;
};

template <class T, bool Stream>
void rope_all(const RopeArgs<T>& a) {
  // All heads pass over a block of positions while its part of the tables is in L2.
  const int64_t size = std::clamp<int64_t>(a.sequence / (4 * at::get_num_threads()), 16, 256);
  at::parallel_for(0, (a.sequence + size - 1) / size, 1, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t begin = block * size, end = std::min(begin + size, a.sequence);
      run_best<RopeKernel<T, Stream>>(a.q, a.q_out, a.cos, a.sin, a.heads, a.sequence, a.half,
                                      begin, end);
      run_best<RopeKernel<T, Stream>>(a.k, a.k_out, a.cos, a.sin, a.heads, a.sequence, a.half,
                                      begin, end);
    }
  });
}

template <class T>
Call rope_call(const RopeArgs<T>& args, const Tensors& inputs, const Tensors& results) {
  // Streaming wants whole vectors at aligned places.
  const bool stream = args.half * sizeof(T) % 64 == 0 && worth_streaming(results[0].nbytes());
  const auto run = [args, stream] { stream ? rope_all<T, true>(args) : rope_all<T, false>(args); };
  return call_into(results, inputs, run);
}

}  // namespace

Call rope(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos, const at::Tensor& sin) {
  TORCH_CHECK(q.dim() == 4 && q.sizes() == k.sizes(), "hand::rope: came q ", q.sizes(), " and k ",
              k.sizes(), "; expected (B, H, S, D) twice");
  const Tensors inputs{q, k, cos, sin}, results{warm_like(q), warm_like(k)};
  const int64_t heads = q.size(0) * q.size(1), sequence = q.size(2), half = q.size(3) / 2;
  if (q.scalar_type() == at::kFloat) {
    return rope_call<float>(
        {floats(q), floats(k), floats(cos), floats(sin), mutable_floats(results[0]),
         mutable_floats(results[1]), heads, sequence, half},
        inputs, results);
  }
  return rope_call<uint16_t>({bf16s(q), bf16s(k), bf16s(cos), bf16s(sin), mutable_bf16s(results[0]),
                              mutable_bf16s(results[1]), heads, sequence, half},
                             inputs, results);
}

}  // namespace graft::workloads::hand
