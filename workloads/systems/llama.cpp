#include "workloads/systems/llama.h"

#include <ATen/ATen.h>
#include <graft/graft.h>

#include <limits>
#include <optional>

#include "workloads/regions.h"

namespace graft::workloads::llama {
namespace {

using at::Tensor;

constexpr double kLargestE4m3 = 448;

/// Codes of e4m3, and the scale that gives the values back.
std::tuple<Tensor, Tensor> to_e4m3(const Tensor& x) {
  const Tensor scale = at::clamp_min(at::amax(at::abs(x)).to(at::kFloat), 1e-12) / kLargestE4m3;
  return {at::clamp(x.to(at::kFloat) / scale, -kLargestE4m3, kLargestE4m3).to(at::kFloat8_e4m3fn),
          scale};
}

Heads heads_of(const Tensor& qkv, int64_t heads, int64_t kv_heads) {
  const int64_t batch = qkv.size(0), length = qkv.size(1);
  const auto parts = qkv.view({batch, length, heads + 2 * kv_heads, -1})
                         .transpose(1, 2)
                         .split_with_sizes({heads, kv_heads, kv_heads}, 1);
  return {parts[0], parts[1], parts[2]};
}

Heads split_rope(const Tensor& qkv, const Tensor& cos, const Tensor& sin, const Shape& shape) {
  const auto [q, k, v] = heads_of(qkv, shape.heads, shape.kv_heads);
  const auto [turned_q, turned_k] = rope(q, k, cos, sin);
  return {turned_q, turned_k, v.contiguous()};
}

Tensor combine(const Tensor& context) {
  const int64_t batch = context.size(0), length = context.size(2);
  return context.transpose(1, 2).reshape({batch, length, -1});
}

Tensor repeated(const Tensor& x, int64_t times) {
  return times == 1 ? x : x.repeat_interleave(times, 1);
}

Tensor gated(const Tensor& gate_up) {
  const auto halves = gate_up.chunk(2, -1);
  return swiglu(halves[0], halves[1]);
}

}  // namespace

double Shape::parameters() const {
  double sum = 0;
  for (const std::vector<int64_t>& sizes : parameter_sizes(*this)) {
    double count = 1;
    for (const int64_t size : sizes) count *= static_cast<double>(size);
    sum += count;
  }
  return sum;
}

double Shape::flops(int64_t tokens, int64_t sequence) const {
  const double products =
      parameters() - (head == Head::Untied ? static_cast<double>(vocabulary * hidden) : 0);
  // Each query meets every key before it: half of a sequence, in two products.
  const auto pairs = static_cast<double>(layers * sequence * heads * head_dim());
  return 2 * static_cast<double>(tokens) * (products + pairs);
}

void Shape::check() const {
  const auto name = [](const char* axis, int64_t value) {
    return std::string(axis) + " = " + std::to_string(value);
  };
  if (hidden % (2 * heads) != 0)
    throw Error(name("hidden", hidden) + " does not divide into " + name("heads", heads) +
                " of an even width; give a multiple of " + std::to_string(2 * heads) +
                ", or other heads");
  if (heads % kv_heads != 0)
    throw Error(name("heads", heads) + " do not divide by " + name("kv_heads", kv_heads) +
                ": so many queries share a key; give a divisor of " + std::to_string(heads));
}

Regions Regions::eager(const Shape& shape) {
  Regions out;
  out.norm = rmsnorm;
  out.add_norm = rmsnorm_residual;
  out.split_rope = [shape](const Tensor& qkv, const Tensor& cos, const Tensor& sin) {
    return llama::split_rope(qkv, cos, sin, shape);
  };
  const bool grouped = shape.kv_heads != shape.heads;
  out.attend = [grouped](const Tensor& q, const Tensor& k, const Tensor& v) {
    return at::scaled_dot_product_attention(q, k, v, {}, /*dropout_p=*/0, /*is_causal=*/true,
                                            std::nullopt, grouped);
  };
  out.combine = llama::combine;
  out.swiglu = gated;
  return out;
}

Regions Regions::with_attention(const Shape& shape) {
  Regions out = eager(shape);
  out.mix = [shape](const Tensor& qkv, const Tensor& cos, const Tensor& sin) {
    const auto [q, k, v] = llama::split_rope(qkv, cos, sin, shape);
    const int64_t times = shape.heads / shape.kv_heads;
    const auto causal = [](const Tensor& /*batch*/, const Tensor& /*head*/, const Tensor& query,
                           const Tensor& key) { return query >= key; };
    return llama::combine(flex_attention(q, repeated(k, times), repeated(v, times), {}, causal));
  };
  return out;
}

Tensor Linear::operator()(const Tensor& x) const {
  if (!scale.defined()) return at::linear(x, weight);
  const auto [codes, of_x] = to_e4m3(x.reshape({-1, x.size(-1)}));
  const Tensor out = at::_scaled_mm(codes, weight.t(), of_x, scale, /*bias=*/{},
                                    /*scale_result=*/{}, x.scalar_type());
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  return out.view(sizes);
}

Sum LayerNormLinear::operator()(const Tensor& x, const Tensor& branch,
                                const Regions& regions) const {
  if (!branch.defined()) return {x, linear(regions.norm(x, norm))};
  const auto [sum, normed] = regions.add_norm(x, branch, norm);
  return {sum, linear(normed)};
}

Sum LayerNormMlp::operator()(const Tensor& x, const Tensor& branch, const Regions& regions) const {
  const auto [sum, normed] = regions.add_norm(x, branch, norm);
  return {sum, down(regions.swiglu(gate_up(normed)))};
}

std::vector<std::vector<int64_t>> parameter_sizes(const Shape& s) {
  std::vector<std::vector<int64_t>> out;
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    out.push_back({s.hidden});
    out.push_back({s.qkv_width(), s.hidden});
    out.push_back({s.hidden, s.heads * s.head_dim()});
    out.push_back({s.hidden});
    out.push_back({2 * s.intermediate, s.hidden});
    out.push_back({s.hidden, s.intermediate});
  }
  if (s.head == Head::None) return out;
  out.push_back({s.vocabulary, s.hidden});
  out.push_back({s.hidden});
  if (s.head == Head::Untied) out.push_back({s.vocabulary, s.hidden});
  return out;
}

Model Model::of(const Shape& shape, const std::vector<Tensor>& parameters) {
  Model out;
  out.shape = shape;
  auto next = parameters.begin();
  const auto tensor = [&] { return *next++; };
  const auto linear = [&]() -> Linear {
    if (shape.precision != Precision::Fp8) return {tensor(), {}};
    const auto [codes, scale] = to_e4m3(tensor());
    return {codes, scale};
  };
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    Layer made;
    made.qkv.norm = tensor();
    made.qkv.linear = linear();
    made.out = linear();
    made.mlp.norm = tensor();
    made.mlp.gate_up = linear();
    made.mlp.down = linear();
    out.layers.push_back(std::move(made));
  }
  if (shape.head == Head::None) return out;
  out.embedding = tensor();
  out.norm = tensor();
  out.head = {shape.head == Head::Untied ? tensor() : out.embedding, {}};
  return out;
}

Tensor Model::forward(const Tensor& input, const Tensor& cos, const Tensor& sin,
                      const Regions& regions) const {
  Tensor x = embedding.defined() ? at::embedding(embedding, input) : input;
  Tensor branch;
  for (const Layer& layer : layers) {
    const auto [sum, qkv] = layer.qkv(x, branch, regions);
    const auto mixed = [&, qkv = qkv] {
      if (regions.mix) return regions.mix(qkv, cos, sin);
      const auto [q, k, v] = regions.split_rope(qkv, cos, sin);
      return regions.combine(regions.attend(q, k, v));
    };
    std::tie(x, branch) = layer.mlp(sum, layer.out(mixed()), regions);
  }
  if (!embedding.defined()) return x + branch;
  return head(std::get<1>(regions.add_norm(x, branch, norm)));
}

}  // namespace graft::workloads::llama
