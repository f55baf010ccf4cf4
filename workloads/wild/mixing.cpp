// How tokens see each other: positions, biases, token mixing without attention, routing.

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "workloads/draw.h"
#include "workloads/wild/cases.h"

namespace graft::workloads::wild {
namespace {

/// ALiBi: causal attention weights of scores (H, S, S) with a bias of `slopes` (H) times distance.
at::Tensor linear_bias(const at::Tensor& scores, const at::Tensor& slopes) {
  const at::Tensor position = at::arange(scores.size(-1), scores.options());
  const at::Tensor distance = position.unsqueeze(0) - position.unsqueeze(1);
  const at::Tensor biased = scores + slopes.view({-1, 1, 1}) * distance;
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  return at::softmax(biased.masked_fill(distance > 0, kNever), -1);
}

/// T5: attention weights of scores (H, S, S) with a learned bias (32, H) for buckets of distances,
/// exact up to 8, then logarithmic up to 128.
at::Tensor bucket_bias(const at::Tensor& scores, const at::Tensor& table) {
  const at::Tensor position = at::arange(scores.size(-1), at::kLong);
  const at::Tensor relative = position.unsqueeze(0) - position.unsqueeze(1);
  const at::Tensor distance = relative.abs();
  const at::Tensor far =
      8 + (at::log(distance.clamp_min(1).to(at::kFloat) / 8) / std::log(16.0) * 8).to(at::kLong);
  const at::Tensor bucket =
      (relative > 0).to(at::kLong) * 16 + at::where(distance < 8, distance, far.clamp_max(15));
  const at::Tensor bias = table.index_select(0, bucket.view(-1))
                              .view({scores.size(-1), scores.size(-1), -1})
                              .permute({2, 0, 1});
  return at::softmax(scores + bias, -1);
}

/// GPT-J's rotary embedding of x (B, S, H, D), neighbours as pairs; tables (S, D / 2).
at::Tensor rotate_pairs(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const at::Tensor pairs = x.view({x.size(0), x.size(1), x.size(2), -1, 2});
  const at::Tensor a = pairs.select(-1, 0), b = pairs.select(-1, 1);
  const at::Tensor c = cos.unsqueeze(1), s = sin.unsqueeze(1);
  return at::stack({a * c - b * s, b * c + a * s}, -1).flatten(-2);
}

/// An attention-free transformer's mixing (AFT-simple) of q, k, v (B, T, D).
at::Tensor attention_free(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const at::Tensor context = (at::softmax(k, 1) * v).sum(1, /*keepdim=*/true);
  return at::sigmoid(q) * context;
}

/// Mamba's causal convolution over time of x (B, T, D) by four weights of each feature (D, 4), then
/// SiLU.
at::Tensor causal_convolution(const at::Tensor& x, const at::Tensor& weight,
                              const at::Tensor& bias) {
  const int64_t length = x.size(1);
  const at::Tensor padded = at::constant_pad_nd(x, {0, 0, 3, 0});
  at::Tensor sum = bias;
  for (int64_t i = 0; i < 4; ++i) sum = sum + padded.slice(1, i, i + length) * weight.select(1, i);
  return at::silu(sum);
}

/// A mixture of experts' router: of logits (T, E) two experts for each token, their weights, and
/// the loss that balances experts.
std::tuple<at::Tensor, at::Tensor, at::Tensor> route(const at::Tensor& logits) {
  const int64_t tokens = logits.size(0), experts = logits.size(1);
  const at::Tensor p = at::softmax(logits, -1);
  const auto [best, chosen] = p.topk(2, -1);
  const at::Tensor load =
      at::zeros({experts}, p.options())
          .scatter_add_(0, chosen.view(-1), at::ones({2 * tokens}, p.options()));
  const at::Tensor balance = (load / static_cast<double>(tokens) * p.mean(0)).sum() * experts;
  return {best / best.sum(-1, /*keepdim=*/true), chosen, balance};
}

Instance linear_bias_case(const Options& o) {
  const int64_t heads = o.integer("heads"), tokens = o.integer("tokens"),
                count = heads * tokens * tokens;
  const at::Tensor scores = Draw(o).normal({heads, tokens, tokens});
  const at::Tensor slopes =
      at::pow(2.0, -8.0 / static_cast<double>(heads) * at::arange(1, heads + 1, at::kFloat));
  return bounded(instance_of(linear_bias, scores, slopes), 4 * (2 * count + heads),
                 (kFunction + 5) * count / 2);  // above the diagonal nothing is to be computed
}

Instance bucket_bias_case(const Options& o) {
  const int64_t heads = o.integer("heads"), tokens = o.integer("tokens"),
                count = heads * tokens * tokens;
  Draw draw(o);
  const at::Tensor scores = draw.normal({heads, tokens, tokens});
  return bounded(instance_of(bucket_bias, scores, draw.normal({32, heads})),
                 4 * (2 * count + 32 * heads), (kFunction + 4) * count);
}

Instance rotate_pairs_case(const Options& o) {
  const int64_t batch = o.integer("batch"), tokens = o.integer("tokens"),
                heads = o.integer("heads"), pairs = o.integer("pairs");
  const at::Tensor x = Draw(o).normal({batch, tokens, heads, 2 * pairs});
  const at::Tensor frequency =
      at::pow(10000.0, at::arange(pairs, at::kFloat) / -static_cast<double>(pairs));
  const at::Tensor angle = at::outer(at::arange(tokens, at::kFloat), frequency);
  return bounded(instance_of(rotate_pairs, x, angle.cos(), angle.sin()),
                 4 * (2 * x.numel() + 2 * tokens * pairs), 3 * x.numel());
}

Instance attention_free_case(const Options& o) {
  const int64_t batch = o.integer("batch"), tokens = o.integer("tokens"),
                width = o.integer("width");
  Draw draw(o);
  const auto part = [&] { return draw.normal({batch, tokens, width}); };
  const at::Tensor q = part(), k = part(), v = part();
  return bounded(instance_of(attention_free, q, k, v), 4 * 4 * q.numel(),
                 (2 * kFunction + 8) * q.numel());
}

Instance causal_convolution_case(const Options& o) {
  const int64_t width = o.integer("width");
  Draw draw(o);
  const at::Tensor x = draw.normal({o.integer("batch"), o.integer("tokens"), width}, at::kBFloat16);
  return bounded(instance_of(causal_convolution, x, draw.normal({width, 4}, at::kBFloat16),
                             draw.normal({width}, at::kBFloat16)),
                 2 * (2 * x.numel() + 5 * width), (10 + kFunction) * x.numel());
}

Instance route_case(const Options& o) {
  const int64_t tokens = o.integer("tokens"), experts = o.integer("experts");
  return bounded(instance_of(route, Draw(o).normal({tokens, experts})),
                 4 * tokens * experts + (8 + 16) * tokens + 4, (kFunction + 6) * tokens * experts);
}

std::vector<Axis> attended_axes(const char* heads) {
  return {{"heads", heads, "3", "heads"}, {"tokens", "1024", "131", "tokens"}};
}

}  // namespace

std::vector<Workload> mixing_cases() {
  return {
      {"linear_bias_f32", "ALiBi's causal attention weights", attended_axes("12"), linear_bias_case,
       kSums},
      {"bucket_bias_f32", "T5's attention weights with bucketed distances", attended_axes("8"),
       bucket_bias_case, kSums},
      {"rotate_pairs_f32",
       "GPT-J's rotary embedding, neighbours as pairs",
       {{"batch", "2", "2", "sequences"},
        {"tokens", "2048", "37", "tokens"},
        {"heads", "16", "3", "heads"},
        {"pairs", "32", "11", "of a head"}},
       rotate_pairs_case},
      {"attention_free_f32",
       "AFT's mixing: a softmax over time",
       {{"batch", "8", "2", "sequences"},
        {"tokens", "1024", "37", "tokens"},
        {"width", "512", "45", "features"}},
       attention_free_case,
       kSums},
      {"causal_convolution_bf16",
       "Mamba's causal convolution of each feature, SiLU",
       {{"batch", "4", "2", "sequences"},
        {"tokens", "2048", "37", "tokens"},
        {"width", "1024", "45", "features"}},
       causal_convolution_case},
      {"route_f32",
       "two experts for each token, and the balancing loss",
       {{"tokens", "65536", "211", "tokens"}, {"experts", "64", "13", "experts"}},
       route_case,
       kSums},
  };
}

}  // namespace graft::workloads::wild
