#include "workloads/decoder/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "workloads/decoder/names.h"
#include "workloads/decoder/parts.h"

namespace graft::workloads::decoder {
namespace {

using at::Tensor;

// Each key-value head [B, kv_heads, S, D] once for every query head that reads it.
Tensor repeat_heads(const Tensor& x, int64_t times) {
  if (times == 1) return x;
  const int64_t batch = x.size(0), heads = x.size(1), length = x.size(2), size = x.size(3);
  return x.unsqueeze(2)
      .expand({batch, heads, times, length, size})
      .reshape({batch, heads * times, length, size});
}

void check_ids(const Config& config, const Tensor& ids) {
  std::ostringstream came;
  came << "Decoder: ids are " << ids.toString() << ' ' << ids.sizes();
  if (ids.dim() != 2 || ids.scalar_type() != at::kLong || ids.numel() == 0 ||
      ids.size(1) > config.positions) {
    throw std::invalid_argument(came.str() +
                                "; expected int64 [batch, length] with length of 1 to " +
                                std::to_string(config.positions));
  }
  check_in_vocabulary(came.str(), ids, config.vocabulary);
}

// A tensor of any floating type and that shape, converted. A copy always: the file's tensors start
// at any multiple of 8 bytes, and matmuls want whole cache lines.
Tensor read(const formats::Safetensors& file, const std::string& name, at::IntArrayRef sizes,
            at::ScalarType dtype) {
  const Tensor& stored = file.get(name);
  const at::ScalarType type = stored.scalar_type();
  if (!at::isFloatingType(type)) {
    throw formats::SafetensorsError(file.source.string() + ": tensor " + name + " is " +
                                    c10::toString(type) + "; expected F64, F32, F16 or BF16");
  }
  return file.get(name, type, sizes).to(dtype, /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace

Tensor layer_forward(const Config& c, const LayerWeights& w, const Tensor& hidden,
                     const Observer& observe) {
  const int64_t batch = hidden.size(0), length = hidden.size(1);
  const auto linear = [&](std::string_view name, const Tensor& x, const Tensor& weight,
                          const Tensor& bias = {}) {
    if (observe) observe(name, x.reshape({-1, x.size(-1)}));
    return at::linear(x, weight, bias.defined() ? std::optional(bias) : std::nullopt);
  };
  const auto heads = [&](const Tensor& x) {
    return x.view({batch, length, -1, c.head_dim}).transpose(1, 2);
  };
  const Tensor x = rms_norm(hidden, w.input_norm, c.eps);
  const Tensor q = heads(linear("q_proj", x, w.q, w.q_bias));
  const Tensor k = heads(linear("k_proj", x, w.k, w.k_bias));
  const Tensor v = heads(linear("v_proj", x, w.v, w.v_bias));
  const auto [cos, sin] = rotations(c, length, hidden.scalar_type());
  const int64_t times = c.heads / c.kv_heads;
  const Tensor context = at::scaled_dot_product_attention(
      rotate(q, cos, sin), repeat_heads(rotate(k, cos, sin), times), repeat_heads(v, times),
      /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true);
  const Tensor attended =
      hidden + linear("o_proj", context.transpose(1, 2).reshape({batch, length, -1}), w.o);

  const Tensor y = rms_norm(attended, w.post_norm, c.eps);
  const Tensor gate = linear("gate_proj", y, w.gate), up = linear("up_proj", y, w.up);
  return attended + linear("down_proj", at::silu(gate) * up, w.down);
}

Tensor embed(const Config& config, const OuterWeights& weights, const Tensor& ids) {
  check_ids(config, ids);
  return at::embedding(weights.embedding, ids);
}

Tensor logits(const Config& config, const OuterWeights& weights, const Tensor& hidden) {
  return at::linear(rms_norm(hidden, weights.norm, config.eps), weights.head);
}

Tensor read_linear(const formats::Safetensors& file, const LinearName& name, at::ScalarType dtype) {
  return read(file, name.tensor, {name.rows, name.columns}, dtype);
}

LayerWeights read_small_weights(const Config& c, const formats::Safetensors& file, int64_t layer,
                                at::ScalarType dtype) {
  const std::string at = "model.layers." + std::to_string(layer) + '.';
  LayerWeights out;
  if (c.qkv_bias) {
    const int64_t queries = c.heads * c.head_dim, keys = c.kv_heads * c.head_dim;
    out.q_bias = read(file, at + "self_attn.q_proj.bias", {queries}, dtype);
    out.k_bias = read(file, at + "self_attn.k_proj.bias", {keys}, dtype);
    out.v_bias = read(file, at + "self_attn.v_proj.bias", {keys}, dtype);
  }
  out.input_norm = read(file, at + "input_layernorm.weight", {c.hidden}, dtype);
  out.post_norm = read(file, at + "post_attention_layernorm.weight", {c.hidden}, dtype);
  return out;
}

LayerWeights read_layer(const Config& c, const formats::Safetensors& file, int64_t layer,
                        at::ScalarType dtype) {
  LayerWeights out = read_small_weights(c, file, layer, dtype);
  for (const LinearName& name : layer_linears(c, layer)) {
    weight_of(out, name.linear) = read_linear(file, name, dtype);
  }
  return out;
}

OuterWeights read_outer(const Config& c, const formats::Safetensors& file, at::ScalarType dtype) {
  OuterWeights out;
  out.embedding = read(file, "model.embed_tokens.weight", {c.vocabulary, c.hidden}, dtype);
  out.norm = read(file, "model.norm.weight", {c.hidden}, dtype);
  out.head = c.tie_embeddings ? out.embedding
                              : read(file, "lm_head.weight", {c.vocabulary, c.hidden}, dtype);
  return out;
}

Decoder Decoder::read(const std::filesystem::path& folder, at::ScalarType dtype) {
  Decoder out;
  out.config = Config::read(folder / "config.json");
  if (out.config.quantized) {
    throw std::runtime_error((folder / "config.json").string() +
                             ": has a quantization_config; expected a model of plain weights");
  }
  const formats::Safetensors file = formats::read_checkpoint(folder);
  out.outer = read_outer(out.config, file, dtype);
  for (int64_t i = 0; i < out.config.layers; ++i) {
    out.layers.push_back(read_layer(out.config, file, i, dtype));
  }
  return out;
}

Tensor Decoder::forward(const Tensor& ids) const {
  Tensor hidden = embed(config, outer, ids);
  for (const LayerWeights& layer : layers) hidden = layer_forward(config, layer, hidden);
  return logits(config, outer, hidden);
}

Tensor greedy(const Forward& forward, const Tensor& prompt, int64_t count) {
  const int64_t most = forward.positions;
  if (prompt.dim() != 1 || prompt.scalar_type() != at::kLong || prompt.numel() == 0 || count < 0 ||
      prompt.numel() > most - count) {
    std::ostringstream text;
    text << "greedy: the prompt is " << prompt.toString() << ' ' << prompt.sizes()
         << ", to grow by " << count << "; expected int64 [length] of at least one, and at most "
         << most << " tokens in all";
    throw std::invalid_argument(text.str());
  }
  const at::NoGradGuard no_grad;
  const int64_t start = prompt.size(0);
  Tensor ids = at::empty({1, start + count}, prompt.options());
  ids.slice(1, 0, start).copy_(prompt);
  for (int64_t at = start; at < start + count; ++at) {
    const Tensor last = forward.logits(ids.slice(1, 0, at)).select(1, -1);
    ids.select(1, at).copy_(last.argmax(-1));
  }
  return ids[0].slice(0, start).clone();
}

double perplexity(const Forward& forward, const Tensor& ids, int64_t window) {
  const int64_t most = forward.positions;
  if (window == 0) window = std::min<int64_t>(most, 512);
  if (ids.dim() != 1 || ids.scalar_type() != at::kLong || ids.numel() < 2 || window < 2 ||
      window > most) {
    std::ostringstream text;
    text << "perplexity: ids are " << ids.toString() << ' ' << ids.sizes() << " in windows of "
         << window << "; expected int64 [length] of at least two, in windows of 2 to " << most;
    throw std::invalid_argument(text.str());
  }
  const at::NoGradGuard no_grad;
  double sum = 0;
  int64_t scored = 0;
  for (int64_t at = 0; at + 1 < ids.size(0); at += window) {
    const Tensor part = ids.slice(0, at, std::min(at + window, ids.size(0)));
    const Tensor likelihoods =
        at::log_softmax(forward.logits(part.unsqueeze(0))[0].slice(0, 0, -1), -1, at::kFloat);
    const Tensor next = part.slice(0, 1);
    sum -= likelihoods.gather(1, next.unsqueeze(1)).to(at::kDouble).sum().item<double>();
    scored += next.size(0);
  }
  return std::exp(sum / static_cast<double>(scored));
}

}  // namespace graft::workloads::decoder
