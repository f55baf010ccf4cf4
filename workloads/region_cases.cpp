// The regions' inputs: names, shapes and distributions are those of tools/peers/inductor.py.

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "workloads/hand/hand.h"
#include "workloads/regions.h"
#include "workloads/workload.h"

namespace graft::workloads {
namespace {

/// Seeded draws that leave the global generator alone.
class Draw {
 public:
  explicit Draw(const Options& options)
      : generator_(at::detail::createCPUGenerator(options.seed)) {}
  at::Tensor normal(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
    return at::randn(sizes, generator_, at::kFloat).to(dtype);
  }
  at::Tensor uniform(at::IntArrayRef sizes) { return at::rand(sizes, generator_, at::kFloat); }

 private:
  at::Generator generator_;
};

std::tuple<at::Tensor, at::Tensor> rope_tables(int64_t sequence, int64_t head_size,
                                               at::ScalarType dtype) {
  const at::Tensor frequency =
      1.0 / at::pow(10000.0, at::arange(0, head_size, 2, at::kFloat) / head_size);
  const at::Tensor angle = at::outer(at::arange(sequence, at::kFloat), frequency);
  const at::Tensor both = at::cat({angle, angle}, -1);
  return {both.cos().to(dtype), both.sin().to(dtype)};
}

Instance rope_case(const Options& options, at::ScalarType dtype, int64_t batch, int64_t heads,
                   int64_t sequence, int64_t head_size) {
  Draw draw(options);
  const at::Tensor q = draw.normal({batch, heads, sequence, head_size}, dtype);
  const at::Tensor k = draw.normal({batch, heads, sequence, head_size}, dtype);
  const auto [cos, sin] = rope_tables(sequence, head_size, dtype);
  Instance out = instance_of(rope, q, k, cos, sin);
  out.hand = hand::rope(q, k, cos, sin);
  return out;
}

Instance rope_f32(const Options& o) {
  return o.small ? rope_case(o, at::kFloat, 2, 3, 37, 44)
                 : rope_case(o, at::kFloat, 2, 16, 2048, 128);
}

Instance rope_bf16(const Options& o) {
  return o.small ? rope_case(o, at::kBFloat16, 2, 3, 37, 44)
                 : rope_case(o, at::kBFloat16, 2, 16, 2048, 128);
}

Instance tiny_rope_f32(const Options& o) {
  Instance out = rope_case(o, at::kFloat, 1, 4, 16, 64);
  out.hand = {};  // its eager time is call overhead, of which a prebuilt kernel call has none
  return out;
}

Instance qkv_rope_bf16(const Options& o) {
  const int64_t heads = o.small ? 3 : 16, head_size = o.small ? 20 : 128,
                sequence = o.small ? 37 : 2048;
  const auto [cos, sin] = rope_tables(sequence, head_size, at::kBFloat16);
  const at::Tensor qkv = Draw(o).normal({2, sequence, 3 * heads * head_size}, at::kBFloat16);
  return instance_of(qkv_rope, qkv, cos, sin, heads);
}

Instance rmsnorm_bf16(const Options& o) {
  const int64_t rows = o.small ? 67 : 4096, columns = o.small ? 203 : 2048;
  Draw draw(o);
  const at::Tensor x = draw.normal({rows, columns}, at::kBFloat16),
                   r = draw.normal({rows, columns}, at::kBFloat16);
  const at::Tensor w = at::ones({columns}, at::kBFloat16);
  Instance out = instance_of(rmsnorm_residual, x, r, w);
  out.hand = hand::rmsnorm_residual(x, r, w);
  return out;
}

Instance swiglu_case(const Options& o, at::ScalarType dtype) {
  const int64_t rows = o.small ? 67 : 4096, columns = o.small ? 203 : 5632;
  Draw draw(o);
  const at::Tensor gate = draw.normal({rows, columns}, dtype),
                   up = draw.normal({rows, columns}, dtype);
  Instance out = instance_of(swiglu, gate, up);
  out.hand = hand::swiglu(gate, up);
  return out;
}

Instance swiglu_bf16(const Options& o) {
  return swiglu_case(o, at::kBFloat16);
}
Instance swiglu_f32(const Options& o) {
  return swiglu_case(o, at::kFloat);
}

Instance softmax_f32(const Options& o) {
  const int64_t heads = o.small ? 3 : 16, sequence = o.small ? 123 : 1024;
  Draw draw(o);
  const at::Tensor scores = draw.normal({heads, sequence, sequence}),
                   mask = draw.normal({sequence, sequence});
  Instance out = instance_of(softmax_mask, scores, mask);
  out.hand = hand::softmax_mask(scores, mask);
  return out;
}

Instance component_f32(const Options& o) {
  const int64_t sequence = o.small ? 33 : 512, width = o.small ? 40 : 768,
                parts = o.small ? 51 : 1200;
  Draw draw(o);
  const at::Tensor x = draw.normal({2, sequence, width}), V = draw.normal({width, parts});
  const at::Tensor mask = draw.uniform({2, sequence, parts}), U = draw.normal({parts, width});
  return instance_of(component, x, V, mask, U);
}

Instance gptq_block_case(const Options& o) {
  const int64_t rows = o.small ? 69 : 2048, columns = o.small ? 37 : 128;
  Draw draw(o);
  const at::Tensor inputs = draw.normal({2 * columns, columns});
  const at::Tensor hessian =
      at::matmul(inputs.t(), inputs) / (2 * columns) + 0.01 * at::eye(columns);
  const at::Tensor Hinv =
      at::linalg_cholesky(at::cholesky_inverse(at::linalg_cholesky(hessian)), /*upper=*/true)
          .contiguous();
  const at::Tensor W = draw.normal({rows, columns});
  const at::Tensor scale = W.abs().amax(1) / 8, zero = at::full({rows}, 8.0);
  Instance out = instance_of(gptq_block, W, Hinv, scale, zero);
  out.hand = hand::gptq_block(W, Hinv, scale, zero);
  return out;
}

Instance adamw_f32(const Options& o) {
  const int64_t side = o.small ? 33 : 1024;
  Draw draw(o);
  const auto list = [&] {
    Tensors tensors;
    for (int i = 0; i < 8; ++i) tensors.push_back(draw.uniform({side, side}));
    return tensors;
  };
  const Tensors p = list(), g = list(), m = list(), v = list();
  return instance_of(adamw, p, g, m, v);
}

}  // namespace

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all{
      {"rope_f32", "RoPE of q and k (2, 16, 2048, 128)", rope_f32},
      {"rope_bf16", "RoPE of q and k (2, 16, 2048, 128)", rope_bf16},
      {"qkv_rope_bf16", "QKV split into 16 heads, then RoPE, of (2, 2048, 6144)", qkv_rope_bf16},
      {"rmsnorm_bf16", "residual and RMSNorm (4096, 2048)", rmsnorm_bf16},
      {"swiglu_bf16", "silu(gate) * up (4096, 5632)", swiglu_bf16},
      {"swiglu_f32", "silu(gate) * up (4096, 5632)", swiglu_f32},
      {"softmax_f32", "scaled masked softmax (16, 1024, 1024)", softmax_f32},
      {"component_f32", "masked component layer ((x V) mask) U, (2, 512, 768) by 1200",
       component_f32},
      {"gptq_block", "GPTQ's loop over a block of 128 columns, 2048 rows, fp32", gptq_block_case},
      {"adamw_f32", "AdamW over 8 parameters of 1024 x 1024", adamw_f32},
      {"tiny_rope_f32", "RoPE of q and k (1, 4, 16, 64): the overhead of a call", tiny_rope_f32},
  };
  return all;
}

const Workload* find_workload(std::string_view name) {
  for (const Workload& workload : workloads()) {
    if (workload.name == name) return &workload;
  }
  return nullptr;
}

}  // namespace graft::workloads
