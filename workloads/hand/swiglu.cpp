#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <type_traits>

#include "workloads/hand/buffer.h"
#include "workloads/hand/hand.h"
#include "workloads/hand/simd.h"

namespace graft::workloads::hand {
namespace {

// Elements that a parallel task takes at once; keeps streamed stores aligned.
constexpr int64_t kChunk = 4096;

template <int W>
GRAFT_HAND_INLINE F<W> silu(const F<W>& x) {
  return x / (exp<W>(-x) + 1.0f);
}
/// In bf16, silu's result is rounded before the product, as the eager operator leaves it.
template <int W>
GRAFT_HAND_INLINE F<W> swiglu_bf16(const F<W>& gate, const F<W>& up) {
  return round_bf16<W>(round_bf16<W>(silu<W>(gate)) * up);
}

template <class T, bool Stream>
struct SwigluKernel {
  static constexpr bool kContract = true;  // its products are not added to

  template <int W>
  GRAFT_HAND_INLINE void run(const T* gate, const T* up, T* out, int64_t count) {
    int64_t i = 0;
    if constexpr (std::is_same_v<T, float>) {
      for (; i + W <= count; i += W)
        put<W, Stream>(out + i, silu<W>(load<W>(gate + i)) * load<W>(up + i));
      for (; i < count; ++i) store<1>(out + i, silu<1>(load<1>(gate + i)) * load<1>(up + i));
    } else {
      for (; i + 2 * W <= count; i += 2 * W) {
        const Pair<W> g = load_pair<W>(gate + i), u = load_pair<W>(up + i);
        put_pair<W, Stream>(out + i,
                            {swiglu_bf16<W>(g.even, u.even), swiglu_bf16<W>(g.odd, u.odd)});
      }
      for (; i < count; ++i) store<1>(out + i, swiglu_bf16<1>(load<1>(gate + i), load<1>(up + i)));
    }
  }
};

template <class T, bool Stream>
void swiglu_all(const T* gate, const T* up, T* out, int64_t count) {
  at::parallel_for(0, (count + kChunk - 1) / kChunk, 8, [&](int64_t first, int64_t last) {
    const int64_t begin = first * kChunk, end = std::min(last * kChunk, count);
    run_best<SwigluKernel<T, Stream>>(gate + begin, up + begin, out + begin, end - begin);
  });
}

template <class T>
Call swiglu_call(const T* gate, const T* up, T* out, const Tensors& inputs,
                 const at::Tensor& result) {
  const int64_t count = result.numel();
  const bool stream = worth_streaming(result.nbytes());
  const auto run = [=] {
    stream ? swiglu_all<T, true>(gate, up, out, count) : swiglu_all<T, false>(gate, up, out, count);
  };
  return call_into({result}, inputs, run);
}

}  // namespace

Call swiglu(const at::Tensor& gate, const at::Tensor& up) {
  TORCH_CHECK(gate.sizes() == up.sizes(), "hand::swiglu: came gate ", gate.sizes(), " and up ",
              up.sizes(), "; expected equal sizes");
  const Tensors inputs{gate, up};
  const at::Tensor out = warm_like(gate);
  if (gate.scalar_type() == at::kFloat) {
    return swiglu_call(floats(gate), floats(up), mutable_floats(out), inputs, out);
  }
  return swiglu_call(bf16s(gate), bf16s(up), mutable_bf16s(out), inputs, out);
}

}  // namespace graft::workloads::hand
